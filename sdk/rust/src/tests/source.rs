//! Sources: the scripts of conformance/vectors, and what they do not cover.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_stream::try_stream;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::gateway::{Call, Gateway, SourceCall, within};
use super::json::{number, of_source, to_source, unhex, vectors};
use super::script::{Outcome, Side, play, plays_connector};
use crate::protocol as pb;
use crate::protocol::ingest_request::Message as Request;
use crate::protocol::ingest_response::Message as Answer;
use crate::{Batch, BoxError, Connector, Error, Health, Item, Message, Position, ReadError, Settings, Source, SourceKind, State};

/// A source that a script declares.
struct Declared {
    script: Value,
    partitions: Mutex<BTreeMap<String, Vec<Value>>>,
    settled: Mutex<Vec<String>>,
    changed: watch::Sender<()>,
}

impl Declared {
    fn messages(&self, partition: &str) -> Vec<Value> {
        self.partitions.lock().expect("no panic")[partition].clone()
    }

    fn is_redelivering(&self) -> bool {
        self.script["kind"] == "redelivering"
    }
}

struct Shared(Arc<Declared>);

impl Source for Shared {
    type Token = String;

    fn name(&self) -> &str {
        self.0.script["name"].as_str().expect("a name")
    }

    fn kind(&self) -> SourceKind {
        match self.0.script["kind"].as_str() {
            Some("redelivering") => SourceKind::Redelivering,
            Some("resumable") => SourceKind::Resumable,
            _ => SourceKind::Replayable,
        }
    }

    fn chooses_start(&self) -> bool {
        self.0.script.get("starts").is_some()
    }

    async fn partitions(&self) -> Result<Vec<String>, BoxError> {
        Ok(self.0.partitions.lock().expect("no panic").keys().cloned().collect())
    }

    async fn starts(&self, partitions: &[String]) -> Result<HashMap<String, Position>, BoxError> {
        let start = |partition: &String| {
            Some((partition.clone(), Position::at(self.0.script["starts"][partition].as_str()?.parse().ok()?)))
        };
        Ok(partitions.iter().filter_map(start).collect())
    }

