//! `close`: called once, after every other method, however a connector ends.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::Status;

use super::gateway::{Gateway, within};
use super::sink;
use super::source::{acknowledge, next, open};
use crate::protocol as pb;
use crate::protocol::ingest_request::Message as Request;
use crate::protocol::sink_service_attach_request::Message as SinkRequest;
use crate::protocol::sink_service_attach_response::Message as Answer;
use crate::{
    BoxError, Connector, Error, IdempotentSink, Item, Message, Outcomes, Part, PartRows, Position, ReadError, Recovered, Rows,
    Settings, Sink, Source, Transaction, TwoPhaseSink, run,
};

type Calls = Arc<Mutex<Vec<&'static str>>>;

/// A source that notes its calls.
#[derive(Default)]
struct Noted {
    calls: Calls,
    endless: bool,
    fails: &'static str,
    close_hangs: bool,
    /// What `close` waits for, without returning to the runtime.
    close_blocks: Option<Mutex<mpsc::Receiver<()>>>,
}

/// Notes that `read` has ended.
struct Reading(Calls);

impl Drop for Reading {
    fn drop(&mut self) {
        note(&self.0, "the end of read");
    }
}

fn note(calls: &Calls, call: &'static str) {
    calls.lock().expect("no panic").push(call);
}

impl Noted {
    fn called(&self, call: &'static str) -> Result<(), BoxError> {
        note(&self.calls, call);
        if call == self.fails { Err(format!("{call} fails").into()) } else { Ok(()) }
    }
}

impl Source for Noted {
    type Token = ();

    fn name(&self) -> &str {
        "numbers"
    }

    async fn partitions(&self) -> Result<Vec<String>, BoxError> {
        self.called("partitions")?;
        Ok(vec!["0".to_owned()])
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        let reading = Reading(Arc::clone(&self.calls));
        let first: Result<Item, ReadError> = match self.called("read") {
            Ok(()) => Ok(Message::new("a").sequence(1).into()),
            Err(error) => Err(ReadError::Failed(error)),
        };
        let rest = if self.endless { stream::pending().left_stream() } else { stream::empty().right_stream() };
        stream::iter([first]).chain(rest).map(move |item| {
            let _ = &reading;
            item
        })
    }

    async fn acknowledged(&self, _: &str, _: &Position) -> Result<(), BoxError> {
        self.called("acknowledged")
    }

    async fn close(&self) -> Result<(), BoxError> {
        let result = self.called("close");
        if let Some(released) = &self.close_blocks {
            let _ = released.lock().expect("no panic").recv();
        }
        if self.close_hangs {
            std::future::pending::<()>().await;
        }
        result
    }
}

fn start(gateway: &str, source: Noted, stop: &Arc<Notify>) -> JoinHandle<Result<(), Error>> {
    let settings = Settings { close: Duration::from_millis(100), ..Settings::default() };
    let stop = Arc::clone(stop);
    let connector = Connector::source(source).gateway(gateway).settings(settings);
    tokio::spawn(connector.serve(async move { stop.notified().await }))
}

fn assert_closed_last(calls: &Calls) {
    let calls = calls.lock().expect("no panic");
    assert_eq!(calls.iter().position(|call| *call == "close"), Some(calls.len() - 1), "{calls:?}");
}

#[tokio::test]
async fn a_source_is_closed_once_it_has_ended() {
    let mut gateway = Gateway::start().await;
    let source = Noted::default();
    let calls = Arc::clone(&source.calls);
    let connector = start(&gateway.address, source, &Arc::default());
    let mut call = gateway.source().await;
    let stream_id = open(&mut call, 1 << 20, 1000, 1 << 20).await;
    assert!(matches!(next(&mut call).await, Some(Request::Frame(_))));
    assert!(matches!(next(&mut call).await, Some(Request::CloseStream(_))));
    acknowledge(&mut call, stream_id, 1, None).await;
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    within(connector).await.expect("no panic").expect("no error");
    assert_closed_last(&calls);
    assert!(calls.lock().expect("no panic").contains(&"the end of read"));
}

