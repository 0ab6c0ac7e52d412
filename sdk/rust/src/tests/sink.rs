//! Sinks: the scripts of conformance/vectors, and what they do not cover.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::Notify;

use super::gateway::{Call, Gateway, SinkCall};
use super::json::{hex, of_sink, to_sink, vectors};
use super::script::{Side, play, plays_connector};
use super::source::settings;
use crate::batch::Batch;
use crate::protocol as pb;
use crate::protocol::sink_service_attach_request::Message as Request;
use crate::protocol::sink_service_attach_response::Message as Answer;
use crate::{
    BoxError, Connector, Health, IdempotentSink, Outcomes, Part, PartRows, Recovered, Rows, Settings, Sink, State, Transaction,
    TwoPhaseSink,
};

type Values = Vec<Option<String>>;

/// The content of a sink, which survives sessions.
#[derive(Default)]
struct Held {
    staged: BTreeMap<Part, Values>,
    prepared: BTreeSet<Transaction>,
    committed: BTreeMap<String, u64>,
    visible: Vec<Value>,
}

/// A sink that a script declares, in every mode.
#[derive(Clone)]
struct Memory {
    script: Value,
    held: Arc<Mutex<Held>>,
}

impl Memory {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no panic")
    }

    fn lists(&self, list: &str, value: &Option<String>) -> bool {
        self.script[list].as_array().is_some_and(|values| values.contains(&Value::from(value.clone())))
    }

    /// Takes the values of rows, without refused ones.
    fn take(&self, rows: &Rows, values: &mut Values) -> Result<Outcomes, BoxError> {
        let mut outcomes = Outcomes::all_written();
        for row in rows.iter() {
            let value = row.value.map(hex);
            if self.lists("fails_on", &value) {
                return Err("as the script says".into());
            }
            if self.lists("refuses", &value) {
                outcomes.refuse(row.sequence, "as the script says");
            } else {
                values.push(value);
            }
        }
        Ok(outcomes)
    }
}

impl TwoPhaseSink for Memory {
    fn name(&self) -> &str {
        self.script["name"].as_str().expect("a name")
    }

    async fn stage(&self, part: &Part, mut rows: PartRows<'_>) -> Result<Outcomes, BoxError> {
        let (mut values, mut refused) = (Vec::new(), Outcomes::all_written());
        while let Some(rows) = rows.next().await? {
            for one in self.take(&rows, &mut values)?.refused() {
                refused.refuse(one.sequence, one.reason.as_str());
            }
        }
        self.held().staged.insert(part.clone(), values);
        Ok(refused)
    }

    async fn drop_part(&self, part: &Part) -> Result<(), BoxError> {
        self.held().staged.remove(part);
        Ok(())
    }

    async fn prepare(&self, transaction: &Transaction, parts: &[Part]) -> Result<(), BoxError> {
        let mut held = self.held();
        held.staged.retain(|part, _| part.transaction != *transaction || parts.contains(part));
        if let Some(missing) = parts.iter().find(|part| !held.staged.contains_key(part)) {
            return Err(format!("partition {} is missing", missing.partition).into());
        }
        held.prepared.insert(transaction.clone());
        Ok(())
    }

    async fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let mut held = self.held();
        if held.committed.get(&transaction.pipeline) >= Some(&transaction.batch) {
            return Ok(());
        }
        if !held.prepared.remove(transaction) {
            return Err("nothing is known of it".into());
        }
        held.committed.insert(transaction.pipeline.clone(), transaction.batch);
        let parts: Vec<Part> = held.staged.keys().filter(|part| part.transaction == *transaction).cloned().collect();
        for part in parts {
            let values = held.staged.remove(&part).into_iter().flatten().map(Value::from);
            held.visible.extend(values);
        }
        Ok(())
    }

    async fn abort(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let mut held = self.held();
        held.staged.retain(|part, _| part.transaction != *transaction);
        held.prepared.remove(transaction);
        Ok(())
    }

    async fn recover(&self) -> Result<Recovered, BoxError> {
        let held = self.held();
        let committed = |(pipeline, batch): (&String, &u64)| Transaction { pipeline: pipeline.clone(), batch: *batch };
        Ok(Recovered {
            staged: held.staged.keys().cloned().collect(),
            prepared: held.prepared.iter().cloned().collect(),
            committed: held.committed.iter().map(committed).collect(),
        })
    }
}

impl IdempotentSink for Memory {
    fn name(&self) -> &str {
        TwoPhaseSink::name(self)
    }

