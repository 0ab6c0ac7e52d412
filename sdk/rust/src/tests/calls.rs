//! Methods that do not return are named while the connector runs, in its log and to the gateway.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::Notify;

use super::gateway::{Gateway, SinkCall, SourceCall, within};
use super::sink;
use super::source::{acknowledge, open, settings};
use crate::protocol as pb;
use crate::protocol::ingest_request::Message as Request;
use crate::protocol::sink_service_attach_request::Message as SinkRequest;
use crate::protocol::sink_service_attach_response::Message as Answer;
use crate::{
    BoxError, Connector, Item, Message, Outcomes, Part, PartRows, Position, ReadError, Recovered, Settings, Source, Transaction,
    TwoPhaseSink,
};

fn brief() -> Settings {
    Settings { stuck: Duration::from_millis(50), ..settings() }
}

/// A source in which one method waits until it is released.
struct Slow {
    slow: &'static str,
    /// For a method that awaits.
    released: Arc<Notify>,
    /// For one that blocks its thread.
    unblocked: Mutex<mpsc::Receiver<()>>,
}

impl Slow {
    async fn called(&self, method: &str) {
        if method == self.slow {
            self.released.notified().await;
        }
    }
}

impl Source for Slow {
    type Token = ();

    fn name(&self) -> &str {
        "slow"
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        stream::once(async {
            if self.slow == "read" {
                let _ = self.unblocked.lock().expect("no panic").recv();
            }
            Ok(Message::new("a").sequence(1).into())
        })
        .chain(stream::pending())
    }

    async fn acknowledged(&self, _: &str, _: &Position) -> Result<(), BoxError> {
        self.called("acknowledged").await;
        Ok(())
    }

    async fn backlog(&self, _: &str) -> Option<crate::Backlog> {
        self.called("backlog").await;
        None
    }
}

/// Waits for the report of an error that names a method; returns its text and its stream.
async fn named(call: &mut SourceCall, method: &str) -> pb::ConnectorError {
    loop {
        if let Some(Request::Report(report)) = call.next().await.expect("a message").message
            && let Some(error) = report.errors.into_iter().find(|error| error.message.contains(method))
        {
            return error;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_method_of_a_source_that_does_not_return_is_named() {
    let awaits = "it stands at an await";
    let blocks = "it stands in code that does not await, and blocks a thread of the runtime";
    for (slow, stands) in [("read", blocks), ("backlog", awaits), ("acknowledged", awaits)] {
        let mut gateway = Gateway::start().await;
        let (unblock, unblocked) = mpsc::channel();
        let released = Arc::new(Notify::new());
        let source = Slow { slow, released: Arc::clone(&released), unblocked: Mutex::new(unblocked) };
        let connector = Connector::source(source).gateway(&gateway.address).settings(brief());
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let connector = tokio::spawn(connector.serve(async move { stopped.notified().await }));
        let mut call = gateway.source().await;
        let stream_id = open(&mut call, 1 << 20, 1000, 1 << 20).await;
        if slow == "acknowledged" {
            acknowledge(&mut call, stream_id, 1, None).await;
        }
        let error = named(&mut call, slow).await;
        assert!(error.message.contains(&format!("Slow::{slow}() has not returned for ")), "{}", error.message);
        assert!(error.message.ends_with(stands), "{}", error.message);
        assert_eq!(error.stream, "slow/0");
        unblock.send(()).expect("the source keeps the receiver");
        released.notify_one();
        stop.notify_one();
        call.end();
        within(connector).await.expect("no panic").expect("no error");
    }
}

/// A sink whose `commit` waits until it is released.
struct SlowSink(Arc<Notify>);

impl TwoPhaseSink for SlowSink {
    fn name(&self) -> &str {
        "slow"
    }

    async fn stage(&self, _: &Part, mut rows: PartRows<'_>) -> Result<Outcomes, BoxError> {
        while rows.next().await?.is_some() {}
        Ok(Outcomes::all_written())
    }

    async fn drop_part(&self, _: &Part) -> Result<(), BoxError> {
        Ok(())
    }

    async fn prepare(&self, _: &Transaction, _: &[Part]) -> Result<(), BoxError> {
        Ok(())
    }

    async fn commit(&self, _: &Transaction) -> Result<(), BoxError> {
        self.0.notified().await;
        Ok(())
    }

    async fn abort(&self, _: &Transaction) -> Result<(), BoxError> {
        Ok(())
    }

    async fn recover(&self) -> Result<Recovered, BoxError> {
        Ok(Recovered::default())
    }
}

/// Waits for the report of an error.
async fn survived(call: &mut SinkCall) -> String {
    loop {
        if let Some(SinkRequest::Report(report)) = call.next().await.expect("a message").message
            && let Some(error) = report.errors.into_iter().next()
        {
            return error.message;
        }
    }
}

#[tokio::test]
async fn a_method_of_a_sink_that_does_not_return_is_named_and_no_method_that_waits_for_rows() {
    let mut gateway = Gateway::start().await;
    let (released, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let connector = Connector::two_phase_sink(SlowSink(Arc::clone(&released))).gateway(&gateway.address).settings(brief());
    let stopped = Arc::clone(&stop);
    let connector = tokio::spawn(connector.serve(async move { stopped.notified().await }));
    let mut call = gateway.sink().await;
    sink::greet(&mut call).await;
    // Its rows never come, longer than `commit` waits.
    sink::begin(&mut call, 1).await;
    let transaction = pb::Transaction { pipeline: "another".to_owned(), batch: 0, run: String::new() };
    sink::send(&mut call, Answer::Commit(pb::Commit { transaction: Some(transaction) })).await;
    let error = survived(&mut call).await;
    assert!(error.contains("SlowSink::commit() has not returned for "), "{error}");
    released.notify_one();
    stop.notify_one();
    call.end();
    within(connector).await.expect("no panic").expect("no error");
}
