//! One session of a source with a gateway, from Hello to its end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::Streaming;
use tracing::Instrument as _;

use super::credit::Credit;
use super::reader::{Command, Event, Pace, Reader};
use super::repeats::{News, Repeats};
use super::sending::{Limits, Outbox, Sent};
use super::stream::{Entry, Stream};
use super::{KnownStarts, Source, SourceKind, starts};
use crate::call::{Finish, Task, goodbye_text, stopped};
use crate::ending::error_of;
use crate::error::{Ending, Error};
use crate::health::Reporter;
use crate::message::{Position, UNANNOUNCED_CURSOR_BYTES};
use crate::names::stream_name;
use crate::protocol as pb;
use crate::protocol::ingest_request::Message as Request;
use crate::protocol::ingest_response::Message as Response;

const OWNED_RETRY: Duration = Duration::from_secs(1);
const FIRST_LOST_RETRY: Duration = Duration::from_millis(500);
const MAX_LOST_RETRY: Duration = Duration::from_secs(30);
const GOODBYE: Duration = Duration::from_secs(1);
const IGNORES: &str = "read ignores its position: it yields what was received before; begin after position.sequence";
/// How many events of all readers may wait for the session.
const EVENTS: usize = 64;

/// Serves a session after Welcome, until it ends.
pub(crate) async fn serve<S: Source>(
    task: &Task,
    source: &Arc<S>,
    known: &mut KnownStarts,
    welcome: pb::Welcome,
    requests: mpsc::Sender<pb::IngestRequest>,
    responses: Streaming<pb::IngestResponse>,
) -> Result<Finish, Error> {
    let pace = Pace::default();
    pace.set(welcome.pace.map_or(task.settings.linger, |pace| Duration::from_millis(pace.linger_ms.into())));
    let credit = welcome.credit.as_ref().map(Credit::from).unwrap_or_default();
    let limits = Limits {
        frame_bytes: welcome.max_frame_bytes,
        frame_messages: welcome.max_frame_messages.into(),
        frame_overhead: welcome.frame_overhead_bytes.into(),
        joins: welcome.capabilities.contains(&pb::Capability::Frames.into()),
        moves: welcome.capabilities.contains(&pb::Capability::Cursors.into()),
        cursor_bytes: match welcome.max_cursor_bytes {
            0 => UNANNOUNCED_CURSOR_BYTES,
            announced => announced,
        },
    };
    let (events, inbox) = mpsc::channel(EVENTS);
    let mut session = Session {
        task,
        source,
        known,
        limits,
        max_streams: welcome.max_streams as usize,
        pace: Arc::new(pace),
        outbox: Outbox::new(limits, credit),
        streams: HashMap::new(),
        current: HashMap::new(),
        ended: HashSet::new(),
        gone: HashSet::new(),
        any_ended: false,
        is_full: false,
        lost_in_a_row: HashMap::new(),
        reopen: Vec::new(),
        stopping: HashMap::new(),
        next_id: 1,
        events,
        readers: JoinSet::new(),
        partitions: JoinSet::new(),
        starting: JoinSet::new(),
        poll_at: Instant::now(),
        starts_wanted: false,
        leaving: None,
        reporter: task.health.reporter(),
    };
    let result = session.run(inbox, requests, responses).await;
    session.close().await;
    result
}

/// The partitions whose starts the source was asked for, and its answer.
type Started = (Vec<String>, Result<HashMap<String, Position>, Error>);

/// Why and until when a session is ending.
struct Leaving {
    why: Result<Finish, Error>,
    by: Instant,
    /// Whether what was read is sent first.
    flush: bool,
}

