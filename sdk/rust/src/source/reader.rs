//! Reads one partition: gathers messages into batches, and delivers acknowledgements.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep_until};

use super::{Backlog, ReadError, Source, SourceKind};
use crate::batch::{Batch, size_alone};
use crate::calls::{Calls, Noted};
use crate::error::Error;
use crate::frame::MAX_SEQUENCE;
use crate::item::Item;
use crate::message::{Message, Position, check_cursor, check_time, not_after};
use crate::packed::Packed;
use crate::settings::Settings;

/// How many batches of a stream may wait for the session.
const ROOM: usize = 4;
/// How many items are taken at once before acknowledgements and the clock get their turn.
const ITEMS_AT_ONCE: usize = 1024;
const BACKLOG_INTERVAL: Duration = Duration::from_secs(1);

/// A message of a reader to the session.
pub(super) enum Event<T> {
    Batch(Box<Packed<T>>, OwnedSemaphorePermit),
    /// Nothing more at the moment, and what the source says of its backlog.
    CaughtUp(Option<Backlog>),
    /// The cursor has moved without a message.
    Cursor(Bytes),
    /// The source's backlog meanwhile.
    Backlog(Backlog),
    Ended {
        gone: bool,
    },
    /// Everything that was read has been handed over, as `Command::Pause` asked.
    Paused,
    Lost {
        earliest: Option<u64>,
        reason: String,
    },
    Failed(Error),
}

/// An order of the session to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    /// Read no more, hand over what was read, and continue to deliver acknowledgements.
    Pause,
    Stop,
}

/// How long frames gather messages, as the gateway last said.
#[derive(Debug, Default)]
pub(super) struct Pace(AtomicU64);

