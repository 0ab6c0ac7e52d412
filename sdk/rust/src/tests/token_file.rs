//! Files with tokens: the vectors, pipes, and tokens that are replaced.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::gateway::{Gateway, within};
use super::json::vectors;
use super::source::{Once, settings};
use crate::environment::Environment;
use crate::token_file::read_token;
use crate::{Connector, Error};

const LONG: Duration = Duration::from_secs(600);

/// A folder that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("headrace-tokens-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join("token");
        std::fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_contains_one_token_or_what_is_wrong_is_named() {
    let folder = Folder::new();
    let found = vectors("tokens.json");
    for case in found["contents"]["cases"].as_array().expect("cases") {
        let text = |name: &str| case[name].as_str();
        let times = |name: &str| case[name].as_u64().unwrap_or(1) as usize;
        let content = super::json::unhex(text("hex").expect("hex")).repeat(times("times"));
        let path = folder.file(content);
        let wanted = match text("token") {
            Some(token) => Ok(token.repeat(times("token_times"))),
            None => Err(format!("{} {}", path.display(), text("problem").expect("a problem"))),
        };
        assert_eq!(read_token(&path, LONG), wanted, "{case}");
    }
    std::fs::create_dir(folder.0.join("folder")).expect("a folder");
    let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket")).expect("a socket");
    for case in found["paths"]["cases"].as_array().expect("cases") {
        let path = case["path"].as_str().map_or_else(|| folder.0.join(case["is"].as_str().expect("what it is")), PathBuf::from);
        let wanted = format!("{}: {}", path.display(), case["problem"].as_str().expect("a problem"));
        assert_eq!(read_token(&path, LONG), Err(wanted));
    }
}

#[test]
fn a_descriptor_that_is_a_socket_is_refused() {
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("two sockets");
    let path = PathBuf::from(format!("/dev/fd/{}", ours.as_raw_fd()));
    assert_eq!(read_token(&path, LONG), Err(format!("{}: it is a socket, and no file", path.display())));
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
fn a_fifo_is_waited_for_with_an_end_and_read_once() {
    let folder = Folder::new();
    let [never, late] = ["never", "late"].map(|name| folder.0.join(name));
    fifo(&never);
    let error = read_token(&never, Duration::ZERO).expect_err("an error");
    assert!(error.ends_with("nobody has written a token to it and closed it in time"), "{error}");
    // The thread that waits for it ends.
    std::fs::write(&never, "too late").expect("a reader");
    fifo(&late);
    let path = late.clone();
    let writer = std::thread::spawn(move || std::fs::write(path, "late\n"));
    assert_eq!(read_token(&late, LONG), Ok("late".to_owned()));
    writer.join().expect("no panic").expect("written");
    assert_eq!(read_token(&late, Duration::ZERO), Ok("late".to_owned()));
}

fn connector() -> Connector {
    Connector::source(Once::of(Vec::new(), false))
}

#[test]
fn the_most_explicit_token_wins() {
    let folder = Folder::new();
    let path = folder.file("of the file\n");
    let environment =
        || Environment { token: Some("of the variable".to_owned()), token_file: Some(path.clone()), ..Environment::default() };
    let token = |connector: Connector, environment| connector.resolved(environment).map(|(target, _)| target.token);
    assert_eq!(token(connector(), environment()).expect("valid").as_deref(), Some("of the file"));
    assert_eq!(token(connector().token("mine"), environment()).expect("valid").as_deref(), Some("mine"));
    assert_eq!(token(connector().token_file(&path), Environment::default()).expect("valid").as_deref(), Some("of the file"));
    for (set, wanted) in [
        (connector().token("mine").token_file(&path), "token and token_file exclude each other"),
        (connector().token_file("/nowhere/token"), "token_file: /nowhere/token: there is no such file"),
    ] {
        let error = token(set, Environment::default()).expect_err("an error");
        assert!(matches!(&error, Error::Invalid(text) if text.starts_with(wanted)), "{error}");
    }
    let absent = Environment { token_file: Some("/nowhere/token".into()), ..environment() };
    let error = token(connector(), absent).expect_err("an error").to_string();
    assert_eq!(error, "HEADRACE_TOKEN_FILE: /nowhere/token: there is no such file");
}

#[tokio::test]
async fn a_replaced_token_is_used_by_the_next_session() {
    let folder = Folder::new();
    let path = folder.file("first\n");
    let mut gateway = Gateway::start().await;
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let connector = connector().gateway(&gateway.address).token_file(&path).settings(settings());
    let connector = tokio::spawn(connector.serve(async move { stopped.notified().await }));
    for (wanted, content, status) in [
        ("Bearer first", "second\n", tonic::Status::unavailable("as the test says")),
        ("Bearer second", "", tonic::Status::unavailable("as the test says")),
        ("Bearer second", "third\n", tonic::Status::unauthenticated("as the test says")),
        ("Bearer third", "third\n", tonic::Status::unauthenticated("as the test says")),
    ] {
        let mut call = gateway.source().await;
        assert_eq!(call.authorization.as_deref(), Some(wanted));
        folder.file(content);
        call.fail(status).await;
    }
    let error = within(connector).await.expect("no panic").expect_err("an error").to_string();
    assert!(error.contains("UNAUTHENTICATED"), "{error}");
}
