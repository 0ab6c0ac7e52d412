//! The environment: what `headrace connector run` tells a program, and what wins over it.

use std::ffi::OsString;
use std::sync::Arc;

use futures_util::stream;
use tokio::net::UnixListener;
use tokio::sync::Notify;

use super::gateway::{Gateway, within};
use super::source::{Once, settings};
use crate::environment::{Environment, TlsFiles};
use crate::protocol::ingest_request::Message as Request;
use crate::{Connector, Error};

fn read(variables: &[(&str, &str)]) -> Result<Environment, Error> {
    let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
    Environment::read(variable)
}

fn connector() -> Connector {
    Connector::source(Once::of(Vec::new(), false))
}

#[test]
fn every_variable_counts_unless_it_is_empty() {
    let environment = read(&[
        ("HEADRACE_GATEWAY", "gateway:7433"),
        ("HEADRACE_TOKEN", "secret"),
        ("HEADRACE_TOKEN_FILE", "mine.token"),
        ("HEADRACE_INSTANCE", "east"),
        ("HEADRACE_TLS", "1"),
        ("HEADRACE_TLS_CA", "ca.pem"),
        ("HEADRACE_TLS_CERT", "mine.pem"),
        ("HEADRACE_TLS_KEY", "mine.key"),
    ]);
    let tls = TlsFiles { ca: Some("ca.pem".into()), identity: Some(("mine.pem".into(), "mine.key".into())) };
    let wanted = Environment {
        gateway: Some("gateway:7433".to_owned()),
        token: Some("secret".to_owned()),
        token_file: Some("mine.token".into()),
        instance: Some("east".to_owned()),
        tls: Some(tls),
    };
    assert_eq!(environment.expect("valid"), wanted);
    let empty = ["GATEWAY", "TOKEN", "TOKEN_FILE", "INSTANCE", "TLS", "TLS_CA", "TLS_CERT", "TLS_KEY"]
        .map(|name| format!("HEADRACE_{name}"));
    let empty: Vec<_> = empty.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(read(&empty).expect("valid"), Environment::default());
}

#[test]
fn a_file_means_that_tls_is_wanted() {
    assert_eq!(read(&[("HEADRACE_TLS", "1")]).expect("valid").tls, Some(TlsFiles::default()));
    assert_eq!(read(&[("HEADRACE_TLS", "0")]).expect("valid").tls, None);
    assert!(read(&[("HEADRACE_TLS_CA", "ca.pem")]).expect("valid").tls.is_some());
}

#[test]
fn what_is_wrong_is_named() {
    for (variable, value, wanted) in [
        ("HEADRACE_TLS", "perhaps", "HEADRACE_TLS is \"perhaps\": want 1, or 0"),
        ("HEADRACE_TLS_CERT", "mine.pem", "HEADRACE_TLS_CERT is set, but HEADRACE_TLS_KEY is not: a certificate needs its key"),
        ("HEADRACE_TLS_KEY", "mine.key", "HEADRACE_TLS_KEY is set, but HEADRACE_TLS_CERT is not: a certificate needs its key"),
    ] {
        assert_eq!(read(&[(variable, value)]).expect_err("an error").to_string(), wanted);
    }
}

#[test]
fn what_was_set_wins() {
    let environment = || read(&[("HEADRACE_GATEWAY", "theirs:1"), ("HEADRACE_TOKEN", "theirs"), ("HEADRACE_INSTANCE", "theirs")]);
    let (target, instance) = connector().resolved(environment().expect("valid")).expect("valid");
    assert_eq!((target.gateway.as_str(), target.token.as_deref(), instance.as_str()), ("theirs:1", Some("theirs"), "theirs"));
    let set = connector().gateway("mine:1").token("mine").instance("mine");
    let (target, instance) = set.resolved(environment().expect("valid")).expect("valid");
    assert_eq!((target.gateway.as_str(), target.token.as_deref(), instance.as_str()), ("mine:1", Some("mine"), "mine"));
    let (target, instance) = connector().resolved(Environment::default()).expect("valid");
    assert_eq!((target.gateway.as_str(), target.token, instance.as_str()), ("127.0.0.1:7433", None, "numbers"));
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_is_never_left_out_in_silence() {
    let environment = read(&[("HEADRACE_TLS", "1")]).expect("valid");
    let error = connector().resolved(environment).err().expect("an error").to_string();
    assert!(error.contains("HEADRACE_TLS") && error.contains("feature `tls`"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn a_missing_file_is_named() {
    let environment = read(&[("HEADRACE_TLS_CA", "/nowhere/ca.pem")]).expect("valid");
    let error = connector().resolved(environment).err().expect("an error").to_string();
    assert!(error.starts_with("HEADRACE_TLS_CA: /nowhere/ca.pem: "), "{error}");
}

#[tokio::test]
async fn a_gateway_on_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("headrace-test-{}.socket", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    let incoming = stream::unfold(listener, async |listener| Some((listener.accept().await.map(|(socket, _)| socket), listener)));
    let mut gateway = Gateway::serving(format!("unix:{}", path.display()), incoming);
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let connector = connector().gateway(&gateway.address).token("secret").settings(settings());
    let connector = tokio::spawn(connector.serve(async move { stopped.notified().await }));
    let mut call = gateway.source().await;
    assert!(matches!(call.next().await.and_then(|request| request.message), Some(Request::Hello(_))));
    assert_eq!(call.authorization.as_deref(), Some("Bearer secret"));
    stop.notify_one();
    within(connector).await.expect("no panic").expect("no error");
    std::fs::remove_file(&path).expect("the socket");
}