impl Pace {
    pub(super) fn set(&self, linger: Duration) {
        self.0.store(u64::try_from(linger.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn linger(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Acknowledgements that a reader has not delivered yet. Positions replace each other; tokens are bounded by credit.
#[derive(Debug)]
pub(super) struct Acks<T> {
    waiting: Mutex<(Option<Position>, Vec<T>)>,
    changed: Notify,
}

impl<T> Acks<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::new((None, Vec::new())), changed: Notify::new() })
    }

    pub(super) fn add(&self, position: Position, tokens: impl Iterator<Item = T>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0 = Some(position);
        waiting.1.extend(tokens);
        drop(waiting);
        self.changed.notify_one();
    }

    fn take(&self) -> (Option<Position>, Vec<T>) {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One partition, to be read in one session.
pub(super) struct Reader<S: Source> {
    pub(super) source: Arc<S>,
    pub(super) stream_id: u32,
    pub(super) stream: String,
    pub(super) partition: String,
    pub(super) position: Option<Position>,
    pub(super) acknowledged: Option<Position>,
    /// The sequence of the first message, if the source omits sequences.
    pub(super) next_sequence: u64,
    pub(super) max_frame_bytes: u64,
    pub(super) max_cursor_bytes: usize,
    pub(super) settings: Settings,
    pub(super) calls: Calls,
    pub(super) pace: Arc<Pace>,
    pub(super) acks: Arc<Acks<S::Token>>,
    pub(super) events: mpsc::Sender<(u32, Event<S::Token>)>,
    pub(super) commands: watch::Receiver<Command>,
    /// The partition's reader under an earlier stream id, if it may still run.
    pub(super) previous: Option<watch::Sender<Command>>,
}

/// Messages that are gathered, and messages that wait for the session.
struct Gathered<T> {
    batch: Batch<T>,
    /// Messages of a batch that could not be sent whole.
    unpacked: VecDeque<Message<T>>,
    next_sequence: u64,
    last: Option<u64>,
    began: Instant,
    max_cursor_bytes: usize,
    /// Whether the source omits sequences by its kind.
    counted: bool,
}

enum Step<T> {
    Progress,
    Full,
    CaughtUp,
    Cursor(Bytes),
    Batch(Box<Batch<T>>),
    Unsendable(Box<Message<T>>, Error),
    Ended { gone: bool },
    Failed(ReadError),
    Invalid(Error),
}

enum Ready<T> {
    Batch(Box<Packed<T>>),
    Event(Event<T>),
}

impl<S: Source> Reader<S> {
    /// Reads until it is stopped.
    pub(super) async fn run(mut self) {
        if let Some(previous) = self.previous.take() {
            previous.closed().await;
        }
        let failed = self.read().await.err();
        if let Some(error) = failed {
            let event = match error {
                ReadError::PositionLost { earliest, reason } => Event::Lost { earliest, reason },
                ReadError::Failed(cause) => Event::Failed(match cause.downcast::<Error>() {
                    Ok(error) => *error,
                    Err(cause) => self.failed("read()", cause),
                }),
            };
            // A session that is ending no longer listens.
            let _ = self.events.send((self.stream_id, event)).await;
        }
    }

    async fn read(&self) -> Result<(), ReadError> {
        let source = Arc::clone(&self.source);
        let partition = self.partition.clone();
        if let Some(position) = &self.acknowledged {
            self.call("acknowledged", source.acknowledged(&partition, position)).await?;
        }
        let noted = self.calls.begin::<S>("read", &self.stream);
        let read = || source.read(&partition, self.position.clone());
        let mut items = pin!(noted.run(read).fuse());
        let mut gathered = Gathered {
            batch: Batch::new(),
            unpacked: VecDeque::new(),
            next_sequence: self.next_sequence,
            last: None,
            began: Instant::now(),
            max_cursor_bytes: self.max_cursor_bytes,
            counted: source.kind() != SourceKind::Replayable,
        };
        let mut commands = self.commands.clone();
        let room = Arc::new(Semaphore::new(ROOM));
        let mut ready: VecDeque<Ready<S::Token>> = VecDeque::new();
        let mut backlog_due = interval(BACKLOG_INTERVAL);
        backlog_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent_at: Option<Instant> = None;
        let (mut reading, mut caught_up) = (true, false);
        loop {
            let linger = self.pace.linger();
            let flush_at = if caught_up { sent_at.map_or(gathered.began, |at| at + linger) } else { gathered.began + linger };
            tokio::select! {
                biased;
                changed = commands.changed() => {
                    if changed.is_err() || *commands.borrow_and_update() == Command::Stop {
                        return self.deliver(&source, &partition).await;
                    }
                    if reading {
                        gathered.flush(&mut ready);
                        reading = false;
                    }
                    ready.push_back(Ready::Event(Event::Paused));
                }
                () = self.acks.changed.notified() => {
                    self.deliver(&source, &partition).await?;
                }
                slot = reserve(&room, &self.events, needs_room(&ready)), if !ready.is_empty() => {
                    let Some((room, slot)) = slot else { return Ok(()) };
                    let event = match (ready.pop_front(), room) {
                        (Some(Ready::Batch(batch)), Some(room)) => {
                            sent_at = Some(Instant::now());
                            Event::Batch(batch, room)
                        }
                        (Some(Ready::Event(event)), _) => event,
                        _ => continue,
                    };
                    slot.send((self.stream_id, event));
                }
                () = sleep_until(flush_at), if reading && ready.is_empty() && (caught_up || !gathered.batch.is_empty()) => {
                    gathered.flush(&mut ready);
                    if std::mem::take(&mut caught_up) {
                        let backlog = self.calls.during::<S, _>("backlog", &self.stream, source.backlog(&partition)).await;
                        ready.push_back(Ready::Event(Event::CaughtUp(backlog)));
                    }
                }
                _ = backlog_due.tick(), if reading && ready.is_empty() && !caught_up => {
                    if let Some(backlog) = self.calls.during::<S, _>("backlog", &self.stream, source.backlog(&partition)).await {
                        ready.push_back(Ready::Event(Event::Backlog(gathered.added_to(backlog))));
                    }
                }
                step = std::future::poll_fn(|context| noted.run(|| self.fill(context, &noted, items.as_mut(), &mut gathered, &mut caught_up))),
                    if reading && ready.is_empty() =>
                {
                    match step {
                        Step::Progress => {}
                        Step::Full => gathered.flush(&mut ready),
                        Step::CaughtUp => caught_up = true,
                        Step::Cursor(cursor) => {
                            gathered.move_cursor(cursor, &mut ready).map_err(|error| self.in_stream(error))?;
                        }
                        Step::Batch(batch) => {
                            gathered.flush(&mut ready);
                            gathered.add_batch(*batch, self.max_frame_bytes, &mut ready).map_err(|error| self.in_stream(error))?;
                        }
                        Step::Unsendable(message, error) => {
                            gathered.flush(&mut ready);
                            if let Err(error) = self.calls.during::<S, _>("unsendable", &self.stream, source.unsendable(&partition, *message, error)).await {
                                self.hand_over(&mut commands, &room, &mut ready).await;
                                return Err(self.in_stream(error).into());
                            }
                        }
                        Step::Ended { gone } => {
                            gathered.flush(&mut ready);
                            ready.push_back(Ready::Event(Event::Ended { gone }));
                            reading = false;
                        }
                        Step::Failed(error) => {
                            gathered.flush(&mut ready);
                            self.hand_over(&mut commands, &room, &mut ready).await;
                            return Err(error);
                        }
                        Step::Invalid(error) => {
                            gathered.flush(&mut ready);
                            self.hand_over(&mut commands, &room, &mut ready).await;
                            return Err(self.in_stream(error).into());
                        }
                    }
                }
            }
        }
    }

    /// Delivers the acknowledgements that have arrived.
    async fn deliver(&self, source: &S, partition: &str) -> Result<(), ReadError> {
        let (position, tokens) = self.acks.take();
        if !tokens.is_empty() {
            self.call("settle", source.settle(partition, tokens)).await?;
        }
        match position {
            Some(position) => self.call("acknowledged", source.acknowledged(partition, &position)).await,
            None => Ok(()),
        }
    }

    /// Takes items until none is ready, or there is something to do about them.
    fn fill(
        &self,
        context: &mut Context<'_>,
        noted: &Noted,
        mut items: Pin<&mut impl Stream<Item = Result<Item<S::Token>, ReadError>>>,
        gathered: &mut Gathered<S::Token>,
        caught_up: &mut bool,
    ) -> Poll<Step<S::Token>> {
        for taken in 0..ITEMS_AT_ONCE {
            let message = match gathered.unpacked.pop_front() {
                Some(message) => message,
                None => match items.as_mut().poll_next(context) {
                    Poll::Ready(Some(Ok(Item::Message(message)))) => message,
                    Poll::Ready(Some(Ok(Item::Batch(batch)))) => return Poll::Ready(Step::Batch(batch)),
                    Poll::Ready(Some(Ok(Item::Cursor(cursor)))) => return Poll::Ready(Step::Cursor(cursor)),
                    Poll::Ready(Some(Ok(Item::CaughtUp))) => return Poll::Ready(Step::CaughtUp),
                    Poll::Ready(Some(Ok(Item::Gone))) => return Poll::Ready(Step::Ended { gone: true }),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Step::Failed(error)),
                    Poll::Ready(None) => return Poll::Ready(Step::Ended { gone: false }),
                    Poll::Pending if taken > 0 => return Poll::Ready(Step::Progress),
                    Poll::Pending => return Poll::Pending,
                },
            };
            *caught_up = false;
            noted.moved();
            if let Some(step) = gathered.add(message, self.stream_id, self.max_frame_bytes) {
                return Poll::Ready(step);
            }
            if gathered.batch.len() >= self.settings.frame_messages || gathered.batch.bytes() >= self.settings.frame_bytes {
                return Poll::Ready(Step::Full);
            }
        }
        Poll::Ready(Step::Progress)
    }

    /// Hands everything over that is ready, unless the session stops meanwhile.
    async fn hand_over(
        &self,
        commands: &mut watch::Receiver<Command>,
        room: &Arc<Semaphore>,
        ready: &mut VecDeque<Ready<S::Token>>,
    ) {
        while !ready.is_empty() {
            tokio::select! {
                changed = commands.changed() => {
                    if changed.is_err() || *commands.borrow_and_update() == Command::Stop {
                        return;
                    }
                }
                slot = reserve(room, &self.events, needs_room(ready)) => match (slot, ready.pop_front()) {
                    (Some((Some(room), slot)), Some(Ready::Batch(batch))) => slot.send((self.stream_id, Event::Batch(batch, room))),
                    (Some((_, slot)), Some(Ready::Event(event))) => slot.send((self.stream_id, event)),
                    _ => return,
                }
            }
        }
    }

    /// Awaits a method of the source.
    async fn call(&self, method: &str, call: impl Future<Output = Result<(), crate::BoxError>>) -> Result<(), ReadError> {
        let called = self.calls.during::<S, _>(method, &self.stream, call).await;
        called.map_err(|cause| ReadError::from(self.failed(&format!("{method}()"), cause)))
    }

    fn failed(&self, method: &str, cause: crate::BoxError) -> Error {
        Error::Source { source_name: self.source.name().to_owned(), doing: format!("stream {}: {method}", self.stream), cause }
    }

    /// Adds the stream to an error of a message.
    fn in_stream(&self, error: Error) -> Error {
        match error {
            Error::InvalidMessage(text) => Error::InvalidMessage(format!("stream {}: {text}", self.stream)),
            error => error,
        }
    }
}

impl<T> Gathered<T> {
    /// Adds a message; returns what is to be done if it cannot be.
    fn add(&mut self, mut message: Message<T>, stream_id: u32, max_bytes: u64) -> Option<Step<T>> {
        let sequence = match message.sequence {
            Some(sequence) if !self.counted => sequence,
            _ => self.next_sequence,
        };
        if let Err(error) = self.check(sequence) {
            return Some(Step::Invalid(error));
        }
        if !self.batch.reaches(Some(sequence)) {
            self.unpacked.push_front(message);
            return Some(Step::Full);
        }
        message.sequence = Some(sequence);
        self.next_sequence = sequence + 1;
        if let Err(error) = check_time(message.event_time) {
            return Some(Step::Unsendable(Box::new(message), error));
        }
        if let Some(cursor) = &message.cursor
            && let Err(error) = check_cursor(sequence, cursor, self.max_cursor_bytes)
        {
            return Some(Step::Invalid(error));
        }
        let cursor_bytes = message.cursor.as_ref().map_or(0, Bytes::len);
        if (message.weight() + cursor_bytes) as u64 + 4096 > max_bytes {
            match size_alone(&message, stream_id, sequence) {
                Ok(size) if size as u64 > max_bytes => {
                    let error = Error::InvalidMessage(format!(
                        "message {sequence} makes a frame of {size} bytes, but the gateway accepts at most {max_bytes}: raise its \
                         limit, or skip the message in unsendable()"
                    ));
                    return Some(Step::Unsendable(Box::new(message), error));
                }
                Ok(_) => {}
                Err(error) => return Some(Step::Invalid(error)),
            }
        }
        if self.batch.is_empty() {
            self.began = Instant::now();
        }
        if let Err(error) = self.batch.push_message(message) {
            return Some(Step::Invalid(error));
        }
        self.last = Some(sequence);
        None
    }

    /// Adds a cursor to the message before it, or hands it over alone if that was handed over.
    fn move_cursor(&mut self, cursor: Bytes, ready: &mut VecDeque<Ready<T>>) -> Result<(), Error> {
        // What it stands after is received or sent: no message may have that sequence.
        let last = self.last.unwrap_or(self.next_sequence - 1);
        check_cursor(last, &cursor, self.max_cursor_bytes)?;
        self.last = Some(last);
        if self.batch.is_empty() {
            ready.push_back(Ready::Event(Event::Cursor(cursor)));
            return Ok(());
        }
        self.batch.cursor(cursor)
    }

    /// Adds a batch that the source made.
    fn add_batch(&mut self, mut batch: Batch<T>, max_bytes: u64, ready: &mut VecDeque<Ready<T>>) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let first = match batch.first {
            Some(first) if !self.counted => first,
            _ => self.next_sequence,
        };
        self.check(first)?;
        self.check(first.saturating_add(batch.span))?;
        for (at, cursor) in &batch.cursors {
            check_cursor(first + u64::from(*at), cursor, self.max_cursor_bytes)?;
        }
        batch.first = Some(first);
        let cursor_bytes = batch.cursors.iter().map(|(_, cursor)| cursor.len()).max().unwrap_or(0);
        if (batch.bytes() + cursor_bytes) as u64 + 4096 > max_bytes {
            // A single message may be too large: they are looked at one by one.
            self.unpacked = batch.pack().into_messages()?.into();
            return Ok(());
        }
        self.last = batch.last();
        self.next_sequence = first + batch.span + 1;
        ready.push_back(Ready::Batch(Box::new(batch.pack())));
        Ok(())
    }

    /// Checks that a sequence is allowed next.
    fn check(&self, sequence: u64) -> Result<(), Error> {
        if sequence > MAX_SEQUENCE {
            return Err(Error::InvalidMessage(format!("sequence {sequence} is larger than 2^63 - 1")));
        }
        match self.last {
            Some(last) if sequence <= last => Err(not_after(sequence, last)),
            _ => Ok(()),
        }
    }

    fn flush(&mut self, ready: &mut VecDeque<Ready<T>>) {
        if !self.batch.is_empty() {
            ready.push_back(Ready::Batch(Box::new(std::mem::take(&mut self.batch).pack())));
        }
    }

    /// Adds what is gathered to a backlog.
    fn added_to(&self, backlog: Backlog) -> Backlog {
        Backlog {
            messages: backlog.messages.map(|messages| messages + self.batch.len() as u64),
            bytes: backlog.bytes.map(|bytes| bytes + self.batch.bytes() as u64),
            ..backlog
        }
    }
}

type Slot<'a, T> = (Option<OwnedSemaphorePermit>, mpsc::Permit<'a, (u32, Event<T>)>);

/// Waits for room for the first event; `None` if the session has ended.
async fn reserve<'a, T>(
    room: &Arc<Semaphore>,
    events: &'a mpsc::Sender<(u32, Event<T>)>,
    needs_room: bool,
) -> Option<Slot<'a, T>> {
    let room = if needs_room { Some(Arc::clone(room).acquire_owned().await.ok()?) } else { None };
    Some((room, events.reserve().await.ok()?))
}

/// Whether the first event is a batch, which needs room.
fn needs_room<T>(ready: &VecDeque<Ready<T>>) -> bool {
    matches!(ready.front(), Some(Ready::Batch(_)))
}
