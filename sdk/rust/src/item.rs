//! The items of the stream of `Source::read`.

use crate::batch::Batch;
use crate::message::Message;

/// What the stream of [`Source::read`](crate::Source::read) yields.
#[derive(Debug)]
pub enum Item<T = ()> {
    /// A message.
    Message(Message<T>),
    /// Many messages, in columns.
    Batch(Box<Batch<T>>),
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
