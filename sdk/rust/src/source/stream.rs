//! One stream within one session: what it has to send, and what was sent and acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Backlog;
use super::credit::Credit;
use super::reader::{Acks, Command};
use super::repeats::Repeats;
use crate::message::Position;
use crate::packed::Packed;
use crate::protocol as pb;

/// Messages that the session has taken from a reader.
#[derive(Debug)]
pub(super) enum Entry<T> {
    /// A batch, and the room that it takes until it is sent.
    Batch(Box<Packed<T>>, #[allow(dead_code)] OwnedSemaphorePermit),
    CaughtUp(Option<Backlog>),
    /// The cursor has moved without a message.
    Cursor(Bytes),
    Ended {
        gone: bool,
    },
}

/// A stream that was opened under one id.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) partition: String,
    pub(super) name: String,
    /// The messages to send, in order; bounded by the reader's room.
    pub(super) entries: VecDeque<Entry<T>>,
    pub(super) reader: Option<watch::Sender<Command>>,
    pub(super) acks: Arc<Acks<T>>,
    /// Nothing more is sent or expected: it was rejected, or its position is lost.
    pub(super) retired: bool,
    /// Its reader has handed over everything that it had read.
    pub(super) paused: bool,
    /// Whether CreditRequest was sent since its last frame.
    pub(super) asked: bool,
    /// Credit for its next frame alone.
    pub(super) lent: Credit,
    pub(super) close_sent: bool,
    pub(super) gone: bool,
    epoch: u64,
    pub(super) repeats: Repeats,
    resume: Option<u64>,
    acknowledged: Option<u64>,
    /// How often the cursor had moved at what was acknowledged.
    moves: u64,
    last_sent: Option<u64>,
    tokens: VecDeque<(u64, T)>,
    backlog_sent: Option<pb::Backlog>,
}

impl<T> Stream<T> {
    pub(super) fn new(partition: String, name: String) -> Self {
        Self {
            partition,
            name,
            entries: VecDeque::new(),
            reader: None,
            acks: Acks::new(),
            retired: false,
            paused: false,
            asked: false,
            lent: Credit::default(),
            close_sent: false,
            gone: false,
            epoch: 0,
            repeats: Repeats::default(),
            resume: None,
            acknowledged: None,
            moves: 0,
            last_sent: None,
            tokens: VecDeque::new(),
            backlog_sent: None,
        }
    }

    /// Takes the gateway's answer; returns the resume and the acknowledged position, each only if of the current epoch.
    pub(super) fn opened(&mut self, answer: &pb::StreamOpened) -> (Option<Position>, Option<Position>) {
        self.epoch = answer.epoch;
        let current = |position: &Option<pb::Position>| {
            position.clone().filter(|position| position.epoch == answer.epoch).map(Position::from)
        };
        let (resume, acknowledged) = (current(&answer.resume), current(&answer.acknowledged));
        self.resume = resume.as_ref().map(|position| position.sequence);
        self.acknowledged = acknowledged.as_ref().map(|position| position.sequence);
        self.moves = answer.acknowledged.as_ref().map_or(0, |position| position.moves);
        (resume, acknowledged)
    }

    /// Takes an acknowledgement, and passes it to the reader; `None` if it is old.
    pub(super) fn acknowledge(&mut self, position: pb::Position) -> Option<Position> {
        let reached = (self.acknowledged, self.moves);
        if position.epoch != self.epoch || reached >= (Some(position.sequence), position.moves) {
            return None;
        }
        (self.acknowledged, self.moves) = (Some(position.sequence), position.moves);
        let position = Position::from(position);
        let count = self.tokens.iter().take_while(|(sequence, _)| *sequence <= position.sequence).count();
        self.acks.add(position.clone(), self.tokens.drain(..count).map(|(_, token)| token));
        Some(position)
    }

    /// Notes that a frame was sent, with the tokens of its messages.
    pub(super) fn sent(&mut self, last: u64, tokens: impl Iterator<Item = (u64, T)>) {
        self.last_sent = Some(last);
        self.tokens.extend(tokens);
        self.asked = false;
    }

