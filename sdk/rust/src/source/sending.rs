//! Chooses what a session sends next: control messages first, then what the streams have, in turns and within credit.

use std::collections::{HashMap, VecDeque};

use prost::Message as _;

use super::credit::Credit;
use super::stream::{Entry, Stream};
use crate::frame::last_sequence;
use crate::protocol as pb;
use crate::protocol::ingest_request::Message;

/// How many frames may share a message (FRM-17).
const MAX_JOINED_FRAMES: usize = 256;
/// How large the frames are that share a message, in bytes: a larger frame gains nothing.
const MAX_JOINED_BYTES: u64 = 64 * 1024;

/// The gateway's limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) frame_bytes: u64,
    pub(super) frame_messages: u64,
    pub(super) frame_overhead: u64,
    /// Whether it takes several frames in one message.
    pub(super) joins: bool,
    /// Whether it takes frames without messages.
    pub(super) moves: bool,
    pub(super) cursor_bytes: u32,
}

/// The messages to send.
#[derive(Debug)]
pub(super) struct Outbox {
    limits: Limits,
    credit: Credit,
    control: VecDeque<Message>,
    /// Streams that have something to send, in the order of their turns.
    due: VecDeque<u32>,
    muted: bool,
    /// What comes after frames that share a message.
    following: Option<(Message, Sent)>,
}

/// The meaning of a message, besides its content.
#[derive(Debug)]
pub(super) enum Sent {
    Control,
    Frame { stream_id: u32, messages: u32, bytes: u64 },
    Closed,
}

impl Outbox {
    pub(super) fn new(limits: Limits, credit: Credit) -> Self {
        Self { limits, credit, control: VecDeque::new(), due: VecDeque::new(), muted: false, following: None }
    }

    /// Sends a control message before any further frame.
    pub(super) fn say(&mut self, message: Message) {
        self.control.push_back(message);
    }

    /// Sends no more frames.
    pub(super) fn mute(&mut self) {
        self.muted = true;
    }

    /// Queues a stream that has something to send.
    pub(super) fn make_due(&mut self, stream_id: u32) {
        if !self.due.contains(&stream_id) {
            self.due.push_back(stream_id);
        }
    }

    /// Takes credit for the session.
    pub(super) fn grant(&mut self, credit: Credit) {
        self.credit.add(credit);
    }

    /// Takes credit for one stream: its frame goes next, because a batch waits for it (SRC-32).
    pub(super) fn grant_to<T>(&mut self, stream_id: u32, stream: &mut Stream<T>, credit: Credit) {
        if stream.retired || !matches!(stream.entries.front(), Some(Entry::Batch(..))) {
            self.grant(credit);
            return;
        }
        stream.lent.add(credit);
        self.due.retain(|due| *due != stream_id);
        self.due.push_front(stream_id);
    }

    /// Returns the next message to send, with as many small frames as are due; `None` if there is none, or no credit for it.
    pub(super) fn joined<T>(&mut self, streams: &mut HashMap<u32, Stream<T>>) -> Option<(Message, Vec<Sent>)> {
        let (message, sent) = self.following.take().or_else(|| self.next(streams))?;
        let most = MAX_JOINED_BYTES.min(self.limits.frame_bytes);
        let (first, mut size) = match (message, &sent) {
            (Message::Frame(frame), Sent::Frame { bytes, .. }) if self.limits.joins && *bytes <= most => (frame, *bytes),
            (message, _) => return Some((message, vec![sent])),
        };
        let (mut frames, mut all) = (vec![first], vec![sent]);
        while frames.len() < MAX_JOINED_FRAMES {
            match self.next(streams) {
                Some((Message::Frame(frame), Sent::Frame { stream_id, messages, bytes })) if size + bytes <= most => {
                    size += bytes;
                    frames.push(frame);
                    all.push(Sent::Frame { stream_id, messages, bytes });
                }
                following => {
                    self.following = following;
                    break;
                }
            }
        }
        let message = match frames.len() {
            1 => Message::Frame(frames.remove(0)),
            _ => Message::Frames(pb::Frames { frames }),
        };
        Some((message, all))
    }