    async fn write(&self, transaction: &Transaction, rows: &[Rows]) -> Result<(), BoxError> {
        let mut values = Vec::new();
        for rows in rows {
            let _ = self.take(rows, &mut values)?;
        }
        let mut held = self.held();
        held.visible.extend(values.into_iter().map(Value::from));
        held.committed.insert(transaction.pipeline.clone(), transaction.batch);
        Ok(())
    }

    async fn check(&self, rows: &Rows) -> Result<Outcomes, BoxError> {
        self.take(rows, &mut Vec::new())
    }

    async fn last(&self, pipeline: &str) -> Result<Option<u64>, BoxError> {
        Ok(self.held().committed.get(pipeline).copied())
    }
}

impl Sink for Memory {
    fn name(&self) -> &str {
        TwoPhaseSink::name(self)
    }

    async fn write(&self, _: &Part, rows: &Rows) -> Result<Outcomes, BoxError> {
        let mut values = Vec::new();
        let outcomes = self.take(rows, &mut values)?;
        self.held().visible.extend(values.into_iter().map(Value::from));
        Ok(outcomes)
    }
}

struct SinkSide {
    gateway: Gateway,
    sink: Memory,
    stop: Arc<Notify>,
}

impl Side for SinkSide {
    type Request = pb::SinkServiceAttachRequest;
    type Answer = pb::SinkServiceAttachResponse;

    async fn accept(&mut self) -> Call<Self::Request, Self::Answer> {
        self.gateway.sink().await
    }

    fn read(&self, request: &Self::Request) -> (&'static str, Value) {
        of_sink(request)
    }

    fn write(&self, kind: &str, value: &Value, _: &dyn Fn(&Value) -> u32) -> Self::Answer {
        to_sink(kind, value)
    }

    async fn step(&mut self, step: &Value) {
        if step["stop"] == true {
            self.stop.notify_one();
        }
        if let Some(visible) = step["visible"].as_array() {
            assert_eq!(&self.sink.held().visible, visible);
        }
    }
}

#[tokio::test]
async fn the_scripts_of_sinks() {
    for script in vectors("sessions/sink.json")["scripts"].as_array().expect("scripts").iter().filter(|s| plays_connector(s)) {
        let sink = Memory { script: script["sink"].clone(), held: Arc::default() };
        let gateway = Gateway::start().await;
        let connector = match script["sink"]["mode"].as_str() {
            Some("two_phase") => Connector::two_phase_sink(sink.clone()),
            Some("batch_idempotent") => Connector::idempotent_sink(sink.clone()),
            _ => Connector::sink(sink.clone()),
        };
        let connector = connector.gateway(&gateway.address).instance("instance-0").settings(settings());
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let connector = tokio::spawn(connector.serve(async move { stopped.notified().await }));
        let mut side = SinkSide { gateway, sink, stop };
        play(script, &mut side, connector).await;
    }
}

pub(super) async fn send(call: &mut SinkCall, message: Answer) {
    call.send(pb::SinkServiceAttachResponse { message: Some(message) }).await;
}

/// Waits for the next message that is not SinkBusy.
pub(super) async fn next(call: &mut SinkCall) -> Request {
    loop {
        match call.next().await.expect("a message").message.expect("content") {
            Request::Busy(_) | Request::Report(_) => {}
            message => return message,
        }
    }
}

/// Begins a session.
pub(super) async fn greet(call: &mut SinkCall) {
    assert!(matches!(next(call).await, Request::Hello(_)));
    let welcome = pb::SinkWelcome { protocol_version: 1, read_timeout_ms: 1000, ..pb::SinkWelcome::default() };
    send(call, Answer::Welcome(welcome)).await;
}

pub(super) async fn begin(call: &mut SinkCall, id: u64) {
    let transaction = Some(pb::Transaction { pipeline: "query".to_owned(), batch: 0, run: String::new() });
    let part = pb::Part { transaction, partition: u32::try_from(id).expect("small"), attempt: "1/1".to_owned() };
    send(call, Answer::StartPart(pb::StartPart { id, part: Some(part) })).await;
}

async fn rows(call: &mut SinkCall, id: u64, first: u64, values: &[String]) {
    let mut batch: Batch = Batch::from_sequence(first);
    values.iter().for_each(|value| batch.push(value.as_bytes()));
    let frame = batch.pack().peek(0, u32::try_from(values.len()).expect("few"));
    send(call, Answer::Frame(pb::PartFrame { id, frame: Some(frame) })).await;
}

/// A sink that stages its first part only once the second one is staged.
struct OneByOne {
    staged: Arc<Mutex<BTreeMap<u32, Vec<String>>>>,
    second: Arc<Notify>,
}

impl TwoPhaseSink for OneByOne {
    fn name(&self) -> &str {
        "one-by-one"
    }

