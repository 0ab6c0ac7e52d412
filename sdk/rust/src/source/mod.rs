//! Sources: the trait, and one session of a source with a gateway.

mod credit;
mod reader;
mod repeats;
mod sending;
mod served;
mod session;
mod starts;
mod stream;

use std::collections::HashMap;
use std::future::{Future, ready};

use futures_util::Stream;

use crate::error::{BoxError, Error};
use crate::item::Item;
use crate::message::{Message, Position};

pub(crate) use session::serve;
pub(crate) use starts::KnownStarts;

/// How a source sends messages again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// The same position always yields the same messages: a file, a log.
    ///
    /// A growing key of a table is no position where several writers commit out of order: row 42 may be visible before row 41,
    /// and a source that has passed 42 never reads 41. Stop at a missing key until all transactions that were open when the gap
    /// was met have ended, or read only rows that are older than the longest transaction.
    Replayable,
    /// What was not acknowledged is delivered again, in no guaranteed order: a classic queue.
    Redelivering,
    /// Everything follows a cursor, but not the same messages again, nor the same boundaries: a change feed. The SDK counts
    /// sequences. The bytes of cursors must have the order of their places.
    Resumable,
}

/// What remains in a source after the messages that it has yielded, for monitoring. `None` means unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// No message that exists now has a larger sequence.
    pub latest_sequence: Option<u64>,
    /// The number of messages left.
    pub messages: Option<u64>,
    /// The number of bytes of messages left.
    pub bytes: Option<u64>,
}

/// Why a source cannot continue to read. Any error converts into [`ReadError::Failed`], so `?` works.
#[derive(Debug)]
pub enum ReadError {
    /// The source no longer has the messages after the position. The stream waits until somebody accepts the loss.
    PositionLost {
        /// The first sequence that the source still has; `None` if it cannot tell.
        earliest: Option<u64>,
        /// What happened, for humans.
        reason: String,
    },
    /// Anything else; it ends the connector.
    Failed(BoxError),
}

impl<E: Into<BoxError>> From<E> for ReadError {
    fn from(error: E) -> Self {
        ReadError::Failed(error.into())
    }
}

