//! Sinks: the scripts of conformance/vectors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::Notify;

use super::gateway::{Call, Gateway};
use super::json::{hex, of_sink, to_sink, vectors};
use super::script::{Side, play, plays_connector};
use super::source::settings;
use crate::protocol as pb;
use crate::{BoxError, Connector, IdempotentSink, Outcomes, Part, PartRows, Recovered, Rows, Sink, Transaction, TwoPhaseSink};

type Values = Vec<Option<String>>;

/// What a sink holds; it survives sessions.
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

    /// Takes the values of rows, without those that it refuses.
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
