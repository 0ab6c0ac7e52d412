//! Reads a frame message by message, after checking its columns (rules FRM-1 to FRM-11).

use bytes::Bytes;

use crate::error::Error;
use crate::frame::{MAX_SEQUENCE, NULL_LENGTH, NULL_TIME, last_sequence, numbers};
use crate::protocol::Frame;

/// The columns of a valid frame.
#[derive(Debug, Clone)]
pub(crate) struct Columns<'a> {
    frame: &'a Frame,
}

/// One message of a frame.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// The sequence; in a sink, the place of the row in its part, counted from 0.
    pub sequence: u64,
    /// The key; `None` for null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for null.
    pub value: Option<&'a [u8]>,
    /// When it happened, in microseconds since 1970-01-01 UTC.
    pub event_time: Option<i64>,
    /// Its id.
    pub message_id: Option<&'a str>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// The headers of a message: names, and values that may be null.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    left: u32,
    names: Entries<'a>,
    values: Entries<'a>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = self.names.next().flatten()?;
        Some((std::str::from_utf8(name).unwrap_or_default(), self.values.next().flatten()))
    }
}

/// The entries of a column, all null if it is absent.
#[derive(Debug, Clone)]
struct Entries<'a> {
    data: &'a [u8],
    lengths: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.lengths.split_first_chunk::<4>()?;
        self.lengths = rest;
        let length = u32::from_le_bytes(*length);
        if length == NULL_LENGTH {
            return Some(None);
        }
        let (entry, rest) = self.data.split_at_checked(length as usize)?;
        self.data = rest;
        Some(Some(entry))
    }
}

impl<'a> Columns<'a> {
    /// Checks the columns of a frame.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMessage`] names the column and the rule.
    pub(crate) fn read(frame: &'a Frame) -> Result<Self, Error> {
        let count = frame.count as usize;
        if count == 0 {
            return Err(broken("count", "FRM-1"));
        }
        let deltas = frame.sequence_deltas.len();
        if deltas != 0 && (deltas != 4 * (count - 1) || numbers(&frame.sequence_deltas).any(|delta| delta == 0)) {
            return Err(broken("sequence_deltas", "FRM-4"));
        }
        if frame.first_sequence > MAX_SEQUENCE || last_sequence(frame) > MAX_SEQUENCE {
            return Err(broken("first_sequence", "FRM-5"));
        }
        if frame.value_lengths.is_empty() {
            return Err(broken("value_lengths", "FRM-6"));
        }
        check("values", &frame.values, &frame.value_lengths, count)?;
        if !frame.key_lengths.is_empty() || !frame.keys.is_empty() {
            check("keys", &frame.keys, &frame.key_lengths, count)?;
        }
        if !frame.event_times.is_empty() && frame.event_times.len() != 8 * count {
            return Err(broken("event_times", "FRM-3"));
        }
        if !frame.message_id_lengths.is_empty() || !frame.message_ids.is_empty() {
            check("message_ids", &frame.message_ids, &frame.message_id_lengths, count)?;
            if !entries(&frame.message_ids, &frame.message_id_lengths).flatten().all(is_text) {
                return Err(broken("message_ids", "FRM-9"));
            }
        }
        check_headers(frame, count)?;
        Ok(Self { frame })
    }

    /// The columns of a frame that was checked before.
    pub(crate) fn checked(frame: &'a Frame) -> Self {
        Self { frame }
    }

    /// The messages, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let frame = self.frame;
        let mut deltas = numbers(&frame.sequence_deltas);
        let mut keys = entries(&frame.keys, &frame.key_lengths);
        let mut values = entries(&frame.values, &frame.value_lengths);
        let mut times = frame.event_times.chunks_exact(8);
        let mut ids = entries(&frame.message_ids, &frame.message_id_lengths);
        let mut counts = numbers(&frame.header_counts);
        let mut names = entries(&frame.header_names, &frame.header_name_lengths);
        let mut header_values = entries(&frame.header_values, &frame.header_value_lengths);
        let mut sequence = frame.first_sequence;
        (0..frame.count).map(move |at| {
            if at > 0 {
                sequence += u64::from(deltas.next().unwrap_or(1));
            }
            let headers = Headers { left: counts.next().unwrap_or(0), names: names.clone(), values: header_values.clone() };
            for _ in 0..headers.left {
                names.next();
                header_values.next();
            }
            Row {
                sequence,
                key: keys.next().flatten(),
                value: values.next().flatten(),
                event_time: times.next().and_then(time_of),
                message_id: ids.next().flatten().and_then(|id| std::str::from_utf8(id).ok()),
                headers,
            }
        })
    }
}

fn entries<'a>(data: &'a Bytes, lengths: &'a Bytes) -> Entries<'a> {
    Entries { data, lengths }
}

fn time_of(entry: &[u8]) -> Option<i64> {
    let time = i64::from_le_bytes(entry.try_into().ok()?);
    (time != NULL_TIME).then_some(time)
}

fn is_text(entry: &[u8]) -> bool {
    std::str::from_utf8(entry).is_ok()
}

/// Checks that a column has an entry for each message, and that the entries add up to its bytes.
fn check(name: &str, data: &Bytes, lengths: &Bytes, count: usize) -> Result<(), Error> {
    if lengths.len() != 4 * count {
        return Err(broken(name, "FRM-3"));
    }
    let sum: u64 = numbers(lengths).filter(|length| *length != NULL_LENGTH).map(u64::from).sum();
    if sum != data.len() as u64 {
        return Err(broken(name, "FRM-7"));
    }
    Ok(())
}

fn check_headers(frame: &Frame, count: usize) -> Result<(), Error> {
    let columns = [&frame.header_names, &frame.header_name_lengths, &frame.header_values, &frame.header_value_lengths];
    if frame.header_counts.is_empty() {
        return if columns.iter().all(|column| column.is_empty()) { Ok(()) } else { Err(broken("headers", "FRM-10")) };
    }
    if frame.header_counts.len() != 4 * count {
        return Err(broken("header_counts", "FRM-10"));
    }
    let headers = numbers(&frame.header_counts).map(|count| count as usize).sum();
    check("header_names", &frame.header_names, &frame.header_name_lengths, headers)?;
    check("header_values", &frame.header_values, &frame.header_value_lengths, headers)?;
    let mut names = entries(&frame.header_names, &frame.header_name_lengths);
    if !names.all(|name| name.is_some_and(is_text)) {
        return Err(broken("header_names", "FRM-11"));
    }
    Ok(())
}

fn broken(column: &str, rule: &str) -> Error {
    Error::InvalidMessage(format!("the column {column} of a frame is broken (rule {rule})"))
}
