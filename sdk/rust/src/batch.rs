//! Messages in columns, as in a frame.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use crate::error::Error;
use crate::frame::{NULL_LENGTH, NULL_TIME};
use crate::message::{Message, check_time, not_after};
use crate::packed::Packed;

/// Consecutive messages of one partition, in columns: the fastest way to yield many.
///
/// ```
/// use headrace::Batch;
///
/// let mut batch: Batch = Batch::from_sequence(100);
/// for line in ["a", "b", "c"] {
///     batch.push(line.as_bytes());
/// }
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct Batch<T = ()> {
    pub(crate) first: Option<u64>,
    /// The distance from the first sequence to the last.
    pub(crate) span: u64,
    pub(crate) count: u32,
    deltas: BytesMut,
    keys: Column,
    values: Column,
    event_times: BytesMut,
    message_ids: Column,
    header_counts: BytesMut,
    header_names: Column,
    header_values: Column,
    pub(crate) cursors: Vec<(u32, Bytes)>,
    pub(crate) tokens: Vec<(u64, T)>,
}

/// A column of bytes and its lengths. Without lengths, every entry is null.
#[derive(Debug, Clone, Default)]
struct Column {
    data: BytesMut,
    lengths: BytesMut,
}

impl Column {
    fn push(&mut self, entry: &[u8]) {
        self.data.put_slice(entry);
        self.lengths.put_u32_le(entry.len() as u32);
    }

    /// Adds an entry of an optional column after `before` others.
    fn push_optional(&mut self, entry: Option<&[u8]>, before: u32) {
        match entry {
            Some(entry) => {
                if self.lengths.is_empty() {
                    self.lengths.put_bytes(0xff, before as usize * 4);
                }
                self.push(entry);
            }
            None if !self.lengths.is_empty() => self.lengths.put_u32_le(NULL_LENGTH),
            None => {}
        }
    }

