//! The messages that were received and are not in the checkpoint yet: all of them are held in memory, up to a limit in bytes.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use headrace::Message;
use tokio::sync::{Semaphore, watch};

/// About how many bytes a message needs besides its value.
const OVERHEAD: usize = 512;

/// A message that is held. Its token is its place in the buffer.
pub type Held = Message<u64>;

/// How much has happened since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub received: AtomicU64,
    /// Datagrams for which there was no room.
    pub dropped: AtomicU64,
    /// Messages that are too large for the gateway, or for this source.
    pub oversized: AtomicU64,
    /// Messages without a priority, which are sent as they are.
    pub unparsed: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Buffer {
    limit: usize,
    /// As many permits as there are free bytes.
    room: Semaphore,
    held: Mutex<BTreeMap<u64, (Held, u32)>>,
    /// The place of the last message.
    last: watch::Sender<u64>,
    pub counters: Counters,
}

impl Buffer {
    /// A buffer for this many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            room: Semaphore::new(limit),
            held: Mutex::default(),
            last: watch::Sender::new(0),
            counters: Counters::default(),
        }
    }

    /// Adds a message once there is room.
    pub async fn put(&self, message: Held) {
        let weight = self.weight(&message);
        if let Ok(room) = self.room.acquire_many(weight).await {
            room.forget();
            self.add(message, weight);
        }
    }

    /// Adds a message, or drops it if there is no room.
    pub fn put_or_drop(&self, message: Held) {
        let weight = self.weight(&message);
        match self.room.try_acquire_many(weight) {
            Ok(room) => {
                room.forget();
                self.add(message, weight);
            }
            Err(_) => Counters::add(&self.counters.dropped),
        }
    }

    /// Returns at most `most` messages that follow a place; none if there are none.
    pub fn after(&self, place: u64, most: usize) -> Vec<Held> {
        let held = self.lock();
        held.range((Excluded(place), Unbounded)).take(most).map(|(_, (message, _))| message.clone()).collect()
    }

    /// Waits until there is a message after a place.
    pub async fn arrived_after(&self, place: u64) {
        // The sender lives as long as the buffer.
        let _ = self.last.subscribe().wait_for(|last| *last > place).await.is_ok();
    }

    /// Forgets messages, and makes room for others.
    pub fn forget(&self, places: impl IntoIterator<Item = u64>) {
        let mut held = self.lock();
        let freed: usize = places.into_iter().filter_map(|place| held.remove(&place)).map(|(_, weight)| weight as usize).sum();
        drop(held);
        self.room.add_permits(freed);
    }

    /// Waits until every message is forgotten: the largest one that there can be would find room.
    pub async fn emptied(&self) {
        let _ = self.room.acquire_many(self.most()).await.is_ok();
    }

    /// How many messages are held.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn add(&self, mut message: Held, weight: u32) {
        Counters::add(&self.counters.received);
        let mut held = self.lock();
        // Under the lock, so that the places become visible in their order.
        self.last.send_modify(|last| {
            *last += 1;
            message.token = Some(*last);
            held.insert(*last, (message, weight));
        });
    }

    fn weight(&self, message: &Held) -> u32 {
        let headers = message.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, |value| value.len()));
        let bytes = message.value.as_ref().map_or(0, |value| value.len()) + headers.sum::<usize>() + OVERHEAD;
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most())
    }

    fn most(&self) -> u32 {
        u32::try_from(self.limit).unwrap_or(u32::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (Held, u32)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn message(size: usize) -> Held {
        Message::new(vec![b'x'; size])
    }

    fn places(messages: &[Held]) -> Vec<Option<u64>> {
        messages.iter().map(|message| message.token).collect()
    }

    #[tokio::test]
    async fn what_is_not_forgotten_comes_again() {
        let buffer = Buffer::new(10_000);
        for _ in 0..3 {
            buffer.put(message(10)).await;
        }
        assert_eq!(places(&buffer.after(0, 2)), [Some(1), Some(2)]);
        buffer.forget([2]);
        assert_eq!(places(&buffer.after(0, 9)), [Some(1), Some(3)]);
        assert_eq!(places(&buffer.after(3, 9)), []);
    }

    #[tokio::test]
    async fn without_room_a_datagram_is_dropped_and_a_client_waits() {
        let buffer = Buffer::new(1200);
        buffer.put_or_drop(message(500));
        buffer.put_or_drop(message(500));
        assert_eq!((buffer.len(), buffer.counters.dropped.load(Ordering::Relaxed)), (1, 1));
        let mut waiting = Box::pin(buffer.put(message(400)));
        assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
        buffer.forget([1]);
        waiting.await;
        assert_eq!(places(&buffer.after(1, 9)), [Some(2)]);
    }

    #[tokio::test]
    async fn a_message_larger_than_the_buffer_finds_room_alone() {
        let buffer = Buffer::new(1000);
        buffer.put(message(5000)).await;
        buffer.put_or_drop(message(1));
        assert_eq!(buffer.len(), 1);
        buffer.forget([1]);
        buffer.emptied().await;
    }

    #[tokio::test]
    async fn a_reader_waits_for_the_next_message() {
        let buffer = Buffer::new(10_000);
        let (_, ()) = tokio::join!(buffer.arrived_after(0), buffer.put(message(1)));
        assert_eq!(buffer.after(0, 9).len(), 1);
    }
}
