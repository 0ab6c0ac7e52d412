//! The vectors' JSON: frames in columns, and the messages of scripts.

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::batch::Batch;
use crate::columns::Columns;
use crate::message::Message;
use crate::protocol as pb;
use crate::protocol::{ingest_request, ingest_response, sink_service_attach_request, sink_service_attach_response};

/// Reads a file of conformance/vectors.
pub(super) fn vectors(name: &str) -> Value {
    let path = format!("{}/../../conformance/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}

pub(super) fn unhex(text: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digit).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number, which is text if it has 64 bits; 0 if it is absent.
pub(super) fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.parse().expect("a number"),
        value => value.as_u64().unwrap_or(0),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn bytes(value: &Value) -> Option<Bytes> {
    value.as_str().map(unhex)
}

/// The message at an index of columns.
pub(super) fn message_at(columns: &Value, at: usize) -> Message {
    let mut message = match bytes(&columns["values"][at]) {
        Some(value) => Message::new(value),
        None => Message::null(),
    };
    message.sequence = Some(number(&columns["sequences"][at]));
    message.key = bytes(&columns["keys"][at]);
    message.event_time = columns["event_times"][at].as_str().map(|time| time.parse().expect("a time"));
    message.message_id = columns["message_ids"][at].as_str().map(str::to_owned);
    message.headers = list(&columns["headers"][at]).iter().map(|header| (text(&header[0]), bytes(&header[1]))).collect();
    message
}

/// A frame of columns.
pub(super) fn frame(columns: &Value) -> pb::Frame {
    let mut batch: Batch = Batch::new();
    for at in 0..list(&columns["values"]).len() {
        batch.push_message(message_at(columns, at)).expect("a valid message");
    }
    if let Some(cursor) = bytes(&columns["cursor"]) {
        batch.cursor(cursor).expect("a valid cursor");
    }
    let count = batch.count;
    batch.pack().peek(number(&columns["stream_id"]) as u32, count)
}

/// The columns of a frame.
pub(super) fn columns(frame: &pb::Frame) -> Value {
    let rows: Vec<_> = Columns::read(frame).expect("a valid frame").iter().collect();
    let optional = |entry: Option<&[u8]>| entry.map(hex);
    json!({
        "stream_id": frame.stream_id,
        "sequences": rows.iter().map(|row| row.sequence.to_string()).collect::<Vec<_>>(),
        "keys": rows.iter().map(|row| optional(row.key)).collect::<Vec<_>>(),
        "values": rows.iter().map(|row| optional(row.value)).collect::<Vec<_>>(),
        "event_times": rows.iter().map(|row| row.event_time.map(|time| time.to_string())).collect::<Vec<_>>(),
        "message_ids": rows.iter().map(|row| row.message_id).collect::<Vec<_>>(),
        "headers": rows.iter().map(|row| {
            row.headers.clone().map(|(name, value)| json!([name, optional(value)])).collect::<Vec<_>>()
        }).collect::<Vec<_>>(),
        "cursor": frame.cursor.as_deref().map(hex),
    })
}

fn position(value: &Value) -> Option<pb::Position> {
    let cursor = value["cursor"].as_str().map(|cursor| BASE64_STANDARD.decode(cursor).expect("base64").into());
    value.is_object().then(|| pb::Position {
        epoch: number(&value["epoch"]),
        sequence: number(&value["sequence"]),
        moves: number(&value["moves"]),
        cursor,
        ..pb::Position::default()
    })
}

fn credit(value: &Value) -> Option<pb::Credit> {
    let stream_id = value.get("stream_id").map(|id| number(id) as u32);
    value.is_object().then(|| pb::Credit { bytes: number(&value["bytes"]), messages: number(&value["messages"]), stream_id })
}

/// A message of a gateway to a source. `stream_id` returns what a label stands for.
pub(super) fn to_source(kind: &str, value: &Value, stream_id: impl Fn(&Value) -> u32) -> pb::IngestResponse {
    use ingest_response::Message as Answer;
    let id = || stream_id(&value["stream_id"]);
    let answer = match kind {
        "welcome" => Answer::Welcome(pb::Welcome {
            protocol_version: 1,
            gateway_version: "0".to_owned(),
            session: text(&value["session"]),
            max_frame_bytes: number(&value["max_frame_bytes"]),
            max_cursor_bytes: number(&value["max_cursor_bytes"]) as u32,
            max_frame_messages: number(&value["max_frame_messages"]) as u32,
            max_streams: number(&value["max_streams"]) as u32,
            credit: credit(&value["credit"]),
            pace: Some(pb::Pace { linger_ms: number(&value["pace"]["linger_ms"]) as u32 }),
            frame_overhead_bytes: number(&value["frame_overhead_bytes"]) as u32,
            capabilities: list(&value["capabilities"]).iter().map(capability).collect(),
        }),
        "stream_opened" => Answer::StreamOpened(pb::StreamOpened {
            stream_id: id(),
            epoch: number(&value["epoch"]),
            resume: position(&value["resume"]),
            acknowledged: position(&value["acknowledged"]),
            earlier: position(&value["earlier"]),
            skip_lost: value["skip_lost"].as_bool().unwrap_or_default(),
        }),
        "ack" => Answer::Ack(pb::Ack {
            streams: list(&value["streams"])
                .iter()
                .map(|stream| pb::ack::Stream {
                    stream_id: stream_id(&stream["stream_id"]),
                    position: position(&stream["position"]),
                })
                .collect(),
            credit: credit(&value["credit"]),
        }),
        "credit" => {
            let credit = credit(value).expect("credit");
            Answer::Credit(pb::Credit { stream_id: credit.stream_id.map(|_| id()), ..credit })
        }
        "reject" => Answer::Reject(pb::Reject {
            stream_id: id(),
            reason: pb::RejectReason::from_str_name(&text(&value["reason"])).expect("a reason").into(),
            message: text(&value["message"]),
            retry_after_ms: number(&value["retry_after_ms"]) as u32,
        }),
        "starts_wanted" => Answer::StartsWanted(pb::StartsWanted { stream_id: id() }),
        "drain" => Answer::Drain(pb::Drain { deadline_ms: number(&value["deadline_ms"]) as u32, reason: String::new() }),
        kind => panic!("a gateway does not send {kind}"),
    };
    pb::IngestResponse { message: Some(answer) }
}

/// A capability by its name; one of a later version is a number that nobody knows.
fn capability(value: &Value) -> i32 {
    match value {
        Value::String(name) => pb::Capability::from_str_name(name).map_or(99, i32::from),
        value => number(value) as i32,
    }
}

/// A message of a source: its kind, and its fields.
pub(super) fn of_source(request: &pb::IngestRequest) -> (&'static str, Value) {
    use ingest_request::Message as Sent;
    match request.message.as_ref().expect("a message") {
        Sent::Hello(hello) => ("hello", json!({"protocol_version": hello.protocol_version, "instance": hello.instance})),
        Sent::OpenStream(open) => (
            "open_stream",
            json!({
                "stream_id": open.stream_id, "stream": open.stream, "kind": open.kind().as_str_name(),
                "chooses_start": open.chooses_start
            }),
        ),
        Sent::Frame(frame) => ("frame", columns(frame)),
        Sent::Frames(several) => ("frames", several.frames.iter().map(columns).collect()),
        Sent::Backlog(backlog) => {
            ("backlog", json!({"stream_id": backlog.stream_id, "latest_sequence": digits(backlog.latest_sequence)}))
        }
        Sent::PositionLost(lost) => {
            ("position_lost", json!({"stream_id": lost.stream_id, "earliest_sequence": digits(lost.earliest_sequence)}))
        }
        Sent::CloseStream(close) => {
            ("close_stream", json!({"stream_id": close.stream_id, "end_of_stream": close.end_of_stream, "gone": close.gone}))
        }
        Sent::CreditRequest(request) => {
            ("credit_request", json!({"stream_id": request.stream_id, "messages": request.messages.to_string()}))
        }
        Sent::Goodbye(_) => ("goodbye", json!({})),
        Sent::Starts(starts) => {
            let start = |start: &pb::starts::Stream| {
                let sequence = start.position.as_ref().map(|position| json!({"sequence": position.sequence.to_string()}));
                json!({"stream_id": start.stream_id, "position": sequence})
            };
            ("starts", json!({"streams": starts.streams.iter().map(start).collect::<Vec<_>>()}))
        }
        Sent::Report(_) => ("report", json!({})),
    }
}

fn digits(number: Option<u64>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn transaction(value: &Value) -> Option<pb::Transaction> {
    value.is_object().then(|| pb::Transaction {
        pipeline: text(&value["pipeline"]),
        batch: number(&value["batch"]),
        run: String::new(),
    })
}

fn part(value: &Value) -> pb::Part {
    pb::Part {
        transaction: transaction(&value["transaction"]),
        partition: number(&value["partition"]) as u32,
        attempt: text(&value["attempt"]),
    }
}

/// A message of a gateway to a sink.
pub(super) fn to_sink(kind: &str, value: &Value) -> pb::SinkServiceAttachResponse {
    use sink_service_attach_response::Message as Answer;
    let (id, transaction) = (number(&value["id"]), transaction(&value["transaction"]));
    let answer = match kind {
        "welcome" => Answer::Welcome(pb::SinkWelcome {
            protocol_version: 1,
            gateway_version: "0".to_owned(),
            session: text(&value["session"]),
            read_timeout_ms: number(&value["read_timeout_ms"]) as u32,
            capabilities: list(&value["capabilities"]).iter().map(capability).collect(),
        }),
        "start_part" => Answer::StartPart(pb::StartPart { id, part: Some(part(&value["part"])) }),
        "frame" => Answer::Frame(pb::PartFrame { id, frame: Some(frame(&value["frame"])) }),
        "end_part" => Answer::EndPart(pb::EndPart { id, messages: number(&value["messages"]) }),
        "drop_part" => Answer::DropPart(pb::DropPart { id }),
        "prepare" => Answer::Prepare(pb::Prepare { transaction, parts: list(&value["parts"]).iter().map(part).collect() }),
        "commit" => Answer::Commit(pb::Commit { transaction }),
        "abort" => Answer::Abort(pb::Abort { transaction }),
        "drain" => Answer::Drain(pb::SinkDrain { deadline_ms: number(&value["deadline_ms"]) as u32, reason: String::new() }),
        kind => panic!("a gateway does not send {kind}"),
    };
    pb::SinkServiceAttachResponse { message: Some(answer) }
}

/// A message of a sink: its kind, and its fields.
pub(super) fn of_sink(request: &pb::SinkServiceAttachRequest) -> (&'static str, Value) {
    use sink_service_attach_request::Message as Sent;
    let named = |transaction: &Option<pb::Transaction>| {
        let transaction = transaction.as_ref().expect("a transaction");
        json!({"pipeline": transaction.pipeline, "batch": transaction.batch.to_string()})
    };
    match request.message.as_ref().expect("a message") {
        Sent::Hello(hello) => {
            let part = |part: &pb::Part| json!({"transaction": named(&part.transaction), "partition": part.partition, "attempt": part.attempt});
            let transactions = |all: &[pb::Transaction]| all.iter().map(|one| named(&Some(one.clone()))).collect::<Vec<_>>();
            (
                "hello",
                json!({
                    "protocol_version": hello.protocol_version, "sink": hello.sink, "instance": hello.instance,
                    "mode": hello.mode().as_str_name(), "staged": hello.staged.iter().map(part).collect::<Vec<_>>(),
                    "prepared": transactions(&hello.prepared), "committed": transactions(&hello.committed)
                }),
            )
        }
        Sent::Staged(staged) => {
            let refused = |refused: &pb::staged::Refused| json!({"sequence": refused.sequence.to_string()});
            let refused = staged.refused.iter().map(refused).collect::<Vec<_>>();
            ("staged", json!({"id": staged.id.to_string(), "refused": refused}))
        }
        Sent::Prepared(prepared) => ("prepared", json!({"transaction": named(&prepared.transaction)})),
        Sent::Committed(committed) => ("committed", json!({"transaction": named(&committed.transaction)})),
        Sent::Failed(failed) => match failed.what.as_ref().expect("what failed") {
            pb::failed::What::PartId(id) => ("failed", json!({"part_id": id.to_string()})),
            pb::failed::What::Transaction(transaction) => ("failed", json!({"transaction": named(&Some(transaction.clone()))})),
        },
        Sent::Goodbye(_) => ("goodbye", json!({})),
        Sent::Busy(_) => ("busy", json!({})),
        Sent::Report(_) => ("report", json!({})),
    }
}

/// Whether a value has what is wanted: objects may have more fields, lists must not have more entries. A list of columns that
/// is left out is null for every message.
pub(super) fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| has(value.get(name).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len() && value.iter().zip(wanted).all(|(value, wanted)| has(value, wanted))
        }
        (value, wanted) => value == wanted,
    }
}

/// Adds columns to columns.
pub(super) fn append(columns: &mut Map<String, Value>, more: &Value) {
    for (name, entries) in more.as_object().expect("columns") {
        match (columns.get_mut(name), entries) {
            (Some(Value::Array(column)), Value::Array(entries)) => column.extend(entries.iter().cloned()),
            _ => {
                columns.insert(name.clone(), entries.clone());
            }
        }
    }
}
