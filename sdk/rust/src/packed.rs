//! A batch that is being sent: frames are cut from its front.

use std::collections::VecDeque;

use bytes::Bytes;
use prost::Message as _;

use crate::columns::Columns;
use crate::error::Error;
use crate::frame::{NULL_LENGTH, NULL_TIME, last_sequence, numbers};
use crate::message::Message;
use crate::protocol::Frame;

/// An upper bound of what a frame needs besides its columns and its cursor: tags, lengths and numbers.
const FRAME_BYTES: usize = 17 * 8;

/// The rest of a batch.
#[derive(Debug)]
pub(crate) struct Packed<T> {
    frame: Frame,
    /// Cursors, by the index of their message in the whole batch.
    cursors: VecDeque<(u32, Bytes)>,
    /// Tokens, by sequence.
    tokens: VecDeque<(u64, T)>,
    /// How many messages were cut off.
    cut: u32,
}

impl<T> Packed<T> {
    pub(crate) fn new(frame: Frame, cursors: Vec<(u32, Bytes)>, tokens: VecDeque<(u64, T)>) -> Self {
        Self { frame, cursors: cursors.into(), tokens, cut: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.frame.count
    }

    /// About its size as a frame, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.frame.encoded_len() as u64
    }

    /// Returns the first `count` messages as a frame of a stream, and leaves them in place.
    pub(crate) fn peek(&self, stream_id: u32, count: u32) -> Frame {
        let mut rest = self.frame.clone();
        let mut frame = if count < rest.count { split(&mut rest, count) } else { rest };
        frame.stream_id = stream_id;
        let end = self.cut + count;
        frame.cursor = self.cursors.iter().take_while(|(at, _)| *at < end).last().map(|(_, cursor)| cursor.clone());
        leave_out_nulls(&mut frame);
        frame
    }

    /// Cuts off a frame that `peek` returned, and returns the tokens of its messages.
    pub(crate) fn advance(&mut self, frame: &Frame) -> impl Iterator<Item = (u64, T)> + '_ {
        let last = last_sequence(frame);
        if frame.count < self.frame.count {
            let _ = split(&mut self.frame, frame.count);
        } else {
            self.frame = Frame::default();
        }
        self.cut += frame.count;
        let cut = self.cut;
        while self.cursors.front().is_some_and(|(at, _)| *at < cut) {
            self.cursors.pop_front();
        }
        let taken = self.tokens.iter().take_while(|(sequence, _)| *sequence <= last).count();
        self.tokens.drain(..taken)
    }

    /// Returns how many messages fit into a frame of at most `bytes`; 0 if not even one does.
    pub(crate) fn fit(&self, stream_id: u32, bytes: u64, messages: u64) -> u32 {
        let most = u32::try_from(messages.min(u64::from(self.frame.count))).unwrap_or(u32::MAX);
        if most == 0 || self.peek(stream_id, most).encoded_len() as u64 <= bytes {
            return most;
        }
        let mut weights = Weights::new(&self.frame);
        let cursor = self.cursors.iter().map(|(_, cursor)| cursor.len()).max().unwrap_or(0);
        let mut size = FRAME_BYTES + cursor;
        for count in 0..most {
            size += weights.next();
            if size as u64 > bytes {
                // The estimate is a little high, which matters only for a single message.
                let one = count == 0 && self.peek(stream_id, 1).encoded_len() as u64 <= bytes;
                return if one { 1 } else { count };
            }
        }
        most
    }

    /// Returns the messages one by one, for a batch of which one cannot be sent.
    pub(crate) fn into_messages(mut self) -> Result<Vec<Message<T>>, Error> {
        let mut messages = Vec::with_capacity(self.frame.count as usize);
        let rows = Columns::read(&self.frame)?;
        for row in rows.iter() {
            messages.push(Message {
                value: row.value.map(|value| self.frame.values.slice_ref(value)),
                key: row.key.map(|key| self.frame.keys.slice_ref(key)),
                sequence: Some(row.sequence),
                event_time: row.event_time,
                message_id: row.message_id.map(str::to_owned),
                headers: row.headers.map(|(name, value)| (name.to_owned(), value.map(Bytes::copy_from_slice))).collect(),
                cursor: None,
                token: None,
            });
        }
        for (at, cursor) in self.cursors {
            messages[at as usize].cursor = Some(cursor);
        }
        for message in &mut messages {
            if self.tokens.front().is_some_and(|(sequence, _)| Some(*sequence) == message.sequence) {
                message.token = self.tokens.pop_front().map(|(_, token)| token);
            }
        }
        Ok(messages)
    }
}

/// The bytes that some entries have in the column that their lengths belong to.
fn bytes_of(lengths: &[u8]) -> usize {
    numbers(lengths).filter(|length| *length != NULL_LENGTH).map(|length| length as usize).sum()
}