    fn len(&self) -> usize {
        self.data.len() + self.lengths.len()
    }
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Batch<T> {
    /// An empty batch whose sequences continue those before it.
    pub fn new() -> Self {
        Self {
            first: None,
            span: 0,
            count: 0,
            deltas: BytesMut::new(),
            keys: Column::default(),
            values: Column::default(),
            event_times: BytesMut::new(),
            message_ids: Column::default(),
            header_counts: BytesMut::new(),
            header_names: Column::default(),
            header_values: Column::default(),
            cursors: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// An empty batch whose first message has this sequence, and each other one the next.
    pub fn from_sequence(first: u64) -> Self {
        Self { first: Some(first), ..Self::new() }
    }

    /// Adds a message that has only a value.
    pub fn push(&mut self, value: &[u8]) {
        self.values.push(value);
        self.pad();
    }

    /// Adds a message. Its sequence must be larger than the one before by less than 2^32; without one, it is the next.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMessage`] if its sequence or its event time is not allowed; the message is then not added.
    pub fn push_message(&mut self, message: Message<T>) -> Result<(), Error> {
        check_time(message.event_time)?;
        self.push_row(message)
    }

    /// Adds a message with any event time, which the rows of a sink may have.
    pub(crate) fn push_row(&mut self, message: Message<T>) -> Result<(), Error> {
        let delta = match message.sequence {
            Some(sequence) if self.count == 0 && self.first.is_none() => {
                self.first = Some(sequence);
                0
            }
            Some(sequence) => self.delta_to(sequence)?,
            None => u32::from(self.count > 0),
        };
        if let Some(cursor) = message.cursor {
            self.cursors.push((self.count, cursor));
        }
        if delta != 1 && self.count > 0 && self.deltas.is_empty() {
            for _ in 1..self.count {
                self.deltas.put_u32_le(1);
            }
            self.deltas.put_u32_le(delta);
        } else if !self.deltas.is_empty() {
            self.deltas.put_u32_le(delta);
        }
        self.span += u64::from(delta);
        let before = self.count;
        match &message.value {
            Some(value) => self.values.push(value),
            None => self.values.lengths.put_u32_le(NULL_LENGTH),
        }
        self.keys.push_optional(message.key.as_deref(), before);
        self.message_ids.push_optional(message.message_id.as_ref().map(String::as_bytes), before);
        if let Some(time) = message.event_time {
            if self.event_times.is_empty() {
                (0..before).for_each(|_| self.event_times.put_i64_le(NULL_TIME));
            }
            self.event_times.put_i64_le(time);
        } else if !self.event_times.is_empty() {
            self.event_times.put_i64_le(NULL_TIME);
        }
        self.push_headers(&message.headers);
        if let Some(token) = message.token {
            self.tokens.push((self.span, token));
        }
        self.count += 1;
        Ok(())
    }

    /// Sets where to seek for what follows the last message so far; at most 64 KiB, or what the gateway allows.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMessage`] if the batch is empty: yield [`Item::Cursor`](crate::Item::Cursor) then.
    pub fn cursor(&mut self, cursor: impl Into<Bytes>) -> Result<(), Error> {
        let cursor = cursor.into();
        let last = self.count.checked_sub(1);
        let last = last.ok_or_else(|| Error::InvalidMessage("a cursor was set on a batch without messages".into()))?;
        // Of several cursors after one message, the latest counts: a source may move its cursor often while it has no credit.
        self.cursors.pop_if(|(at, _)| *at == last);
        self.cursors.push((last, cursor));
        Ok(())
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// About the size of the batch as a frame, in bytes.
    pub fn bytes(&self) -> usize {
        let columns = [&self.keys, &self.values, &self.message_ids, &self.header_names, &self.header_values];
        let fixed = self.deltas.len() + self.event_times.len() + self.header_counts.len();
        columns.map(Column::len).iter().sum::<usize>() + fixed
    }

    /// The sequence of the last message, once the first one is known.
    pub(crate) fn last(&self) -> Option<u64> {
        self.first.filter(|_| self.count > 0).map(|first| first.saturating_add(self.span))
    }

    /// Whether a sequence can follow in the same frame.
    pub(crate) fn reaches(&self, sequence: Option<u64>) -> bool {
        match (sequence, self.last()) {
            (Some(sequence), Some(last)) => sequence.saturating_sub(last) <= u64::from(u32::MAX),
            _ => true,
        }
    }

    /// Returns the columns, ready to be cut into frames.
    pub(crate) fn pack(self) -> Packed<T> {
        let first = self.first.unwrap_or(1);
        let column = |column: Column| (column.data.freeze(), column.lengths.freeze());
        let (keys, key_lengths) = column(self.keys);
        let (values, value_lengths) = column(self.values);
        let (message_ids, message_id_lengths) = column(self.message_ids);
        let (header_names, header_name_lengths) = column(self.header_names);
        let (header_values, header_value_lengths) = column(self.header_values);
        let frame = crate::protocol::Frame {
            stream_id: 0,
            first_sequence: first,
            count: self.count,
            sequence_deltas: self.deltas.freeze(),
            keys,
            key_lengths,
            values,
            value_lengths,
            event_times: self.event_times.freeze(),
            message_ids,
            message_id_lengths,
            header_counts: self.header_counts.freeze(),
            header_names,
            header_name_lengths,
            header_values,
            header_value_lengths,
            cursor: None,
        };
        let tokens = self.tokens.into_iter().map(|(offset, token)| (first + offset, token));
        Packed::new(frame, self.cursors, tokens.collect())
    }

    /// Returns the distance to a sequence from the last one.
    fn delta_to(&self, sequence: u64) -> Result<u32, Error> {
        if self.count == 0 {
            return match self.first {
                Some(first) if first == sequence => Ok(0),
                first => Err(Error::InvalidMessage(format!(
                    "the batch begins with sequence {first:?}, its first message has {sequence}"
                ))),
            };
        }
        let last = self.last().ok_or_else(|| {
            Error::InvalidMessage(format!("message {sequence} has a sequence, but those before it in the batch have none"))
        })?;
        let delta = sequence.checked_sub(last).filter(|delta| *delta > 0).and_then(|delta| u32::try_from(delta).ok());
        delta.ok_or_else(|| not_after(sequence, last))
    }

    /// Completes the columns of a message that has only a value.
    fn pad(&mut self) {
        if self.count > 0 {
            self.span += 1;
        }
        for column in [&mut self.keys, &mut self.message_ids] {
            if !column.lengths.is_empty() {
                column.lengths.put_u32_le(NULL_LENGTH);
            }
        }
        if !self.event_times.is_empty() {
            self.event_times.put_i64_le(NULL_TIME);
        }
        if !self.header_counts.is_empty() {
            self.header_counts.put_u32_le(0);
        }
        if !self.deltas.is_empty() {
            self.deltas.put_u32_le(1);
        }
        self.count += 1;
    }

    fn push_headers(&mut self, headers: &[(String, Option<Bytes>)]) {
        if headers.is_empty() {
            if !self.header_counts.is_empty() {
                self.header_counts.put_u32_le(0);
            }
            return;
        }
        if self.header_counts.is_empty() {
            self.header_counts.put_bytes(0, self.count as usize * 4);
        }
        self.header_counts.put_u32_le(headers.len() as u32);
        for (name, value) in headers {
            self.header_names.push(name.as_bytes());
            match value {
                Some(value) => self.header_values.push(value),
                None => self.header_values.lengths.put_u32_le(NULL_LENGTH),
            }
        }
    }
}

/// Returns the size in bytes of a frame that holds only this message.
pub(crate) fn size_alone<T>(message: &Message<T>, stream_id: u32, sequence: u64) -> Result<usize, Error> {
    let mut batch: Batch = Batch::from_sequence(sequence);
    batch.push_message(Message {
        value: message.value.clone(),
        key: message.key.clone(),
        sequence: Some(sequence),
        event_time: message.event_time,
        message_id: message.message_id.clone(),
        headers: message.headers.clone(),
        cursor: message.cursor.clone(),
        token: None,
    })?;
    Ok(batch.pack().peek(stream_id, 1).encoded_len())
}
