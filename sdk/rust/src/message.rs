//! Messages and positions, and what a source may not say of them.

use bytes::Bytes;

use crate::error::Error;
use crate::protocol as pb;

/// From the first microsecond of the year 1 to the last one of the year 9999: the event times of a source.
const TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;
/// The largest cursor at a gateway that announces none, in bytes.
pub(crate) const UNANNOUNCED_CURSOR_BYTES: u32 = 4096;

/// A place in a stream: everything at or before it has been read, and nothing after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// The generation of the stream's sequences; always 0 for a replayable source.
    pub epoch: u64,
    /// The sequence of the last message at or before this position.
    pub sequence: u64,
    /// Where to seek, as a message before this position said it. It may be slightly before `sequence`.
    pub cursor: Option<Bytes>,
}

impl Position {
    /// A position of a replayable stream, without a cursor.
    pub fn at(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }
}

impl From<pb::Position> for Position {
    fn from(position: pb::Position) -> Self {
        Self { epoch: position.epoch, sequence: position.sequence, cursor: position.cursor }
    }
}

impl From<Position> for pb::Position {
    fn from(position: Position) -> Self {
        Self { epoch: position.epoch, sequence: position.sequence, cursor: position.cursor, ..Self::default() }
    }
}

/// A message. `T` is the type of its token: see [`Source::Token`](crate::Source::Token).
///
/// ```
/// use headrace::Message;
///
/// let message: Message = Message::new("hello").sequence(41).key("a").header("lang", "en");
/// assert_eq!(message.value.as_deref(), Some(b"hello".as_slice()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<T = ()> {
    /// The value; `None` for null.
    pub value: Option<Bytes>,
    /// The key; `None` for null.
    pub key: Option<Bytes>,
    /// The sequence, larger than those before; `None` for the previous one plus 1.
    pub sequence: Option<u64>,
    /// When it happened, in microseconds since 1970-01-01 UTC, in the years 1 to 9999.
    pub event_time: Option<i64>,
    /// Its id, as its source assigned it.
    pub message_id: Option<String>,
    /// Its headers: names, and values that may be null.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Where to seek for what follows this message; at most 64 KiB, or what the gateway allows.
    pub cursor: Option<Bytes>,
    /// What [`Source::settle`](crate::Source::settle) needs to acknowledge the message, such as a delivery tag.
    pub token: Option<T>,
}

impl<T> Message<T> {
    /// A message with a value.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self { value: Some(value.into()), ..Self::null() }
    }

    /// A message whose value is null.
    pub fn null() -> Self {
        Self {
            value: None,
            key: None,
            sequence: None,
            event_time: None,
            message_id: None,
            headers: Vec::new(),
            cursor: None,
            token: None,
        }
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the sequence.
    #[must_use]
    pub fn sequence(mut self, sequence: u64) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// Sets when it happened, in microseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn event_time(mut self, micros: i64) -> Self {
        self.event_time = Some(micros);
        self
    }

    /// Sets its id.
    #[must_use]
    pub fn message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Sets where to seek for what follows this message.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<Bytes>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Sets the token.
    #[must_use]
    pub fn token(mut self, token: T) -> Self {
        self.token = Some(token);
        self
    }

    /// The bytes that it adds to a frame, at most, without its cursor.
    pub(crate) fn weight(&self) -> usize {
        const LENGTHS: usize = 4 + 4 + 4 + 4 + 4 + 8;
        let headers = self.headers.iter().map(|(name, value)| 8 + name.len() + value.as_ref().map_or(0, Bytes::len));
        LENGTHS
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.key.as_ref().map_or(0, Bytes::len)
            + self.message_id.as_ref().map_or(0, String::len)
            + headers.sum::<usize>()
    }
}

/// The error of a sequence that does not increase, or is too far away.
pub(crate) fn not_after(sequence: u64, last: u64) -> Error {
    if sequence > last {
        return Error::InvalidMessage(format!("sequence {sequence} is 2^32 or more after {last}: begin a new batch"));
    }
    Error::InvalidMessage(format!("sequence {sequence} follows {last}: sequences must increase"))
}

/// Checks the event time of a source's message: a watermark behind the year 9999 would drop all other messages.
pub(crate) fn check_time(micros: Option<i64>) -> Result<(), Error> {
    match micros {
        Some(micros) if !TIMES.contains(&micros) => Err(Error::InvalidMessage(format!(
            "event time {micros} is not within the years 1 to 9999: it is in microseconds since 1970-01-01 UTC"
        ))),
        _ => Ok(()),
    }
}

/// Checks the cursor of a message against the gateway's limit.
pub(crate) fn check_cursor(sequence: u64, cursor: &Bytes, most: usize) -> Result<(), Error> {
    if cursor.len() <= most {
        return Ok(());
    }
    let size = cursor.len();
    Err(Error::InvalidMessage(format!("message {sequence}: a cursor of {size} bytes; the gateway accepts at most {most}")))
}
