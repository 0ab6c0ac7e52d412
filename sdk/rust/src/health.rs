//! How a connector is, for operators: `headrace status` shows it (rules SES-22 and SES-23).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::protocol as pb;

const MAX_ERRORS: usize = 100;
const MAX_TEXT_BYTES: usize = 4096;
const MAX_STREAM_BYTES: usize = 255;
const INTERVAL: Duration = Duration::from_secs(1);

/// What a connector is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It connects to its system.
    Connecting,
    /// It works.
    Running,
    /// It works, but not as it should, for instance after errors that it retries.
    Degraded,
    /// It can do nothing until its system is back.
    Waiting,
}

/// Tells operators how the connector is. Clone it into your source or sink, and give it to the
/// [`Connector`](crate::Connector::health).
///
/// The SDK reports broken sessions and failed parts by itself.
#[derive(Debug, Clone)]
pub struct Health {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Known {
    state: State,
    since: Instant,
    reason: String,
    /// Those that were not reported yet, oldest first.
    errors: VecDeque<(Instant, String, String)>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// A connector that is running, without errors.
    pub fn new() -> Self {
        let known = Known { state: State::Running, since: Instant::now(), reason: String::new(), errors: VecDeque::new() };
        Self { shared: Arc::new(Shared { known: Mutex::new(known), changed: watch::Sender::new(()) }) }
    }

    /// Sets what the connector is doing, and why; the reason may be empty.
    pub fn set(&self, state: State, reason: impl Into<String>) {
        let reason = reason.into();
        let mut known = self.shared.lock();
        if known.state != state {
            known.since = Instant::now();
        } else if known.reason == reason {
            return;
        }
        known.state = state;
        known.reason = cut(reason, MAX_TEXT_BYTES);
        drop(known);
        self.shared.changed.send_replace(());
    }

    /// Notes an error that the connector met, and survived. `stream` may be empty.
    pub fn error(&self, stream: &str, message: impl Into<String>) {
        let mut known = self.shared.lock();
        if known.errors.len() == MAX_ERRORS {
            known.errors.pop_front();
        }
        let entry = (Instant::now(), cut(message.into(), MAX_TEXT_BYTES), cut(stream.to_owned(), MAX_STREAM_BYTES));
        known.errors.push_back(entry);
        drop(known);
        self.shared.changed.send_replace(());
    }

    /// Returns what sends reports in a session.
    pub(crate) fn reporter(&self) -> Reporter {
        let mut changed = self.shared.changed.subscribe();
        changed.mark_changed();
        Reporter { shared: Arc::clone(&self.shared), changed, next_at: Instant::now() }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reports of one session.
#[derive(Debug)]
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    changed: watch::Receiver<()>,
    next_at: Instant,
}

impl Reporter {
    /// Waits for the next report; forever, if there is no reporter. Safe to cancel.
    pub(crate) async fn next(reporter: &mut Option<Self>) -> pb::Report {
        let Some(reporter) = reporter else { return std::future::pending().await };
        sleep_until(reporter.next_at).await;
        if reporter.changed.changed().await.is_err() {
            return std::future::pending().await;
        }
        reporter.next_at = Instant::now() + INTERVAL;
        let mut known = reporter.shared.lock();
        let state = match known.state {
            State::Connecting => pb::ConnectorState::Connecting,
            State::Running => pb::ConnectorState::Running,
            State::Degraded => pb::ConnectorState::Degraded,
            State::Waiting => pb::ConnectorState::Waiting,
        };
        let error = |(at, message, stream): (Instant, String, String)| pb::ConnectorError { message, age_ms: millis(at), stream };
        let errors = known.errors.drain(..).map(error).collect();
        pb::Report { state: state.into(), state_age_ms: millis(known.since), reason: known.reason.clone(), errors }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Cuts a text to at most `bytes` of UTF-8.
fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