    async fn stage(&self, part: &Part, mut rows: PartRows<'_>) -> Result<Outcomes, BoxError> {
        if part.partition == 0 {
            self.second.notified().await;
        }
        let mut values = Vec::new();
        while let Some(rows) = rows.next().await? {
            values.extend(rows.iter().map(|row| String::from_utf8_lossy(row.value.unwrap_or_default()).into_owned()));
        }
        self.staged.lock().expect("no panic").insert(part.partition, values);
        if part.partition == 1 {
            self.second.notify_one();
        }
        Ok(Outcomes::all_written())
    }

    async fn drop_part(&self, _: &Part) -> Result<(), BoxError> {
        Ok(())
    }

    async fn prepare(&self, _: &Transaction, _: &[Part]) -> Result<(), BoxError> {
        Ok(())
    }

    async fn commit(&self, _: &Transaction) -> Result<(), BoxError> {
        Ok(())
    }

    async fn abort(&self, _: &Transaction) -> Result<(), BoxError> {
        Ok(())
    }

    async fn recover(&self) -> Result<Recovered, BoxError> {
        Ok(Recovered::default())
    }
}

#[tokio::test]
async fn a_part_may_wait_for_another_whose_rows_are_behind_its_own() {
    let staged = Arc::new(Mutex::default());
    let sink = OneByOne { staged: Arc::clone(&staged), second: Arc::default() };
    let mut gateway = Gateway::start().await;
    // A queue holds about two frames: the rest goes to a file.
    let settings = Settings { queue_bytes: 4000, ..settings() };
    let connector = Connector::two_phase_sink(sink).gateway(&gateway.address).settings(settings);
    let connector = tokio::spawn(connector.serve(std::future::pending()));
    let mut call = gateway.sink().await;
    greet(&mut call).await;
    begin(&mut call, 0).await;
    begin(&mut call, 1).await;
    let values: Vec<String> = (0..500).map(|number| format!("{number:0100}")).collect();
    for (frame, values) in values.chunks(10).enumerate() {
        rows(&mut call, 0, frame as u64 * 10, values).await;
    }
    send(&mut call, Answer::EndPart(pb::EndPart { id: 0, messages: 500 })).await;
    rows(&mut call, 1, 0, &["second".to_owned()]).await;
    send(&mut call, Answer::EndPart(pb::EndPart { id: 1, messages: 1 })).await;
    for wanted in [1, 0] {
        let answer = next(&mut call).await;
        assert!(matches!(&answer, Request::Staged(staged) if staged.id == wanted), "{answer:?}");
    }
    let staged = staged.lock().expect("no panic");
    assert_eq!(staged[&0], values);
    assert_eq!(staged[&1], ["second"]);
    connector.abort();
}

/// A sink that waits for its system.
struct Waiting {
    health: Health,
    back: Arc<Notify>,
}

impl Sink for Waiting {
    fn name(&self) -> &str {
        "waiting"
    }

    async fn write(&self, _: &Part, _: &Rows) -> Result<Outcomes, BoxError> {
        self.health.set(State::Waiting, "the table is locked");
        self.back.notified().await;
        self.health.set(State::Running, "");
        Ok(Outcomes::all_written())
    }
}

#[tokio::test]
async fn a_sink_that_waits_for_its_system_says_so_while_it_waits() {
    let (health, back) = (Health::new(), Arc::new(Notify::new()));
    let sink = Waiting { health: health.clone(), back: Arc::clone(&back) };
    let mut gateway = Gateway::start().await;
    let connector = Connector::sink(sink).gateway(&gateway.address).settings(settings()).health(health);
    let connector = tokio::spawn(connector.serve(std::future::pending()));
    let mut call = gateway.sink().await;
    greet(&mut call).await;
    begin(&mut call, 0).await;
    rows(&mut call, 0, 0, &["row".to_owned()]).await;
    send(&mut call, Answer::EndPart(pb::EndPart { id: 0, messages: 1 })).await;
    let mut told = Vec::new();
    while !told.iter().any(|(state, _)| *state == pb::ConnectorState::Waiting) {
        let message = call.next().await.expect("a message").message;
        let Some(Request::Report(report)) = message else { panic!("an answer while the sink waits") };
        told.push((report.state(), report.reason));
    }
    assert_eq!(told.last().map(|(_, reason)| reason.as_str()), Some("the table is locked"));
    back.notify_one();
    let (mut staged, mut running) = (false, false);
    while !staged || !running {
        match call.next().await.expect("a message").message {
            Some(Request::Staged(_)) => staged = true,
            Some(Request::Report(report)) => running |= report.state() == pb::ConnectorState::Running,
            other => panic!("{other:?}"),
        }
    }
    connector.abort();
}