/// A source of messages: implement `name` and `read`, and [`run`](crate::run) it.
///
/// The SDK makes all calls for one partition one at a time, on one task: it polls the stream of `read`, and calls
/// `acknowledged`, `settle`, `unsendable` and `backlog` in between. Partitions run concurrently. An error that a method
/// returns ends the connector, except [`ReadError::PositionLost`].
///
/// ```
/// use futures_util::stream::{self, Stream};
/// use headrace::{Item, Message, Position, ReadError, Source};
///
/// struct Countdown;
///
/// impl Source for Countdown {
///     type Token = ();
///
///     fn name(&self) -> &str {
///         "countdown"
///     }
///
///     fn read(&self, _: &str, position: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
///         let done = position.map_or(0, |position| position.sequence);
///         stream::iter((done + 1..=10).map(|sequence| Ok(Message::new(format!("{}", 11 - sequence)).sequence(sequence).into())))
///     }
/// }
/// ```
pub trait Source: Send + Sync + 'static {
    /// What a message carries for [`settle`](Self::settle), such as a delivery tag; `()` for a replayable source.
    type Token: Send + 'static;

    /// The source part of stream names: partition `0` of `orders` is the stream `orders/0`. ASCII letters, digits and `._-`.
    fn name(&self) -> &str;

    /// The connector's name, shown with its sessions. Default: the source's name.
    fn connector(&self) -> &str {
        self.name()
    }

    /// The connector's version, shown with its sessions.
    fn version(&self) -> &str {
        "0"
    }

    /// How the source sends messages again after a failure. Default: replayable.
    fn kind(&self) -> SourceKind {
        SourceKind::Replayable
    }

    /// Whether [`starts`](Self::starts) chooses where partitions begin for a new query. Only for replayable sources.
    fn chooses_start(&self) -> bool {
        false
    }

    /// Whether partitions may take turns if there are more than the gateway allows streams in a session: the next is opened
    /// once one has ended and is acknowledged. Only for partitions that end, such as files. Default: too many end the connector
    /// with an error.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Returns the partitions that exist now. Default: one, named `0`.
    ///
    /// Called at the start of a session and every few seconds afterwards, so new partitions are found while the connector runs.
    /// A partition that is no longer listed continues until its stream ends. When every partition has ended and is
    /// acknowledged, and no new one is listed, the connector ends.
    fn partitions(&self) -> impl Future<Output = Result<Vec<String>, BoxError>> + Send {
        ready(Ok(vec!["0".to_owned()]))
    }

    /// Returns where partitions begin for a query that is new to the source; called only if `chooses_start` is true.
    ///
    /// The query's checkpoint stores these positions before any message. Until then the SDK keeps them, also across a restart
    /// of the gateway. A partition that the result omits begins with its first message, and so does one that appears later.
    fn starts(&self, partitions: &[String]) -> impl Future<Output = Result<HashMap<String, Position>, BoxError>> + Send {
        let _ = partitions;
        ready(Ok(HashMap::new()))
    }

    /// Returns the messages after `position`, in order.
    ///
    /// Called when a query waits for the partition, and again after each reconnect; the previous stream is dropped first. The
    /// stream may wait for its next item without limit. It ends when the partition has ended permanently. Yield
    /// [`Item::CaughtUp`] whenever there is nothing more at the moment.
    ///
    /// Sequences must increase strictly; gaps are allowed. A source may omit them: the SDK then counts from the position.
    /// `position` is `None` for the first message that exists. A source may instead continue from `position.cursor` and yield
    /// some messages again, provided that it sets their sequences. A redelivering source yields what is not acknowledged,
    /// whatever the position: it is the last one in a checkpoint, of an earlier epoch, and `None` if no checkpoint has one. Its
    /// cursor can tell whether the system behind the source is still the same.
    fn read(
        &self,
        partition: &str,
        position: Option<Position>,
    ) -> impl Stream<Item = Result<Item<Self::Token>, ReadError>> + Send;

    /// Called when everything up to `position` is in the checkpoint of every query that reads the partition. Only now may the
    /// source delete those messages. Positions increase within a session, and some may be skipped. Also called before `read`,
    /// with the last acknowledged position.
    fn acknowledged(&self, partition: &str, position: &Position) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (partition, position);
        ready(Ok(()))
    }

    /// Acknowledges messages in the external system, by their tokens. Called before `acknowledged`, with the tokens of all newly
    /// acknowledged messages, in the order in which they were yielded, each once. Tokens of a lost session are never passed.
    fn settle(&self, partition: &str, tokens: Vec<Self::Token>) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (partition, tokens);
        ready(Ok(()))
    }

    /// Handles a message that is too large for the gateway. Default: returns `error`, which ends the connector.
    ///
    /// To skip the message, store, count or reject it, and return `Ok`: the stream continues with the next one. After a
    /// restart, it may be called again for the same message. Its token is not passed to `settle`.
    fn unsendable(
        &self,
        partition: &str,
        message: Message<Self::Token>,
        error: Error,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (partition, message);
        ready(Err(error))
    }

    /// Returns what remains after the messages that the stream has yielded. Called about once a second, and when the source has
    /// caught up. Default: unknown; what has caught up is then reported as empty.
    fn backlog(&self, partition: &str) -> impl Future<Output = Option<Backlog>> + Send {
        let _ = partition;
        ready(None)
    }

    /// Releases what the source holds, such as connections. Default: does nothing.
    ///
    /// Called once, when [`Connector::serve`](crate::Connector::serve) ends, after every other method has returned: also after an
    /// error, and even if the gateway was never reached. It may block its thread. An error is logged. If another method does not
    /// return within [`Settings::close`](crate::Settings::close), `close` is not called; a `close` that does not return is left.
    fn close(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        ready(Ok(()))
    }
}