struct Session<'a, S: Source> {
    task: &'a Task,
    source: &'a Arc<S>,
    known: &'a mut KnownStarts,
    limits: Limits,
    max_streams: usize,
    pace: Arc<Pace>,
    outbox: Outbox,
    streams: HashMap<u32, Stream<S::Token>>,
    /// The id of each partition's stream.
    current: HashMap<String, u32>,
    /// Partitions that have ended, and are acknowledged.
    ended: HashSet<String>,
    /// Those of them that were removed, until the source no longer lists them.
    gone: HashSet<String>,
    any_ended: bool,
    /// Whether partitions wait for others to end.
    is_full: bool,
    lost_in_a_row: HashMap<String, u32>,
    /// Partitions to open again, and when.
    reopen: Vec<(Instant, String)>,
    /// The last reader of each partition that was stopped: the next one waits until it has ended.
    stopping: HashMap<String, watch::Sender<Command>>,
    next_id: u32,
    events: mpsc::Sender<(u32, Event<S::Token>)>,
    readers: JoinSet<()>,
    partitions: JoinSet<Result<Vec<String>, Error>>,
    starting: JoinSet<Started>,
    poll_at: Instant,
    starts_wanted: bool,
    leaving: Option<Leaving>,
    reporter: Reporter,
}