    fn read(&self, partition: &str, position: Option<Position>) -> impl Stream<Item = Result<Item<String>, ReadError>> + Send {
        let declared = Arc::clone(&self.0);
        let partition = partition.to_owned();
        try_stream! {
            let messages = declared.messages(&partition);
            let first = messages.first().map_or(0, |message| number(&message["sequence"]));
            if declared.is_redelivering() {
                // The last position in a checkpoint is known once something was settled, and is no place to continue from.
                assert_eq!(position.as_ref().is_some_and(|earlier| earlier.epoch > 0), !declared.settled.lock().expect("no panic").is_empty());
            }
            let is_resumable = declared.script["kind"] == "resumable";
            let place = position.as_ref().and_then(|position| position.cursor.clone()).unwrap_or_default();
            let resume = position.filter(|_| !declared.is_redelivering()).map(|position| position.sequence);
            if declared.script["partitions"][&partition]["pruned"] == true && resume.is_some_and(|resume| resume + 1 < first) {
                Err(ReadError::PositionLost { earliest: Some(first), reason: "pruned".to_owned() })?;
            }
            let mut changed = declared.changed.subscribe();
            let settled = declared.settled.lock().expect("no panic").len();
            let mut at = if declared.is_redelivering() { settled } else { 0 };
            loop {
                let messages = declared.messages(&partition);
                while let Some(declared) = messages.get(at) {
                    at += 1;
                    let message = message(declared);
                    let follows = match &message.cursor {
                        Some(cursor) if is_resumable => *cursor > place,
                        _ => message.sequence.is_none() || message.sequence > resume,
                    };
                    if follows {
                        yield message.into();
                    }
                }
                if declared.script["partitions"][&partition]["then"] == "ends" {
                    return;
                }
                yield Item::CaughtUp;
                if changed.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    async fn settle(&self, _: &str, tokens: Vec<String>) -> Result<(), BoxError> {
        self.0.settled.lock().expect("no panic").extend(tokens);
        self.0.changed.send_replace(());
        Ok(())
    }
}

fn message(declared: &Value) -> Message<String> {
    let value = declared["value"].as_str().expect("a value");
    let mut message = Message::new(unhex(value)).token(value.to_owned());
    message.sequence = declared["sequence"].as_str().map(|sequence| sequence.parse().expect("a sequence"));
    message.key = declared["key"].as_str().map(unhex);
    message.event_time = declared["event_time"].as_str().map(|time| time.parse().expect("a time"));
    message.message_id = declared["message_id"].as_str().map(str::to_owned);
    message.cursor = declared["cursor"].as_str().map(unhex);
    for header in declared["headers"].as_array().into_iter().flatten() {
        message.headers.push((header[0].as_str().expect("a name").to_owned(), header[1].as_str().map(unhex)));
    }
    message
}

struct SourceSide {
    gateway: Gateway,
    declared: Arc<Declared>,
    stop: Arc<Notify>,
}

impl Side for SourceSide {
    type Request = pb::IngestRequest;
    type Answer = pb::IngestResponse;

    async fn accept(&mut self) -> Call<Self::Request, Self::Answer> {
        self.gateway.source().await
    }

    fn read(&self, request: &Self::Request) -> (&'static str, Value) {
        of_source(request)
    }

    fn write(&self, kind: &str, value: &Value, stream_id: &dyn Fn(&Value) -> u32) -> Self::Answer {
        to_source(kind, value, stream_id)
    }

    async fn step(&mut self, step: &Value) {
        if step["stop"] == true {
            self.stop.notify_one();
        }
        for (partition, messages) in step["append"].as_object().into_iter().flatten() {
            let messages = messages.as_array().expect("messages").clone();
            self.declared.partitions.lock().expect("no panic").get_mut(partition).expect("a partition").extend(messages);
            self.declared.changed.send_replace(());
        }
        if let Some(wanted) = step["settled"].as_array() {
            let mut changed = self.declared.changed.subscribe();
            let settled = || self.declared.settled.lock().expect("no panic").iter().cloned().map(Value::from).collect::<Vec<_>>();
            within(async {
                while settled() != *wanted {
                    changed.changed().await.expect("the source lives")
                }
            })
            .await;
        }
    }
}

/// Short waits, so that tests do not take long.
pub(super) fn settings() -> Settings {
    Settings { first_backoff: Duration::from_millis(1), max_backoff: Duration::from_millis(10), ..Settings::default() }
}

/// Serves a source to a gateway until it is told to stop.
fn start(gateway: &Gateway, source: impl Source, stop: &Arc<Notify>) -> Outcome {
    let connector = Connector::source(source).gateway(&gateway.address).instance("instance-0").settings(settings());
    let stop = Arc::clone(stop);
    tokio::spawn(async move { connector.serve(async move { stop.notified().await }).await })
}

#[tokio::test]
async fn the_scripts_of_sources() {
    for script in vectors("sessions/source.json")["scripts"].as_array().expect("scripts").iter().filter(|s| plays_connector(s)) {
        let partitions = script["source"]["partitions"].as_object().expect("partitions").iter();
        let partitions =
            partitions.map(|(name, partition)| (name.clone(), partition["messages"].as_array().cloned().unwrap_or_default()));
        let declared = Arc::new(Declared {
            script: script["source"].clone(),
            partitions: Mutex::new(partitions.collect()),
            settled: Mutex::default(),
            changed: watch::Sender::new(()),
        });
        let gateway = Gateway::start().await;
        let stop = Arc::new(Notify::new());
        let connector = start(&gateway, Shared(Arc::clone(&declared)), &stop);
        let mut side = SourceSide { gateway, declared, stop };
        play(script, &mut side, connector).await;
    }
}

/// A source that yields what a test wants, once.
pub(super) struct Once {
    items: Mutex<Vec<Item>>,
    /// Whether it skips messages that are too large.
    skips: bool,
    skipped: Arc<Mutex<Vec<u64>>>,
}

impl Once {
    pub(super) fn of(items: Vec<Item>, skips: bool) -> Self {
        Self { items: Mutex::new(items), skips, skipped: Arc::default() }
    }
}

impl Source for Once {
    type Token = ();

    fn name(&self) -> &str {
        "numbers"
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        stream::iter(std::mem::take(&mut *self.items.lock().expect("no panic")).into_iter().map(Ok))
    }

    async fn unsendable(&self, _: &str, message: Message, error: Error) -> Result<(), Error> {
        if self.skips {
            self.skipped.lock().expect("no panic").extend(message.sequence);
            return Ok(());
        }
        Err(error)
    }
}

/// Begins a session, with this much credit.
pub(super) async fn greet(call: &mut SourceCall, bytes: u64, messages: u64, max_frame_bytes: u64, capabilities: Vec<i32>) {
    assert!(matches!(call.next().await.and_then(|request| request.message), Some(Request::Hello(_))));
    call.send(pb::IngestResponse {
        message: Some(Answer::Welcome(pb::Welcome {
            protocol_version: 1,
            max_frame_bytes,
            max_frame_messages: 100_000,
            max_streams: 4,
            credit: Some(pb::Credit { bytes, messages, stream_id: None }),
            frame_overhead_bytes: 512,
            capabilities,
            ..pb::Welcome::default()
        })),
    })
    .await;
}

/// Begins a session, with this much credit, and opens the one stream.
pub(super) async fn open(call: &mut SourceCall, bytes: u64, messages: u64, max_frame_bytes: u64) -> u32 {
    greet(call, bytes, messages, max_frame_bytes, Vec::new()).await;
    loop {
        if let Some(Request::OpenStream(open)) = call.next().await.expect("a message").message {
            let opened = pb::StreamOpened { stream_id: open.stream_id, ..pb::StreamOpened::default() };
            call.send(pb::IngestResponse { message: Some(Answer::StreamOpened(opened)) }).await;
            return open.stream_id;
        }
    }
}

/// Waits for the next message, without kinds that may be sent at any time.
pub(super) async fn next(call: &mut SourceCall) -> Option<Request> {
    loop {
        match call.next().await?.message {
            Some(Request::Backlog(_) | Request::Report(_)) => {}
            message => return message,
        }
    }
}

/// Acknowledges everything up to a sequence.
pub(super) async fn acknowledge(call: &mut SourceCall, stream_id: u32, sequence: u64, credit: Option<pb::Credit>) {
    let position = Some(pb::Position { sequence, ..pb::Position::default() });
    let ack = pb::Ack { streams: vec![pb::ack::Stream { stream_id, position }], credit };
    call.send(pb::IngestResponse { message: Some(Answer::Ack(ack)) }).await;
}

fn numbered(count: u64, size: usize) -> Vec<Item> {
    (1..=count).map(|sequence| Message::new(vec![b'x'; size]).sequence(sequence).into()).collect()
}

#[tokio::test]
async fn frames_do_not_become_smaller_while_credit_is_short() {
    let mut gateway = Gateway::start().await;
    let stop = Arc::new(Notify::new());
    let connector = start(&gateway, Once::of(numbered(1000, 100), false), &stop);
    let mut call = gateway.source().await;
    // 10,000 bytes hold about 90 of these messages.
    let stream_id = open(&mut call, 10_000, 1000, 1 << 20).await;
    let (mut last, mut frames) = (0, 0);
    while last < 1000 {
        match next(&mut call).await {
            Some(Request::Frame(frame)) => {
                assert_eq!(frame.first_sequence, last + 1);
                last += u64::from(frame.count);
                frames += 1;
                let bytes = prost::Message::encoded_len(&frame) as u64 + 512;
                assert!(bytes <= 10_000, "a frame of {bytes} bytes");
                // Credit returns in two halves.
                for half in [bytes / 2, bytes - bytes / 2] {
                    let credit = pb::Credit { bytes: half, messages: frame.count.into(), stream_id: None };
                    let message = Some(Answer::Credit(credit));
                    call.send(pb::IngestResponse { message }).await;
                }
                acknowledge(&mut call, stream_id, last, None).await;
            }
            Some(Request::CreditRequest(request)) => assert!(request.ready_messages > Some(0)),
            other => panic!("{other:?}"),
        }
    }
    assert!(frames <= 24, "{frames} frames");
    assert!(matches!(next(&mut call).await, Some(Request::CloseStream(_))));
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    within(connector).await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_left_to_the_source() {
    let mut gateway = Gateway::start().await;
    let items = || {
        vec![
            Message::new("a").sequence(1).into(),
            Message::new(vec![b'x'; 5000]).sequence(2).into(),
            Message::new("c").sequence(3).event_time(253_402_300_799_999_999).into(),
            Message::new("the year 10000").sequence(4).event_time(253_402_300_800_000_000).into(),
        ]
    };
    let stop = Arc::new(Notify::new());
    let source = Once::of(items(), true);
    let skipped = Arc::clone(&source.skipped);
    let connector = start(&gateway, source, &stop);
    let mut call = gateway.source().await;
    let stream_id = open(&mut call, 1 << 20, 1000, 1000).await;
    let mut sequences = Vec::new();
    while sequences.len() < 2 {
        let Some(Request::Frame(frame)) = next(&mut call).await else { panic!("a frame is missing") };
        sequences.extend(frame.first_sequence..frame.first_sequence + u64::from(frame.count));
    }
    assert_eq!(sequences, [1, 3]);
    assert_eq!(*skipped.lock().expect("no panic"), [2, 4]);
    acknowledge(&mut call, stream_id, 3, None).await;
    assert!(matches!(next(&mut call).await, Some(Request::CloseStream(_))));
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    within(connector).await.expect("no panic").expect("no error");

    let connector = start(&gateway, Once::of(items(), false), &stop);
    let mut call = gateway.source().await;
    let stream_id = open(&mut call, 1 << 20, 1000, 1000).await;
    // The messages before are sent, and the error comes once it is acknowledged.
    assert!(matches!(next(&mut call).await, Some(Request::Frame(frame)) if frame.count == 1));
    acknowledge(&mut call, stream_id, 1, None).await;
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    let error = within(connector).await.expect("no panic").expect_err("an error").to_string();
    assert!(error.contains("numbers/0") && error.contains("message 2") && error.contains("1000"), "{error}");
}

#[tokio::test]
async fn sequences_that_do_not_increase_end_the_connector() {
    let mut gateway = Gateway::start().await;
    let items = vec![Message::new("a").sequence(5).into(), Message::new("b").sequence(5).into()];
    let connector = start(&gateway, Once::of(items, false), &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    let stream_id = open(&mut call, 1 << 20, 1000, 1 << 20).await;
    assert!(matches!(next(&mut call).await, Some(Request::Frame(frame)) if frame.count == 1));
    acknowledge(&mut call, stream_id, 5, None).await;
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    let error = within(connector).await.expect("no panic").expect_err("an error").to_string();
    assert_eq!(error, "stream numbers/0: sequence 5 follows 5: sequences must increase");
}

#[tokio::test]
async fn batches_are_sent_as_they_are_and_split_within_the_limits() {
    let mut gateway = Gateway::start().await;
    let mut batch: Batch = Batch::from_sequence(10);
    (0..300).for_each(|_| batch.push(&[b'x'; 10]));
    let connector = start(&gateway, Once::of(vec![batch.into(), Item::Gone], false), &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    let stream_id = open(&mut call, 1 << 20, 100_000, 2000).await;
    let mut last = 9;
    while last < 309 {
        let Some(Request::Frame(frame)) = next(&mut call).await else { panic!("a frame is missing") };
        assert_eq!(frame.first_sequence, last + 1);
        assert!(prost::Message::encoded_len(&frame) <= 2000);
        last += u64::from(frame.count);
    }
    acknowledge(&mut call, stream_id, 309, None).await;
    let Some(Request::CloseStream(close)) = next(&mut call).await else { panic!("the stream is not closed") };
    assert!(close.end_of_stream && close.gone);
    // If a partition is removed, new ones may appear: the connector does not end.
    drop(call);
    connector.abort();
}

#[tokio::test]
async fn reports_name_the_state_and_the_errors() {
    let mut gateway = Gateway::start().await;
    let health = Health::new();
    health.set(State::Degraded, "the disk is slow");
    health.error("numbers/0", "a timeout");
    let connector = Connector::source(Once::of(vec![Item::CaughtUp, Item::Gone], false))
        .gateway(&gateway.address)
        .token("secret")
        .settings(settings())
        .health(health);
    let connector = tokio::spawn(connector.serve(std::future::pending()));
    let mut call = gateway.source().await;
    assert_eq!(call.authorization.as_deref(), Some("Bearer secret"));
    greet(&mut call, 1 << 20, 1000, 1 << 20, Vec::new()).await;
    let report = loop {
        if let Some(Request::Report(report)) = call.next().await.expect("a message").message {
            break report;
        }
    };
    assert_eq!(report.state(), pb::ConnectorState::Degraded);
    assert_eq!(report.reason, "the disk is slow");
    assert_eq!(report.errors.len(), 1);
    assert_eq!((report.errors[0].stream.as_str(), report.errors[0].message.as_str()), ("numbers/0", "a timeout"));
    connector.abort();
}

#[tokio::test]
async fn a_source_that_says_nothing_of_itself_is_reported_as_running_once_it_has_answered() {
    let mut gateway = Gateway::start().await;
    let connector = start(&gateway, Once::of(Vec::new(), false), &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    greet(&mut call, 1 << 20, 1000, 1 << 20, Vec::new()).await;
    let mut states = Vec::new();
    while states.last() != Some(&pb::ConnectorState::Running) {
        if let Some(Request::Report(report)) = call.next().await.expect("a message").message {
            states.push(report.state());
        }
    }
    assert!(states.len() <= 2, "{states:?}");
    connector.abort();
}

#[tokio::test]
async fn reports_are_heartbeats_when_nothing_changes() {
    let mut gateway = Gateway::start().await;
    let connector = start(&gateway, Once::of(Vec::new(), false), &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    greet(&mut call, 1 << 20, 1000, 1 << 20, Vec::new()).await;
    let mut running = 0;
    while running < 3 {
        if let Some(Request::Report(report)) = call.next().await.expect("a message").message {
            running += usize::from(report.state() == pb::ConnectorState::Running);
        }
    }
    connector.abort();
}

/// A source whose partitions end after one message.
struct Many {
    partitions: Vec<&'static str>,
    takes_turns: bool,
}

impl Source for Many {
    type Token = ();

    fn name(&self) -> &str {
        "many"
    }

    fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    async fn partitions(&self) -> Result<Vec<String>, BoxError> {
        Ok(self.partitions.iter().map(|partition| (*partition).to_owned()).collect())
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        stream::iter([Ok(Message::new("only").sequence(1).into())])
    }
}

#[tokio::test]
async fn a_source_that_ignores_its_position_is_reported() {
    let mut gateway = Gateway::start().await;
    let source = Many { partitions: vec!["0"], takes_turns: false };
    let connector = start(&gateway, source, &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    greet(&mut call, 1 << 20, 1000, 1 << 20, Vec::new()).await;
    let Some(Request::OpenStream(open)) = next(&mut call).await else { panic!("no OpenStream") };
    let resume = Some(pb::Position { sequence: 5, ..pb::Position::default() });
    let opened = pb::StreamOpened { stream_id: open.stream_id, resume, ..pb::StreamOpened::default() };
    call.send(pb::IngestResponse { message: Some(Answer::StreamOpened(opened)) }).await;
    let mut errors = Vec::new();
    while errors.is_empty() {
        if let Some(Request::Report(report)) = call.next().await.expect("a message").message {
            errors = report.errors;
        }
    }
    assert!(errors[0].message.starts_with("read ignores its position"), "{errors:?}");
    assert_eq!(errors[0].stream, "many/0");
    connector.abort();
}

struct Idle(Arc<Mutex<Vec<Position>>>);

impl Source for Idle {
    type Token = ();

    fn name(&self) -> &str {
        "idle"
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        stream::iter([Ok(Item::Cursor("idle".into()))]).chain(stream::pending())
    }

    async fn acknowledged(&self, _: &str, position: &Position) -> Result<(), BoxError> {
        self.0.lock().expect("no panic").push(position.clone());
        Ok(())
    }
}

#[tokio::test]
async fn a_cursor_moves_without_a_message_and_is_acknowledged_at_the_same_sequence() {
    let mut gateway = Gateway::start().await;
    let (stop, seen) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let connector = start(&gateway, Idle(Arc::clone(&seen)), &stop);
    let mut call = gateway.source().await;
    greet(&mut call, 1 << 20, 1000, 1 << 20, vec![pb::Capability::Cursors.into()]).await;
    let Some(Request::OpenStream(open)) = next(&mut call).await else { panic!("no OpenStream") };
    let resume = Some(pb::Position { sequence: 41, ..pb::Position::default() });
    let opened = pb::StreamOpened { stream_id: open.stream_id, resume, ..pb::StreamOpened::default() };
    call.send(pb::IngestResponse { message: Some(Answer::StreamOpened(opened)) }).await;
    let Some(Request::Frame(frame)) = next(&mut call).await else { panic!("no frame") };
    assert_eq!((frame.count, frame.first_sequence, frame.cursor.as_deref()), (0, 41, Some(b"idle".as_slice())));
    for moves in [1, 2] {
        let position = Some(pb::Position { sequence: 41, cursor: frame.cursor.clone(), moves, ..pb::Position::default() });
        let ack = pb::Ack { streams: vec![pb::ack::Stream { stream_id: open.stream_id, position }], credit: None };
        call.send(pb::IngestResponse { message: Some(Answer::Ack(ack)) }).await;
        within(async {
            while seen.lock().expect("no panic").len() < moves as usize {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    stop.notify_one();
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    within(connector).await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn small_frames_that_wait_for_credit_share_a_message_if_the_gateway_takes_them() {
    for capabilities in [vec![pb::Capability::Frames.into()], Vec::new()] {
        let takes = !capabilities.is_empty();
        let mut gateway = Gateway::start().await;
        let source = Many { partitions: vec!["0", "1", "2"], takes_turns: false };
        let connector = start(&gateway, source, &Arc::new(Notify::new()));
        let mut call = gateway.source().await;
        greet(&mut call, 0, 0, 1 << 20, capabilities).await;
        let (mut asked, mut shared, mut closed, mut seen) = (0, 0, 0, Vec::new());
        while closed < 3 {
            match next(&mut call).await {
                Some(Request::OpenStream(open)) => {
                    let opened = pb::StreamOpened { stream_id: open.stream_id, ..pb::StreamOpened::default() };
                    call.send(pb::IngestResponse { message: Some(Answer::StreamOpened(opened)) }).await;
                }
                Some(Request::CreditRequest(_)) => {
                    asked += 1;
                    if asked == 3 {
                        let credit = pb::Credit { bytes: 1 << 20, messages: 100, stream_id: None };
                        call.send(pb::IngestResponse { message: Some(Answer::Credit(credit)) }).await;
                    }
                }
                Some(Request::Frame(frame)) => seen.push(frame.stream_id),
                Some(Request::Frames(several)) => {
                    shared += 1;
                    seen.extend(several.frames.iter().map(|frame| frame.stream_id));
                }
                Some(Request::CloseStream(_)) => closed += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(shared > 0, takes, "{shared} messages of several frames");
        for stream_id in 1..=3 {
            acknowledge(&mut call, stream_id, 1, None).await;
        }
        assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
        call.end();
        within(connector).await.expect("no panic").expect("no error");
    }
}

#[tokio::test]
async fn partitions_take_turns() {
    let mut gateway = Gateway::start().await;
    let source = Many { partitions: vec!["0", "1", "2", "3", "4", "5", "6"], takes_turns: true };
    let connector = start(&gateway, source, &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    // The gateway of these tests allows four streams.
    greet(&mut call, 1 << 20, 1000, 1 << 20, Vec::new()).await;
    let (mut open, mut names) = (HashSet::new(), Vec::new());
    loop {
        match next(&mut call).await.expect("a message") {
            Request::OpenStream(request) => {
                open.insert(request.stream_id);
                names.push(request.stream);
                assert!(open.len() <= 4, "{open:?}");
                let opened = pb::StreamOpened { stream_id: request.stream_id, ..pb::StreamOpened::default() };
                call.send(pb::IngestResponse { message: Some(Answer::StreamOpened(opened)) }).await;
            }
            Request::CloseStream(close) => {
                open.remove(&close.stream_id);
                acknowledge(&mut call, close.stream_id, 1, None).await;
            }
            Request::Goodbye(_) => break,
            _ => {}
        }
    }
    assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6"].map(|partition| format!("many/{partition}")));
    call.end();
    within(connector).await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn partitions_that_cannot_be_meant_end_the_connector() {
    for (partitions, wanted) in [
        (vec!["0", "1", "2", "3", "4"], "source many has 5 partitions, but the gateway limits a session to 4"),
        (vec!["0", "0"], "source many: partitions() lists \"0\" twice"),
    ] {
        let mut gateway = Gateway::start().await;
        let connector = start(&gateway, Many { partitions, takes_turns: false }, &Arc::new(Notify::new()));
        let mut call = gateway.source().await;
        greet(&mut call, 1 << 20, 1000, 1 << 20, Vec::new()).await;
        assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
        call.end();
        let error = within(connector).await.expect("no panic").expect_err("an error").to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[tokio::test]
async fn hello_names_the_library() {
    let mut gateway = Gateway::start().await;
    let connector = start(&gateway, Once::of(Vec::new(), false), &Arc::new(Notify::new()));
    let mut call = gateway.source().await;
    let Some(Request::Hello(hello)) = call.next().await.and_then(|request| request.message) else { panic!("no Hello") };
    let sdk = hello.sdk.expect("an SDK");
    assert_eq!(
        (sdk.name.as_str(), sdk.language.as_str(), sdk.version.as_str()),
        ("headrace-rust", "rust", env!("CARGO_PKG_VERSION"))
    );
    call.fail(tonic::Status::unauthenticated("no such token")).await;
    let error = within(connector).await.expect("no panic").expect_err("an error");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("UNAUTHENTICATED: no such token"), "{error}");
}
