//! How a connector is, for operators: `headrace status` shows it (rules SES-22 and SES-23).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use crate::protocol as pb;

const MAX_ERRORS: usize = 100;
const MAX_TEXT_BYTES: usize = 4096;
const MAX_STREAM_BYTES: usize = 255;
const INTERVAL: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(2);

/// The state of a connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It connects to its system. The SDK reports this by itself.
    Connecting,
    /// It works. The SDK reports this by itself, once the source or sink has answered its first call.
    Running,
    /// It works, but not as it should, for instance after errors that it retries.
    Degraded,
    /// It can do nothing until its system is back.
    Waiting,
}

/// Tells operators how the connector is: `headrace status` shows it, and nothing else changes. Clone it into your source or
/// sink, and give it to the [`Connector`](crate::Connector::health).
///
/// Use it where your code knows better than the SDK: when it waits for its system to come back, or works only in part, and
/// again when that is over. It may be used on any thread, as often as you like: it never waits, and at most one report a second
/// is sent. The SDK reports broken sessions and failed parts by itself.
///
/// ```
/// use headrace::{Health, State};
///
/// let health = Health::new();
/// // Connector::source(Orders { health: health.clone() }).health(health.clone())
/// health.set(State::Waiting, "the broker restarts");
/// health.set(State::Running, "");
/// ```
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
    /// Whether the source or sink has said how it is: then the SDK leaves it.
    told: bool,
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
    /// A connector that connects to its system, without errors.
    pub fn new() -> Self {
        let known = Known {
            state: State::Connecting,
            told: false,
            since: Instant::now(),
            reason: String::new(),
            errors: VecDeque::new(),
        };
        Self { shared: Arc::new(Shared { known: Mutex::new(known), changed: watch::Sender::new(()) }) }
    }

    /// Sets what the connector is doing, and why; the reason may be empty.
    pub fn set(&self, state: State, reason: impl Into<String>) {
        let reason = cut(reason.into(), MAX_TEXT_BYTES);
        let mut known = self.shared.lock();
        known.told = true;
        if known.state != state {
            known.since = Instant::now();
        } else if known.reason == reason {
            return;
        }
        known.state = state;
        known.reason = reason;
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

    /// Notes that the source or sink has answered a call: it runs, unless it has said something else.
    pub(crate) fn answered(&self) {
        let mut known = self.shared.lock();
        if known.told || known.state == State::Running {
            return;
        }
        known.state = State::Running;
        known.since = Instant::now();
        drop(known);
        self.shared.changed.send_replace(());
    }

    /// Returns what sends reports in a session, even when nothing has changed: they are its heartbeats.
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
    /// Waits for the next report. Safe to cancel.
    pub(crate) async fn next(&mut self) -> pb::Report {
        sleep_until(self.next_at).await;
        // No matter which is first: either is a reason to report.
        let _ = timeout_at(self.next_at + (HEARTBEAT - INTERVAL), self.changed.changed()).await;
        self.next_at = Instant::now() + INTERVAL;
        let mut known = self.shared.lock();
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
