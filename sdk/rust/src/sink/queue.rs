//! The rows of one part, on their way from the session to `stage`.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;
use tokio::sync::Notify;

use super::spill::Place;
use crate::protocol as pb;

/// How many bytes a frame needs at least besides its columns.
const OVERHEAD: usize = 512;

/// What arrives of a part.
#[derive(Debug)]
pub(super) enum Arrival {
    Frame(Box<pb::Frame>),
    /// The part is complete; the number of its messages.
    End(u64),
}

#[derive(Debug)]
enum Waiting {
    Frame(Box<pb::Frame>),
    Spilled(Place),
    /// A frame could not be kept.
    Failed(io::Error),
    End(u64),
}

/// A queue with one writer, the session, and one reader, `stage`.
#[derive(Debug)]
pub(super) struct Queue {
    /// How much may wait in memory, in bytes.
    limit: usize,
    state: Mutex<State>,
    arrived: Notify,
    /// Told when there is more room, when the reader begins to wait, and when the queue is closed. Shared by all parts.
    moved: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    starved: bool,
    closed: bool,
}

impl Queue {
    pub(super) fn new(limit: usize, moved: Arc<Notify>) -> Self {
        Self { limit, state: Mutex::default(), arrived: Notify::new(), moved }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a frame may be added; one always fits into an empty queue.
    pub(super) fn has_room(&self, frame: &pb::Frame) -> bool {
        let state = self.lock();
        state.closed || state.bytes == 0 || state.bytes + weight(frame) <= self.limit
    }

    /// Whether the reader waits for rows.
    pub(super) fn is_starved(&self) -> bool {
        let state = self.lock();
        state.starved && state.waiting.is_empty()
    }

    pub(super) fn add(&self, frame: pb::Frame) {
        self.lock().bytes += weight(&frame);
        self.push(Waiting::Frame(Box::new(frame)));
    }

    /// Adds a frame that was written to a file.
    pub(super) fn add_spilled(&self, place: io::Result<Place>) {
        self.push(place.map_or_else(Waiting::Failed, Waiting::Spilled));
    }

    /// Adds the end of the part, with the number of its messages.
    pub(super) fn end(&self, messages: u64) {
        self.push(Waiting::End(messages));
    }

    /// Drops what waits, and what still arrives.
    pub(super) fn close(&self) {
        *self.lock() = State { closed: true, ..State::default() };
        self.arrived.notify_one();
        self.moved.notify_one();
    }

    /// Waits for what comes next; `None` once the queue is closed. Safe to cancel.
    pub(super) async fn next(&self) -> Option<io::Result<Arrival>> {
        loop {
            let spilled = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                match state.waiting.front() {
                    // It stays in the queue until it is read, for a caller that does not wait that long.
                    Some(Waiting::Spilled(place)) => Some(place.clone()),
                    Some(_) => return self.pop(&mut state),
                    None => None,
                }
            };
            if let Some(place) = spilled {
                let frame = place.read().await;
                let mut state = self.lock();
                return state.waiting.pop_front().map(|_| frame.map(|frame| Arrival::Frame(Box::new(frame))));
            }
            let _starved = Starved::begin(self);
            self.arrived.notified().await;
        }
    }

    fn push(&self, waiting: Waiting) {
        let mut state = self.lock();
        if !state.closed {
            state.waiting.push_back(waiting);
        }
        drop(state);
        self.arrived.notify_one();
    }

    fn pop(&self, state: &mut State) -> Option<io::Result<Arrival>> {
        let arrival = match state.waiting.pop_front()? {
            Waiting::Frame(frame) => {
                state.bytes -= weight(&frame);
                Ok(Arrival::Frame(frame))
            }
            Waiting::End(messages) => Ok(Arrival::End(messages)),
            Waiting::Failed(error) => Err(error),
            Waiting::Spilled(_) => return None,
        };
        self.moved.notify_one();
        Some(arrival)
    }
}

/// A reader that waits for rows, until it is dropped.
struct Starved<'a>(&'a Queue);

impl<'a> Starved<'a> {
    fn begin(queue: &'a Queue) -> Self {
        queue.lock().starved = true;
        queue.moved.notify_one();
        Self(queue)
    }
}

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        self.0.lock().starved = false;
    }
}

fn weight(frame: &pb::Frame) -> usize {
    frame.encoded_len() + OVERHEAD
}