/// Cuts the first `count` messages off a frame that has more. Cursors are not considered.
fn split(rest: &mut Frame, count: u32) -> Frame {
    let entries = count as usize;
    let mut front = Frame { first_sequence: rest.first_sequence, count, ..Frame::default() };
    front.sequence_deltas = take(&mut rest.sequence_deltas, 4 * entries);
    let span: u64 =
        if front.sequence_deltas.is_empty() { u64::from(count) } else { numbers(&front.sequence_deltas).map(u64::from).sum() };
    rest.first_sequence = rest.first_sequence.saturating_add(span);
    rest.count -= count;
    // The last distance leads to the first message of the rest.
    front.sequence_deltas.truncate(4 * (entries - 1));
    (front.keys, front.key_lengths) = take_column(&mut rest.keys, &mut rest.key_lengths, entries);
    (front.values, front.value_lengths) = take_column(&mut rest.values, &mut rest.value_lengths, entries);
    front.event_times = take(&mut rest.event_times, 8 * entries);
    (front.message_ids, front.message_id_lengths) = take_column(&mut rest.message_ids, &mut rest.message_id_lengths, entries);
    front.header_counts = take(&mut rest.header_counts, 4 * entries);
    let headers = numbers(&front.header_counts).map(|count| count as usize).sum();
    (front.header_names, front.header_name_lengths) = take_column(&mut rest.header_names, &mut rest.header_name_lengths, headers);
    (front.header_values, front.header_value_lengths) =
        take_column(&mut rest.header_values, &mut rest.header_value_lengths, headers);
    front
}

/// Takes bytes from the front of a column that may be absent.
fn take(column: &mut Bytes, bytes: usize) -> Bytes {
    if column.is_empty() { Bytes::new() } else { column.split_to(bytes.min(column.len())) }
}

fn take_column(data: &mut Bytes, lengths: &mut Bytes, entries: usize) -> (Bytes, Bytes) {
    let lengths = take(lengths, 4 * entries);
    let data = take(data, bytes_of(&lengths));
    (data, lengths)
}

/// Leaves out columns that are null throughout, and distances that are all 1.
fn leave_out_nulls(frame: &mut Frame) {
    for lengths in [&mut frame.key_lengths, &mut frame.message_id_lengths] {
        if lengths.iter().all(|byte| *byte == 0xff) {
            *lengths = Bytes::new();
        }
    }
    if frame.event_times.chunks_exact(8).all(|time| time == NULL_TIME.to_le_bytes()) {
        frame.event_times = Bytes::new();
    }
    if frame.header_counts.iter().all(|byte| *byte == 0) {
        frame.header_counts = Bytes::new();
    }
    if numbers(&frame.sequence_deltas).all(|delta| delta == 1) {
        frame.sequence_deltas = Bytes::new();
    }
}

/// What each message adds to a frame, at most.
struct Weights<'a> {
    fixed: usize,
    keys: Box<dyn Iterator<Item = u32> + 'a>,
    values: Box<dyn Iterator<Item = u32> + 'a>,
    ids: Box<dyn Iterator<Item = u32> + 'a>,
    header_counts: Box<dyn Iterator<Item = u32> + 'a>,
    header_names: Box<dyn Iterator<Item = u32> + 'a>,
    header_values: Box<dyn Iterator<Item = u32> + 'a>,
}

impl<'a> Weights<'a> {
    fn new(frame: &'a Frame) -> Self {
        let present = |column: &Bytes, bytes| if column.is_empty() { 0 } else { bytes };
        Self {
            fixed: 4
                + present(&frame.sequence_deltas, 4)
                + present(&frame.key_lengths, 4)
                + present(&frame.event_times, 8)
                + present(&frame.message_id_lengths, 4)
                + present(&frame.header_counts, 4),
            keys: Box::new(numbers(&frame.key_lengths)),
            values: Box::new(numbers(&frame.value_lengths)),
            ids: Box::new(numbers(&frame.message_id_lengths)),
            header_counts: Box::new(numbers(&frame.header_counts)),
            header_names: Box::new(numbers(&frame.header_name_lengths)),
            header_values: Box::new(numbers(&frame.header_value_lengths)),
        }
    }

    fn next(&mut self) -> usize {
        let mut weight = self.fixed;
        for lengths in [&mut self.keys, &mut self.values, &mut self.ids] {
            weight += length(lengths.next());
        }
        for _ in 0..self.header_counts.next().unwrap_or(0) {
            weight += 8 + length(self.header_names.next()) + length(self.header_values.next());
        }
        weight
    }
}

fn length(entry: Option<u32>) -> usize {
    entry.filter(|length| *length != NULL_LENGTH).map_or(0, |length| length as usize)
}