impl<S: Source> Session<'_, S> {
    async fn run(
        &mut self,
        mut inbox: mpsc::Receiver<(u32, Event<S::Token>)>,
        requests: mpsc::Sender<pb::IngestRequest>,
        mut responses: Streaming<pb::IngestResponse>,
    ) -> Result<Finish, Error> {
        let mut stop = self.task.stop.clone();
        let mut told = false;
        let mut waiting: Option<(Request, Vec<Sent>)> = None;
        loop {
            if waiting.is_none() {
                waiting = self.outbox.joined(&mut self.streams);
            }
            if self.is_over(waiting.is_some()) {
                return self.say_goodbye(&requests, &mut responses).await;
            }
            let wake_at = self.wake_at();
            tokio::select! {
                response = responses.message() => match response {
                    Ok(Some(response)) => self.take(response),
                    Ok(None) => return Err(self.broken("the gateway ended the call without a Goodbye")),
                    Err(status) => return Err(error_of(&self.task.gateway, &status)),
                },
                slot = requests.reserve(), if waiting.is_some() => {
                    let Ok(slot) = slot else {
                        // The call is over: how, the responses say.
                        return Err(match timeout(GOODBYE, responses.message()).await {
                            Ok(Err(status)) => error_of(&self.task.gateway, &status),
                            _ => self.broken("the connection broke"),
                        });
                    };
                    if let Some((message, sent)) = waiting.take() {
                        slot.send(pb::IngestRequest { message: Some(message) });
                        sent.into_iter().for_each(|sent| self.sent(sent));
                    }
                }
                Some((stream_id, event)) = inbox.recv() => self.heard(stream_id, event),
                Some(listed) = self.partitions.join_next() => match listed {
                    Ok(Ok(partitions)) => {
                        self.task.health.answered();
                        self.listed(&partitions);
                    }
                    Ok(Err(error)) => self.fail(error),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(answer) = self.starting.join_next() => match answer {
                    Ok((asked, Ok(starts))) => match self.check_starts(&starts) {
                        Ok(()) => {
                            self.known.learn(&asked, starts);
                            self.say_starts();
                        }
                        Err(error) => self.fail(error),
                    },
                    Ok((_, Err(error))) => self.fail(error),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(read) = self.readers.join_next() => if let Err(error) = read && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                },
                report = self.reporter.next() => self.outbox.say(Request::Report(report)),
                () = stopped(&mut stop), if !told => {
                    told = true;
                    self.leave(Ok(Finish::Stopped), self.task.settings.drain, true);
                }
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => self.wake(),
            }
        }
    }

    // Messages from the gateway

    fn take(&mut self, response: pb::IngestResponse) {
        match response.message {
            Some(Response::Ack(ack)) => {
                for acknowledged in ack.streams {
                    self.acknowledged(acknowledged);
                }
                if let Some(credit) = &ack.credit {
                    self.outbox.grant(credit.into());
                }
            }
            Some(Response::Credit(credit)) => match credit.stream_id.and_then(|id| Some((id, self.streams.get_mut(&id)?))) {
                Some((stream_id, stream)) => self.outbox.grant_to(stream_id, stream, (&credit).into()),
                None => self.outbox.grant((&credit).into()),
            },
            Some(Response::StreamOpened(answer)) => self.opened(answer),
            Some(Response::Reject(reject)) => self.rejected(&reject),
            Some(Response::StartsWanted(_)) => {
                self.starts_wanted = true;
                self.say_starts();
            }
            Some(Response::Pace(pace)) => self.pace.set(Duration::from_millis(pace.linger_ms.into())),
            Some(Response::Drain(drain)) => {
                tracing::info!(reason = drain.reason, "the gateway asks to reconnect");
                let deadline = Duration::from_millis(drain.deadline_ms.into());
                self.leave(Ok(Finish::Drained), deadline.mul_f64(0.9), false);
            }
            Some(Response::Welcome(_)) | None => tracing::debug!("ignored a message that this version does not know"),
        }
    }

    fn acknowledged(&mut self, acknowledged: pb::ack::Stream) {
        let Some(stream) = self.streams.get_mut(&acknowledged.stream_id) else { return };
        if let Some(position) = acknowledged.position.and_then(|position| stream.acknowledge(position)) {
            self.known.acknowledged(&stream.partition, &position);
            self.task.metrics.acknowledged(&stream.name, position.sequence);
            self.lost_in_a_row.remove(&stream.partition);
        }
        self.let_go_if_finished(acknowledged.stream_id);
    }

    /// Starts to read a stream.
    fn opened(&mut self, answer: pb::StreamOpened) {
        let (stream_id, skip_lost) = (answer.stream_id, answer.skip_lost);
        let Some(stream) = self.streams.get_mut(&stream_id) else { return };
        if stream.retired || stream.reader.is_some() || self.leaving.is_some() {
            return;
        }
        let (resume, acknowledged) = stream.opened(&answer);
        if let Some(position) = &acknowledged {
            self.known.acknowledged(&stream.partition, position);
        }
        let next_sequence = resume.as_ref().map_or(1, |position| position.sequence + 1);
        let redelivering = self.source.kind() == SourceKind::Redelivering;
        let position = resume.filter(|_| !redelivering && !skip_lost);
        tracing::info!(stream = stream.name, after = position.as_ref().map(|position| position.sequence), "reading");
        let is_replayable = self.source.kind() == SourceKind::Replayable;
        stream.repeats = Repeats::after(position.as_ref().filter(|_| is_replayable));
        let position = if redelivering { answer.earlier.map(Position::from) } else { position };
        let (commands, receiver) = watch::channel(Command::Read);
        stream.reader = Some(commands);
        let reader = Reader {
            source: Arc::clone(self.source),
            stream_id,
            stream: stream.name.clone(),
            partition: stream.partition.clone(),
            position,
            acknowledged,
            next_sequence,
            max_frame_bytes: self.limits.frame_bytes,
            max_cursor_bytes: self.limits.cursor_bytes as usize,
            settings: self.task.settings.clone(),
            calls: self.task.calls.clone(),
            pace: Arc::clone(&self.pace),
            acks: Arc::clone(&stream.acks),
            events: self.events.clone(),
            commands: receiver,
            previous: self.stopping.remove(&stream.partition),
        };
        self.readers.spawn(reader.run().in_current_span());
    }

    fn rejected(&mut self, reject: &pb::Reject) {
        let Some(stream) = self.streams.get(&reject.stream_id).filter(|stream| !stream.retired) else { return };
        let retry = Duration::from_millis(reject.retry_after_ms.into());
        match reject.reason() {
            pb::RejectReason::Reopen => {
                tracing::info!(stream = stream.name, reason = reject.message, "opening the stream again");
                self.reopen(reject.stream_id, retry);
            }
            pb::RejectReason::Owned => {
                tracing::warn!(stream = stream.name, reason = reject.message, "another instance owns the stream; trying again");
                self.reopen(reject.stream_id, if retry.is_zero() { OWNED_RETRY } else { retry });
            }
            _ => {
                let error = Error::NotPermitted { stream: stream.name.clone(), message: reject.message.clone() };
                self.retire(reject.stream_id);
                self.fail(error);
            }
        }
    }

    // Events of the readers

    fn heard(&mut self, stream_id: u32, event: Event<S::Token>) {
        let Some(stream) = self.streams.get_mut(&stream_id).filter(|stream| !stream.retired) else { return };
        let entry = match event {
            Event::Batch(batch, room) => Entry::Batch(batch, room),
            Event::CaughtUp(backlog) => Entry::CaughtUp(backlog),
            Event::Cursor(cursor) => Entry::Cursor(cursor),
            Event::Ended { gone } => Entry::Ended { gone },
            Event::Backlog(backlog) => {
                if let Some(backlog) = stream.backlog(stream_id, Some(backlog), false) {
                    self.outbox.say(Request::Backlog(backlog));
                }
                return;
            }
            Event::Paused => {
                stream.paused = true;
                return;
            }
            Event::Lost { earliest, reason } => return self.position_lost(stream_id, earliest, reason),
            Event::Failed(error) => {
                stream.paused = true;
                return self.fail(error);
            }
        };
        stream.add(entry);
        self.outbox.make_due(stream_id);
    }

    /// Reports the loss, and opens the stream again, with increasing delays if the loss recurs.
    fn position_lost(&mut self, stream_id: u32, earliest: Option<u64>, reason: String) {
        let Some(stream) = self.streams.get(&stream_id) else { return };
        tracing::warn!(stream = stream.name, reason, "position lost");
        self.task.health.error(&stream.name, format!("position lost: {reason}"));
        let times = self.lost_in_a_row.entry(stream.partition.clone()).or_default();
        let delay = match *times {
            0 => Duration::ZERO,
            times => FIRST_LOST_RETRY.saturating_mul(1 << (times - 1).min(16)).min(MAX_LOST_RETRY),
        };
        *times += 1;
        self.outbox.say(Request::PositionLost(pb::PositionLost { stream_id, earliest_sequence: earliest, reason }));
        self.reopen(stream_id, delay);
    }

    fn sent(&mut self, sent: Sent) {
        if let Sent::Frame { stream_id, messages, bytes } = sent
            && let Some(stream) = self.streams.get_mut(&stream_id)
        {
            self.task.metrics.frame_sent(&stream.name, messages.into(), bytes);
            while let Some(news) = stream.repeats.news() {
                match news {
                    News::Begins => {
                        tracing::warn!(stream = stream.name, "{IGNORES}");
                        self.task.health.error(&stream.name, IGNORES);
                    }
                    News::Passed(messages) => tracing::warn!(stream = stream.name, messages, "messages were sent again"),
                }
            }
        } else if let Sent::Closed = sent {
            let finished: Vec<u32> = self.streams.iter().filter(|(_, stream)| stream.finished()).map(|(id, _)| *id).collect();
            finished.into_iter().for_each(|stream_id| self.let_go_if_finished(stream_id));
        }
    }

    // Streams

    /// Takes the partitions that exist: opens a stream for each that is new.
    fn listed(&mut self, partitions: &[String]) {
        self.poll_at = Instant::now() + self.task.settings.partition_poll;
        if self.leaving.is_some() {
            return;
        }
        let mut seen = HashSet::new();
        if let Some(doubled) = partitions.iter().find(|partition| !seen.insert(*partition)) {
            let name = self.source.name();
            return self.fail(Error::Invalid(format!("source {name}: partitions() lists {doubled:?} twice")));
        }
        if self.source.chooses_start() {
            self.known.listed(partitions);
        }
        let unlisted: Vec<String> = self.gone.iter().filter(|partition| !partitions.contains(partition)).cloned().collect();
        for partition in unlisted {
            self.gone.remove(&partition);
            self.ended.remove(&partition);
        }
        let waiting: HashSet<&String> = self.reopen.iter().map(|(_, partition)| partition).collect();
        let is_new = |partition: &&String| {
            !self.current.contains_key(*partition) && !self.ended.contains(*partition) && !waiting.contains(partition)
        };
        let fresh: Vec<String> = partitions.iter().filter(is_new).cloned().collect();
        let open = self.current.len() + self.reopen.len();
        if open + fresh.len() > self.max_streams && !self.source.takes_turns() {
            return self.fail(Error::Invalid(format!(
                "source {} has {} partitions, but the gateway limits a session to {}: split them over several \
                 instances, or let partitions that end take turns (takes_turns())",
                self.source.name(),
                open + fresh.len(),
                self.max_streams
            )));
        }
        let room = self.max_streams.saturating_sub(open);
        self.is_full = fresh.len() > room;
        if fresh.is_empty() && self.any_ended && self.current.is_empty() && self.reopen.is_empty() {
            return self.leave(Ok(Finish::Ended), self.task.settings.drain, true);
        }
        for partition in fresh.into_iter().take(room) {
            self.open(partition);
        }
    }

    fn open(&mut self, partition: String) {
        let name = match stream_name(self.source.name(), &partition) {
            Ok(name) => name,
            Err(error) => return self.fail(error),
        };
        let stream_id = self.next_id;
        self.next_id += 1;
        let kind = match self.source.kind() {
            SourceKind::Replayable => pb::SourceKind::Replayable,
            SourceKind::Redelivering => pb::SourceKind::Redelivering,
            SourceKind::Resumable => pb::SourceKind::Resumable,
        };
        self.outbox.say(Request::OpenStream(pb::OpenStream {
            stream_id,
            stream: name.clone(),
            kind: kind.into(),
            chooses_start: self.source.chooses_start(),
        }));
        self.streams.insert(stream_id, Stream::new(partition.clone(), name));
        self.current.insert(partition, stream_id);
    }

    /// Stops a stream's reader, and opens the stream again under a new id after `delay`.
    fn reopen(&mut self, stream_id: u32, delay: Duration) {
        if let Some(partition) = self.retire(stream_id) {
            self.reopen.push((Instant::now() + delay, partition));
        }
    }

    /// Forgets a stream; returns its partition.
    fn retire(&mut self, stream_id: u32) -> Option<String> {
        let mut stream = self.streams.remove(&stream_id)?;
        stream.retire();
        if let Some(reader) = stream.reader.take() {
            let _ = reader.send(Command::Stop);
            self.stopping.insert(stream.partition.clone(), reader);
        }
        self.current.remove(&stream.partition);
        Some(stream.partition)
    }

    /// Forgets a stream that has ended, once all of it is acknowledged.
    fn let_go_if_finished(&mut self, stream_id: u32) {
        let Some(stream) = self.streams.get(&stream_id).filter(|stream| stream.finished()) else { return };
        let gone = stream.gone;
        let Some(partition) = self.retire(stream_id) else { return };
        if gone {
            // If partitions are removed, new ones may appear: the source has not ended.
            self.gone.insert(partition.clone());
        } else {
            self.any_ended = true;
        }
        self.ended.insert(partition);
        if self.current.is_empty() || self.is_full {
            self.poll_at = Instant::now();
        }
    }

    fn check_starts(&self, starts: &HashMap<String, Position>) -> Result<(), Error> {
        let most = self.limits.cursor_bytes as usize;
        for (partition, start) in starts {
            if let Some(cursor) = start.cursor.as_ref().filter(|cursor| cursor.len() > most) {
                return Err(Error::Invalid(format!(
                    "source {}: starts() gives partition {partition:?} a cursor of {} bytes; the gateway accepts at most {most}",
                    self.source.name(),
                    cursor.len()
                )));
            }
        }
        Ok(())
    }

    /// Answers StartsWanted with the starts of all streams that are opened or parked, once all are known.
    fn say_starts(&mut self) {
        if !self.starts_wanted || !self.starting.is_empty() {
            return;
        }
        let partitions: Vec<String> = self.current.keys().cloned().collect();
        let asked = self.known.unknown(&partitions);
        if !asked.is_empty() {
            let (source, calls) = (Arc::clone(self.source), self.task.calls.clone());
            self.starting.spawn(async move {
                let starts = starts::ask(source.as_ref(), &calls, &asked).await;
                (asked, starts)
            });
            return;
        }
        self.starts_wanted = false;
        let start = |(partition, stream_id): (&String, &u32)| pb::starts::Stream {
            stream_id: *stream_id,
            position: self.known.of(partition).map(pb::Position::from),
        };
        let streams = self.current.iter().map(start).collect();
        self.outbox.say(Request::Starts(pb::Starts { streams }));
    }

    // Time

    /// When there is something to do without being told.
    fn wake_at(&self) -> Option<Instant> {
        if let Some(leaving) = &self.leaving {
            return Some(leaving.by);
        }
        let poll_at = self.partitions.is_empty().then_some(self.poll_at);
        self.reopen.iter().map(|(at, _)| *at).chain(poll_at).min()
    }

    fn wake(&mut self) {
        if self.leaving.is_some() {
            return;
        }
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.reopen).into_iter().partition(|(at, _)| *at <= now);
        self.reopen = later;
        let due: Vec<(Instant, String)> = due;
        due.into_iter().for_each(|(_, partition)| self.open(partition));
        if self.partitions.is_empty() && self.poll_at <= now {
            let (source, calls) = (Arc::clone(self.source), self.task.calls.clone());
            self.partitions.spawn(async move {
                calls.during::<S, _>("partitions", "", source.partitions()).await.map_err(|cause| Error::Source {
                    source_name: source.name().to_owned(),
                    doing: "partitions()".to_owned(),
                    cause,
                })
            });
        }
    }

    // The end

    /// Ends the connector with an error, once what was read is sent and acknowledged.
    fn fail(&mut self, error: Error) {
        if self.leaving.is_none() {
            tracing::warn!(%error, "stopping, once what was read is acknowledged");
        }
        self.leave(Err(error), self.task.settings.drain, true);
    }

    /// Stops reading; ends the session once everything is acknowledged, or after `limit`.
    fn leave(&mut self, why: Result<Finish, Error>, limit: Duration, flush: bool) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(Leaving { why, by: Instant::now() + limit, flush });
        for reader in self.streams.values().filter_map(|stream| stream.reader.as_ref()) {
            let _ = reader.send(Command::Pause);
        }
        if !flush {
            self.outbox.mute();
        }
    }

    /// Whether the session is leaving, and has nothing left to send or to wait for, or no time.
    fn is_over(&self, sending: bool) -> bool {
        let Some(leaving) = &self.leaving else { return false };
        if Instant::now() >= leaving.by {
            return true;
        }
        let is_sent = |stream: &Stream<S::Token>| {
            !leaving.flush || stream.reader.is_none() || stream.entries.is_empty() && (stream.paused || stream.close_sent)
        };
        let is_done = |stream: &Stream<S::Token>| stream.retired || is_sent(stream) && !stream.unacknowledged();
        !sending && self.streams.values().all(is_done)
    }

    async fn say_goodbye(
        &mut self,
        requests: &mpsc::Sender<pb::IngestRequest>,
        responses: &mut Streaming<pb::IngestResponse>,
    ) -> Result<Finish, Error> {
        let late = self.streams.values().filter(|stream| stream.unacknowledged()).count();
        if late > 0 {
            tracing::info!(streams = late, "not acknowledged in time; to be sent again");
        }
        let why = self.leaving.take().map_or(Ok(Finish::Stopped), |leaving| leaving.why);
        let reason = goodbye_text(&why);
        let goodbye = pb::IngestRequest { message: Some(Request::Goodbye(pb::Goodbye { reason })) };
        let by = Instant::now() + GOODBYE;
        if let Ok(Ok(())) = timeout_at(by, requests.send(goodbye)).await {
            // The gateway ends the call; ending it here could overtake what was just written.
            while let Ok(Ok(Some(response))) = timeout_at(by, responses.message()).await {
                if let Some(Response::Ack(ack)) = response.message {
                    ack.streams.into_iter().for_each(|acknowledged| self.acknowledged(acknowledged));
                }
            }
        }
        why
    }

    /// Stops every reader, and waits for them.
    async fn close(&mut self) {
        for reader in self.streams.values().filter_map(|stream| stream.reader.as_ref()) {
            let _ = reader.send(Command::Stop);
        }
        self.streams.clear();
        self.partitions.abort_all();
        self.starting.abort_all();
        let by = Instant::now() + self.task.settings.drain;
        let readers = async { while self.readers.join_next().await.is_some() {} };
        if timeout_at(by, readers).await.is_err() {
            tracing::warn!(source = self.source.name(), "a method of the source does not return; it is abandoned");
        }
        self.readers.shutdown().await;
    }

    fn broken(&self, text: &str) -> Error {
        let ending = Ending { status: "UNAVAILABLE", text: text.to_owned(), reason: None, metadata: Default::default() };
        Error::Unavailable { gateway: self.task.gateway.clone(), ending }
    }
}