#[tokio::test]
async fn a_source_is_closed_once_it_is_stopped() {
    let mut gateway = Gateway::start().await;
    let source = Noted { endless: true, ..Noted::default() };
    let (calls, stop) = (Arc::clone(&source.calls), Arc::new(Notify::new()));
    let connector = start(&gateway.address, source, &stop);
    let mut call = gateway.source().await;
    let stream_id = open(&mut call, 1 << 20, 1000, 1 << 20).await;
    assert!(matches!(next(&mut call).await, Some(Request::Frame(_))));
    stop.notify_one();
    acknowledge(&mut call, stream_id, 1, None).await;
    assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
    call.end();
    within(connector).await.expect("no panic").expect("no error");
    assert_closed_last(&calls);
}

#[tokio::test]
async fn a_source_is_closed_after_an_error() {
    for fails in ["partitions", "read"] {
        let mut gateway = Gateway::start().await;
        let source = Noted { fails, ..Noted::default() };
        let calls = Arc::clone(&source.calls);
        let connector = start(&gateway.address, source, &Arc::default());
        let mut call = gateway.source().await;
        if fails == "read" {
            open(&mut call, 1 << 20, 1000, 1 << 20).await;
        } else {
            super::source::greet(&mut call, 1 << 20, 1000, 1 << 20, vec![]).await;
        }
        assert!(matches!(next(&mut call).await, Some(Request::Goodbye(_))));
        call.end();
        let error = within(connector).await.expect("no panic").expect_err("an error").to_string();
        assert!(error.contains(&format!("{fails} fails")), "{error}");
        assert_closed_last(&calls);
    }
}

#[tokio::test]
async fn a_source_is_closed_though_no_gateway_was_ever_there() {
    let source = Noted::default();
    let (calls, stop) = (Arc::clone(&source.calls), Arc::new(Notify::new()));
    stop.notify_one();
    within(start("127.0.0.1:1", source, &stop)).await.expect("no panic").expect("no error");
    assert_eq!(*calls.lock().expect("no panic"), ["close"]);
}

#[tokio::test]
async fn a_connector_whose_settings_are_invalid_is_not_called_at_all() {
    let source = Noted::default();
    let calls = Arc::clone(&source.calls);
    let connector = Connector::source(source).gateway("127.0.0.1:1").token("a").token_file("b");
    assert!(matches!(connector.serve(std::future::pending()).await, Err(Error::Invalid(_))));
    assert!(calls.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_close_that_fails_or_does_not_return_changes_nothing_else() {
    for source in [Noted { fails: "close", ..Noted::default() }, Noted { close_hangs: true, ..Noted::default() }] {
        let stop = Arc::new(Notify::new());
        stop.notify_one();
        within(start("127.0.0.1:1", source, &stop)).await.expect("no panic").expect("no error");
    }
}

#[tokio::test]
async fn a_close_that_blocks_its_thread_is_left() {
    let (release, released) = mpsc::channel();
    let source = Noted { close_blocks: Some(Mutex::new(released)), ..Noted::default() };
    let (calls, stop) = (Arc::clone(&source.calls), Arc::new(Notify::new()));
    stop.notify_one();
    // This runtime has one thread: it would not even see that the time is over.
    within(start("127.0.0.1:1", source, &stop)).await.expect("no panic").expect("no error");
    assert_eq!(*calls.lock().expect("no panic"), ["close"]);
    release.send(()).expect("close still waits");
}

/// A source whose `close` never returns, on a thread that its runtime waits for.
struct Stubborn;

impl Source for Stubborn {
    type Token = ();

    fn name(&self) -> &str {
        "stubborn"
    }

    fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        stream::pending()
    }

    async fn close(&self) -> Result<(), BoxError> {
        tokio::task::spawn_blocking(|| {
            loop {
                std::thread::park();
            }
        })
        .await?
    }
}

#[test]
#[ignore = "another test runs it as a program"]
fn a_stubborn_program() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let settings = Settings { close: Duration::from_millis(100), ..Settings::default() };
    runtime.block_on(run(Connector::source(Stubborn).settings(settings)));
}