    /// Adds what its reader has handed over. After a batch, the latest cursor and the latest report that all is read count: a
    /// source may move its cursor often while the batch waits for credit.
    pub(super) fn add(&mut self, entry: Entry<T>) {
        let kind = std::mem::discriminant(&entry);
        let after = self.entries.iter().rposition(|entry| matches!(entry, Entry::Batch(..))).map_or(0, |at| at + 1);
        if let Some(older) = (after..self.entries.len()).find(|at| std::mem::discriminant(&self.entries[*at]) == kind) {
            self.entries.remove(older);
        }
        self.entries.push_back(entry);
    }

    /// Returns a frame without messages, which moves the cursor of the place that the stream has reached.
    pub(super) fn cursor_frame(&self, stream_id: u32, cursor: Bytes) -> pb::Frame {
        let first_sequence = self.last_sent.or(self.resume).unwrap_or(0);
        pb::Frame { stream_id, first_sequence, cursor: Some(cursor), ..pb::Frame::default() }
    }

    /// Whether messages were sent and not yet acknowledged.
    pub(super) fn unacknowledged(&self) -> bool {
        !self.retired && self.last_sent > self.acknowledged
    }

    /// Whether the source has ended, and everything before the end is acknowledged.
    pub(super) fn finished(&self) -> bool {
        self.close_sent && !self.retired && self.acknowledged >= self.last_sent.max(self.resume)
    }

    /// Stops sending, and expects no more acknowledgements.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        self.entries.clear();
        self.tokens.clear();
    }

    /// Returns the backlog to report, if it has changed. `caught_up` says that nothing is left to send.
    pub(super) fn backlog(&mut self, stream_id: u32, told: Option<Backlog>, caught_up: bool) -> Option<pb::Backlog> {
        let backlog = match told {
            None if !caught_up => return None,
            None => Backlog { messages: Some(0), bytes: Some(0), latest_sequence: None },
            Some(backlog) => backlog,
        };
        let (queued_messages, queued_bytes) = self.queued();
        let mut answer = pb::Backlog {
            stream_id,
            latest_sequence: backlog.latest_sequence,
            messages: backlog.messages.map(|messages| messages + queued_messages),
            bytes: backlog.bytes.map(|bytes| bytes + queued_bytes),
        };
        if caught_up && (backlog.messages == Some(0) || backlog.bytes == Some(0)) {
            answer.latest_sequence = Some(self.last_sent.max(self.resume).unwrap_or(0));
        }
        if self.backlog_sent.as_ref() == Some(&answer) {
            return None;
        }
        self.backlog_sent = Some(answer);
        Some(answer)
    }

    fn queued(&self) -> (u64, u64) {
        let batches = self.entries.iter().filter_map(|entry| match entry {
            Entry::Batch(batch, _) => Some((u64::from(batch.len()), batch.bytes())),
            _ => None,
        });
        batches.fold((0, 0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;

    #[tokio::test]
    async fn cursors_without_messages_do_not_pile_up_behind_a_batch() {
        let mut stream = Stream::<()>::new("0".into(), "idle/0".into());
        let room = Arc::new(tokio::sync::Semaphore::new(2));
        for _ in 0..2 {
            let mut batch = Batch::new();
            batch.push(b"waits for credit");
            let permit = Arc::clone(&room).acquire_owned().await.expect("it is open");
            stream.add(Entry::Batch(Box::new(batch.pack()), permit));
            for number in 0..1000_u32 {
                stream.add(Entry::Cursor(Bytes::copy_from_slice(&number.to_le_bytes())));
                stream.add(Entry::CaughtUp(None));
            }
        }
        assert_eq!(stream.entries.len(), 6);
        let Entry::Cursor(latest) = &stream.entries[4] else { panic!("no cursor before the report") };
        assert_eq!(latest.as_ref(), 999_u32.to_le_bytes());
    }

    #[test]
    fn a_cursor_replaces_one_of_the_same_message() {
        let mut batch = Batch::<()>::new();
        for value in [b"a", b"b"] {
            batch.push(value);
            for number in 0..1000_u32 {
                batch.cursor(number.to_le_bytes().to_vec()).expect("it has a message");
            }
        }
        assert_eq!(batch.cursors.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
    }
}
