//! The rows that a sink receives.

use bytes::Bytes;
use tokio::sync::watch;

use super::Outcomes;
use super::queue::{Arrival, Queue};
use crate::batch::Batch;
use crate::calls::Noted;
use crate::columns::{Columns, Row};
use crate::error::Error;
use crate::message::Message;
use crate::protocol as pb;

/// Consecutive rows of a part, as one frame brought them.
#[derive(Debug, Clone)]
pub struct Rows {
    frame: pb::Frame,
}

impl Rows {
    /// Checks the columns of a frame.
    pub(super) fn read(frame: pb::Frame) -> Result<Self, Error> {
        Columns::read(&frame)?;
        Ok(Self { frame })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.frame.count as usize
    }

    /// Whether there are no rows; never so.
    pub fn is_empty(&self) -> bool {
        self.frame.count == 0
    }

    /// The rows, in order. Their sequences are their places in the part, counted from 0.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        Columns::checked(&self.frame).iter()
    }

    /// Returns the rows that are not refused, if there are any.
    pub(super) fn without(&self, outcomes: &Outcomes) -> Result<Option<Self>, Error> {
        let mut refused = outcomes.refused().iter().map(|refused| refused.sequence).peekable();
        let mut kept: Batch = Batch::new();
        for row in self.iter() {
            if refused.next_if_eq(&row.sequence).is_some() {
                continue;
            }
            let mut message = Message::null();
            message.value = row.value.map(|value| self.frame.values.slice_ref(value));
            message.key = row.key.map(|key| self.frame.keys.slice_ref(key));
            message.sequence = Some(row.sequence);
            message.event_time = row.event_time;
            message.message_id = row.message_id.map(str::to_owned);
            message.headers = row.headers.map(|(name, value)| (name.to_owned(), value.map(Bytes::copy_from_slice))).collect();
            kept.push_row(message)?;
        }
        let count = kept.count;
        Ok((count > 0).then(|| Self { frame: kept.pack().peek(0, count) }))
    }

    pub(super) fn first(&self) -> u64 {
        self.frame.first_sequence
    }

    pub(super) fn bytes(&self) -> usize {
        prost::Message::encoded_len(&self.frame)
    }
}

/// Why the rows of a part do not arrive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The part was dropped, or the session ended. Return: the SDK cleans up.
    #[error("the part was dropped")]
    Dropped,
    /// Rows are missing.
    #[error("messages of a part: {expected} expected, {arrived} arrived")]
    Incomplete {
        /// How many have arrived.
        arrived: u64,
        /// How many the part has.
        expected: u64,
    },
    /// A frame is broken.
    #[error(transparent)]
    Broken(#[from] Error),
    /// The temporary file cannot be used in which rows wait: see [`Settings::queue_bytes`](crate::Settings::queue_bytes).
    #[error("the temporary file for rows that wait: {0}")]
    Spill(#[source] std::io::Error),
}

/// The rows of a part, as they arrive.
#[derive(Debug)]
pub struct PartRows<'a> {
    pub(super) queue: &'a Queue,
    pub(super) dropped: &'a mut watch::Receiver<bool>,
    pub(super) taken: &'a mut Taken,
    pub(super) noted: &'a Noted,
}

/// How far a part was taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) rows: u64,
    pub(super) to_the_end: bool,
}

impl PartRows<'_> {
    /// Waits for the next rows; `None` at the end of the part.
    ///
    /// # Errors
    ///
    /// See [`RowError`].
    pub async fn next(&mut self) -> Result<Option<Rows>, RowError> {
        if self.taken.to_the_end {
            return Ok(None);
        }
        let waiting = self.noted.leave();
        let arrival = tokio::select! {
            biased;
            _ = self.dropped.wait_for(|dropped| *dropped) => return Err(RowError::Dropped),
            arrival = self.queue.next() => arrival.ok_or(RowError::Dropped)?,
        };
        drop(waiting);
        match arrival.map_err(RowError::Spill)? {
            Arrival::Frame(frame) => {
                let rows = Rows::read(*frame)?;
                self.taken.rows += rows.len() as u64;
                Ok(Some(rows))
            }
            Arrival::End(expected) if expected != self.taken.rows => {
                Err(RowError::Incomplete { arrived: self.taken.rows, expected })
            }
            Arrival::End(_) => {
                self.taken.to_the_end = true;
                Ok(None)
            }
        }
    }
}