#[tokio::test]
async fn a_process_ends_though_its_close_does_not_return() {
    let mut gateway = Gateway::start().await;
    let mut program = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", "tests::close::a_stubborn_program", "--ignored"])
        .env("HEADRACE_GATEWAY", &gateway.address)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    gateway.source().await.fail(Status::permission_denied("not you")).await;
    let ended = within(async {
        loop {
            if let Some(status) = program.try_wait().expect("a process of this one") {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(ended.await.code(), Some(1));
}

/// A sink of any mode that notes its calls.
#[derive(Clone, Default)]
struct NotedSink {
    calls: Calls,
    recover_fails: bool,
}

impl NotedSink {
    fn closed(&self) -> Result<(), BoxError> {
        note(&self.calls, "close");
        Ok(())
    }
}

impl Sink for NotedSink {
    fn name(&self) -> &str {
        "noted"
    }

    async fn write(&self, _: &Part, _: &Rows) -> Result<Outcomes, BoxError> {
        Ok(Outcomes::all_written())
    }

    async fn flush(&self) -> Result<(), BoxError> {
        note(&self.calls, "flush");
        Ok(())
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.closed()
    }
}

impl IdempotentSink for NotedSink {
    fn name(&self) -> &str {
        "noted"
    }

    async fn write(&self, _: &Transaction, _: &[Rows]) -> Result<(), BoxError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.closed()
    }
}

impl TwoPhaseSink for NotedSink {
    fn name(&self) -> &str {
        "noted"
    }

    async fn stage(&self, _: &Part, mut rows: PartRows<'_>) -> Result<Outcomes, BoxError> {
        while rows.next().await?.is_some() {}
        note(&self.calls, "stage");
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
        note(&self.calls, "recover");
        if self.recover_fails { Err("recover fails".into()) } else { Ok(Recovered::default()) }
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.closed()
    }
}

#[tokio::test]
async fn a_sink_is_closed_once_it_is_stopped() {
    let kinds: [fn(NotedSink) -> Connector; 3] = [Connector::sink, Connector::idempotent_sink, Connector::two_phase_sink];
    for kind in kinds {
        let mut gateway = Gateway::start().await;
        let (noted, stop) = (NotedSink::default(), Arc::new(Notify::new()));
        let calls = Arc::clone(&noted.calls);
        let stopped = Arc::clone(&stop);
        let connector = tokio::spawn(kind(noted).gateway(&gateway.address).serve(async move { stopped.notified().await }));
        let mut call = gateway.sink().await;
        sink::greet(&mut call).await;
        sink::begin(&mut call, 1).await;
        sink::send(&mut call, Answer::EndPart(pb::EndPart { id: 1, ..pb::EndPart::default() })).await;
        assert!(matches!(sink::next(&mut call).await, SinkRequest::Staged(_)));
        assert!(!calls.lock().expect("no panic").contains(&"close"));
        stop.notify_one();
        assert!(matches!(sink::next(&mut call).await, SinkRequest::Goodbye(_)));
        call.end();
        within(connector).await.expect("no panic").expect("no error");
        assert_closed_last(&calls);
    }
}

#[tokio::test]
async fn a_sink_that_cannot_tell_what_it_has_stored_is_closed() {
    let sink = NotedSink { recover_fails: true, ..NotedSink::default() };
    let (calls, stop) = (Arc::clone(&sink.calls), Arc::new(Notify::new()));
    let gateway = Gateway::start().await;
    let connector = Connector::two_phase_sink(sink).gateway(&gateway.address);
    let stopped = Arc::clone(&stop);
    let connector = tokio::spawn(connector.serve(async move { stopped.notified().await }));
    within(async {
        while calls.lock().expect("no panic").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    stop.notify_one();
    within(connector).await.expect("no panic").expect("no error");
    assert_closed_last(&calls);
}
