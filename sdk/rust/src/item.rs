//! The items of the stream of `Source::read`.

use bytes::Bytes;

use crate::batch::Batch;
use crate::message::Message;

/// What the stream of [`Source::read`](crate::Source::read) yields.
#[derive(Debug)]
pub enum Item<T = ()> {
    /// A message.
    Message(Message<T>),
    /// Many messages, in columns.
    Batch(Box<Batch<T>>),
    /// Where to seek for what follows the last message, or the position if there was none: for instance past messages that the
    /// source leaves out, or in quiet times. Queries record it with their next messages, or every ten seconds; then
    /// [`Source::acknowledged`](crate::Source::acknowledged) gets it. The next message needs a sequence above 0. Only for
    /// replayable sources.
    Cursor(Bytes),
    /// There are no more messages at the moment. The SDK sends what it has gathered, and reports that the source has caught
    /// up. Yield it whenever that is so, and then wait for more: runs with `availableNow` end by it.
    CaughtUp,
    /// The partition was removed and will not be listed again: yield it last. Once all of it is acknowledged, it is forgotten.
    Gone,
}

impl<T> From<Message<T>> for Item<T> {
    fn from(message: Message<T>) -> Self {
        Item::Message(message)
    }
}

impl<T> From<Batch<T>> for Item<T> {
    fn from(batch: Batch<T>) -> Self {
        Item::Batch(Box::new(batch))
    }
}
