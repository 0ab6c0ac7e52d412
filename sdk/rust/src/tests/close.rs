//! `close`: called once, after every other method, however a connector ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::gateway::{Gateway, within};
use super::source::{acknowledge, next, open};
use crate::protocol::ingest_request::Message as Request;
use crate::{BoxError, Connector, Error, Item, Message, Position, ReadError, Settings, Source};

type Calls = Arc<Mutex<Vec<&'static str>>>;

/// A source that notes its calls.
#[derive(Default)]
struct Noted {
    calls: Calls,
    endless: bool,
    fails: &'static str,
    close_hangs: bool,
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
