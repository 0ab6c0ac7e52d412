//! The source: what the buffer holds, again after each lost session, until it is acknowledged.

use std::sync::Arc;

use async_stream::stream;
use futures_util::Stream;
use headrace::{BoxError, Error, Item, Message, Position, ReadError, Source, SourceKind};

use crate::buffer::{Buffer, Counters};

/// How many messages are taken out of the buffer at once.
const AT_ONCE: usize = 1000;

pub struct Syslog {
    pub name: String,
    pub buffer: Arc<Buffer>,
}

impl Source for Syslog {
    /// The place of the message in the buffer.
    type Token = u64;

    fn name(&self) -> &str {
        &self.name
    }

    fn connector(&self) -> &str {
        "rust-syslog"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Redelivering
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item<u64>, ReadError>> + Send {
        stream! {
            let mut place = 0;
            loop {
                let messages = self.buffer.after(place, AT_ONCE);
                if messages.is_empty() {
                    yield Ok(Item::CaughtUp);
                    self.buffer.arrived_after(place).await;
                }
                for message in messages {
                    place = message.token.unwrap_or(place);
                    yield Ok(message.into());
                }
            }
        }
    }

    async fn settle(&self, _: &str, places: Vec<u64>) -> Result<(), BoxError> {
        self.buffer.forget(places);
        Ok(())
    }

    async fn unsendable(&self, _: &str, message: Message<u64>, error: Error) -> Result<(), Error> {
        tracing::warn!(%error, "a message is skipped");
        Counters::add(&self.buffer.counters.oversized);
        self.buffer.forget(message.token);
        Ok(())
    }
}