    /// Returns the next message; `None` if there is none, or no credit for it.
    fn next<T>(&mut self, streams: &mut HashMap<u32, Stream<T>>) -> Option<(Message, Sent)> {
        if let Some(message) = self.control.pop_front() {
            return Some((message, Sent::Control));
        }
        if self.muted {
            return None;
        }
        let unacknowledged = streams.values().any(Stream::unacknowledged);
        let mut blocked = false;
        let mut at = 0;
        while let Some(&stream_id) = self.due.get(at) {
            let Some(stream) = streams.get_mut(&stream_id).filter(|stream| !stream.retired && !stream.entries.is_empty()) else {
                self.end_turn(at, streams.get_mut(&stream_id));
                continue;
            };
            let wants_credit = matches!(stream.entries.front(), Some(Entry::Batch(..)));
            if !blocked && let Some(sent) = self.next_of(stream_id, stream, unacknowledged) {
                self.end_turn(at, Some(stream));
                if !stream.entries.is_empty() {
                    self.due.push_back(stream_id);
                }
                match sent {
                    (Some(message), sent) => return Some((message, sent)),
                    (None, _) => continue,
                }
            }
            // The first stream that waits for credit keeps its turn, otherwise a large message could wait forever. Only the
            // gateway knows which stream a batch waits for, so every one that waits asks (SRC-33).
            blocked = true;
            if wants_credit && !stream.asked {
                stream.asked = true;
                return Some((self.credit_request(stream_id, stream), Sent::Control));
            }
            at += 1;
        }
        None
    }

    /// Returns what a stream sends next, if anything; the outer `None` means that it waits for credit.
    fn next_of<T>(&mut self, stream_id: u32, stream: &mut Stream<T>, unacknowledged: bool) -> Option<(Option<Message>, Sent)> {
        if matches!(stream.entries.front(), Some(Entry::Batch(..))) {
            return self.frame(stream_id, stream, unacknowledged).map(|(message, sent)| (Some(message), sent));
        }
        match stream.entries.pop_front() {
            Some(Entry::Ended { gone }) => {
                stream.close_sent = true;
                stream.gone = gone;
                let close = pb::CloseStream { stream_id, end_of_stream: true, gone };
                Some((Some(Message::CloseStream(close)), Sent::Closed))
            }
            Some(Entry::Cursor(cursor)) => {
                let frame = self.limits.moves.then(|| Message::Frame(stream.cursor_frame(stream_id, cursor)));
                Some((frame, Sent::Control))
            }
            Some(Entry::CaughtUp(told)) => {
                let nothing_left = stream.entries.is_empty();
                Some((stream.backlog(stream_id, told, nothing_left).map(Message::Backlog), Sent::Control))
            }
            _ => Some((None, Sent::Control)),
        }
    }

    /// Cuts the next frame of a stream, and spends its credit.
    fn frame<T>(&mut self, stream_id: u32, stream: &mut Stream<T>, unacknowledged: bool) -> Option<(Message, Sent)> {
        let Some(Entry::Batch(batch, _)) = stream.entries.front_mut() else {
            return None;
        };
        let mut available = self.credit;
        available.add(stream.lent);
        let bytes = self.limits.frame_bytes.min(available.bytes.saturating_sub(self.limits.frame_overhead));
        let messages = self.limits.frame_messages.min(available.messages);
        let count = batch.fit(stream_id, bytes, messages);
        if count == 0 {
            return None;
        }
        if count < batch.len() && unacknowledged && stream.lent == Credit::default() {
            // Credit will return with the next commit: wait for a whole frame, lest frames become smaller and smaller.
            let whole = batch.fit(stream_id, self.limits.frame_bytes, self.limits.frame_messages);
            if count < whole / 2 {
                return None;
            }
        }
        let frame = batch.peek(stream_id, count);
        let size = frame.encoded_len() as u64;
        let last = last_sequence(&frame);
        let tokens: Vec<_> = batch.advance(&frame).collect();
        if batch.len() == 0 {
            stream.entries.pop_front();
        }
        stream.repeats.note(&frame);
        stream.sent(last, tokens.into_iter());
        self.credit.add(stream.lent.take());
        self.credit.spend(Credit { bytes: size + self.limits.frame_overhead, messages: u64::from(count) });
        Some((Message::Frame(frame), Sent::Frame { stream_id, messages: count, bytes: size }))
    }

    /// Requests credit for a stream's next message; also states the size of all that it could send in one frame.
    fn credit_request<T>(&self, stream_id: u32, stream: &Stream<T>) -> Message {
        let mut request = pb::CreditRequest { stream_id, messages: 1, ..pb::CreditRequest::default() };
        if let Some(Entry::Batch(batch, _)) = stream.entries.front() {
            request.bytes = batch.peek(stream_id, 1).encoded_len() as u64;
            let ready = batch.fit(stream_id, self.limits.frame_bytes, self.limits.frame_messages);
            if ready > 0 {
                request.ready_bytes = Some(batch.peek(stream_id, ready).encoded_len() as u64);
                request.ready_messages = Some(u64::from(ready));
            }
        }
        Message::CreditRequest(request)
    }

    /// Ends a stream's turn; credit that was for it alone belongs to the session.
    fn end_turn<T>(&mut self, at: usize, stream: Option<&mut Stream<T>>) {
        self.due.remove(at);
        if let Some(stream) = stream {
            self.credit.add(stream.lent.take());
        }
    }
}
