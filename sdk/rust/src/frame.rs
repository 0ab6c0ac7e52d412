//! The numbers in the columns of a frame.

use crate::protocol::Frame;

pub(crate) const NULL_LENGTH: u32 = u32::MAX;
pub(crate) const NULL_TIME: i64 = i64::MIN;
pub(crate) const MAX_SEQUENCE: u64 = (1 << 63) - 1;

/// Returns the sequence of a frame's last message.
pub(crate) fn last_sequence(frame: &Frame) -> u64 {
    let span = if frame.sequence_deltas.is_empty() {
        u64::from(frame.count.saturating_sub(1))
    } else {
        numbers(&frame.sequence_deltas).map(u64::from).sum()
    };
    frame.first_sequence.saturating_add(span)
}

/// The entries of a column of u32.
pub(crate) fn numbers(column: &[u8]) -> impl Iterator<Item = u32> + '_ {
    column.chunks_exact(4).map(|entry| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]))
}
