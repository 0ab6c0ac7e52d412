//! Plays the gateway of a script of conformance/vectors/sessions.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use super::gateway::{Call, within};
use super::json::{append, has};
use crate::error::Error;

/// What is said in a session: how messages are read and written, and what the connector does.
pub(super) trait Side {
    type Request: Send + 'static;
    type Answer: Default + Send + 'static;

    /// Waits for the connector's next session.
    async fn accept(&mut self) -> Call<Self::Request, Self::Answer>;

    /// The kind of a message, and its fields.
    fn read(&self, request: &Self::Request) -> (&'static str, Value);

    /// A message of the gateway; `stream_id` returns what a label stands for.
    fn write(&self, kind: &str, value: &Value, stream_id: &dyn Fn(&Value) -> u32) -> Self::Answer;

    /// What happens to the connector, or must have happened to it.
    async fn step(&mut self, step: &Value);
}

pub(super) type Outcome = JoinHandle<Result<(), Error>>;

/// Messages that may be sent at any time.
const AT_ANY_TIME: [&str; 4] = ["backlog", "credit_request", "report", "busy"];

/// Plays every step of a script.
pub(super) async fn play<S: Side>(script: &Value, side: &mut S, mut connector: Outcome) {
    let name = &script["name"];
    let mut player = Player { name: name.to_string(), side, call: None, labels: HashMap::new() };
    for step in script["steps"].as_array().expect("steps") {
        let (field, value) = step.as_object().and_then(|step| step.iter().next()).expect("a step");
        match field.as_str() {
            "connector" => player.expect(vec![value.clone()]).await,
            "connector_in_any_order" => player.expect(value.as_array().expect("messages").clone()).await,
            "gateway" => {
                let (kind, value) = value.as_object().and_then(|message| message.iter().next()).expect("a message");
                let labels = player.labels.clone();
                let stream_id = |label: &Value| labels[&label.to_string()].as_u64().expect("an id") as u32;
                let answer = player.side.write(kind, value, &stream_id);
                player.call().await.send(answer).await;
            }
            // A message of a kind that this version does not know is decoded as one without content.
            "gateway_bytes" => player.call().await.send(S::Answer::default()).await,
            "end" => match value["status"].as_str().expect("a status") {
                "OK" => player.call().await.end(),
                "ABORTED" => player.call().await.fail(Status::new(Code::Aborted, "a newer session took over")).await,
                status => panic!("{name}: {status} is not expected in a script"),
            },
            "lost" => player.call().await.fail(Status::unavailable("the connection is lost")).await,
            "source" | "sink" => player.side.step(value).await,
            "outcome" => match value.as_str().expect("an outcome") {
                "ended" => within(&mut connector).await.expect("no panic").expect("no error"),
                "failed" => assert!(within(&mut connector).await.expect("no panic").is_err(), "{name}"),
                _ => drop(player.side.accept().await),
            },
            "query" | "others" | "operator" => {}
            field => panic!("{name}: a step {field} is not known"),
        }
        if matches!(field.as_str(), "end" | "lost") {
            player.call = None;
            player.labels.clear();
        }
    }
    connector.abort();
}

struct Player<'a, S: Side> {
    name: String,
    side: &'a mut S,
    call: Option<Call<S::Request, S::Answer>>,
    /// The stream id for which a label stands in this session.
    labels: HashMap<String, Value>,
}

impl<S: Side> Player<'_, S> {
    async fn call(&mut self) -> &mut Call<S::Request, S::Answer> {
        if self.call.is_none() {
            self.call = Some(self.side.accept().await);
        }
        self.call.as_mut().expect("it was just accepted")
    }

    /// Waits for messages, in any order. The messages of a frame may arrive in several frames.
    async fn expect(&mut self, mut wanted: Vec<Value>) {
        let mut arrived: HashMap<String, Map<String, Value>> = HashMap::new();
        while !wanted.is_empty() {
            let request = self.call().await.next().await;
            let Some(request) = request else { panic!("{}: the call ended, and {wanted:?} has not arrived", self.name) };
            let (kind, mut value) = self.side.read(&request);
            if kind == "frame" {
                let columns = arrived.entry(value["stream_id"].to_string()).or_default();
                append(columns, &value);
                value = Value::Object(columns.clone());
            }
            if let Some(at) = wanted.iter().position(|wanted| self.is(kind, &value, wanted)) {
                wanted.remove(at);
                continue;
            }
            let incomplete = kind == "frame" && wanted.iter().any(|wanted| wanted.get("frame").is_some());
            assert!(
                incomplete || AT_ANY_TIME.contains(&kind),
                "{}: {kind} {value} has arrived instead of {}",
                self.name,
                json!(wanted)
            );
        }
    }

    /// Whether a message is the wanted one; notes what the label of a new stream stands for.
    fn is(&mut self, kind: &str, value: &Value, wanted: &Value) -> bool {
        let Some(wanted) = wanted.get(kind) else { return false };
        let mut wanted = wanted.clone();
        if kind == "open_stream" && wanted["stream"] == value["stream"] {
            self.labels.insert(wanted["stream_id"].to_string(), value["stream_id"].clone());
        }
        self.replace_labels(&mut wanted);
        has(value, &wanted)
    }

    fn replace_labels(&self, wanted: &mut Value) {
        if let Some(label) = wanted.get("stream_id").map(Value::to_string) {
            wanted["stream_id"] = self.labels.get(&label).cloned().unwrap_or(Value::Null);
        }
        if let Some(Value::Array(streams)) = wanted.get_mut("streams") {
            streams.iter_mut().for_each(|stream| self.replace_labels(stream));
        }
    }
}

/// Whether an SDK can be tested with a script.
pub(super) fn plays_connector(script: &Value) -> bool {
    script["plays"].as_array().is_none_or(|plays| plays.contains(&json!("connector")))
}
