//! Names the methods of a source or sink that have not returned for long, while the connector runs.
//!
//! A thread of its own looks at all calls, so that it also sees a method that blocks the threads of the runtime.

use std::any::type_name;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{Dispatch, Span};

use crate::health::Health;

/// How often the thread looks within the time after which a method is named.
const LOOKS_IN_TIME: u32 = 4;

/// The calls of one connector that have not returned. A clone is the same calls.
#[derive(Clone)]
pub(crate) struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    /// Names the connector in the log, such as `source orders`.
    name: String,
    health: Health,
    limit: Duration,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    last_id: u64,
    calls: HashMap<u64, Arc<Call>>,
}

/// A call of a method, or calls of one method by one task, one after the other.
#[derive(Debug)]
struct Call {
    method: String,
    /// The stream that it concerns; empty for none.
    stream: String,
    span: Span,
    /// Odd while the method runs, and even while it waits for the SDK; changes with all that it does.
    turn: AtomicU64,
    /// Whether a thread is in the method now.
    on_thread: AtomicBool,
    seen: Mutex<Option<Seen>>,
}

/// The state of a call when the thread looked.
#[derive(Debug)]
struct Seen {
    turn: u64,
    since: Instant,
    due: Duration,
}

impl Calls {
    /// No calls.
    ///
    /// `limit` is after how long a method is named, and again after twice the time, and so on.
    pub(crate) fn new(name: String, health: Health, limit: Duration) -> Self {
        Self { shared: Arc::new(Shared { name, health, limit, running: Mutex::default() }) }
    }

    /// Looks at the calls until the result is dropped.
    pub(crate) fn watch(&self) -> Watch {
        let shared = Arc::downgrade(&self.shared);
        let pause = (self.shared.limit / LOOKS_IN_TIME).max(Duration::from_millis(1));
        let (over, is_over) = mpsc::channel::<()>();
        // That of this thread, which may not be the one of the program.
        let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
        let look = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                while is_over.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let Some(shared) = shared.upgrade() else { return };
                    shared.look(Instant::now());
                }
            });
        };
        let thread = match thread::Builder::new().name("headrace-calls".to_owned()).spawn(look) {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::warn!(%error, "methods that do not return will not be named, because there is no thread for it");
                None
            }
        };
        Watch { over: Some(over), thread }
    }

    /// Awaits a method of `T`, whose `stream` may be empty.
    pub(crate) async fn during<T: ?Sized, R>(&self, method: &str, stream: &str, call: impl Future<Output = R>) -> R {
        self.begin::<T>(method, stream).during(call).await
    }

    /// Notes calls of a method of `T`, which begin with [`Noted::enter`], until the result is dropped.
    pub(crate) fn begin<T: ?Sized>(&self, method: &str, stream: &str) -> Noted {
        let call = Arc::new(Call {
            method: format!("{}::{method}()", type_name::<T>()),
            stream: stream.to_owned(),
            span: Span::current(),
            turn: AtomicU64::new(0),
            on_thread: AtomicBool::new(false),
            seen: Mutex::new(None),
        });
        let mut running = self.shared.lock();
        running.last_id += 1;
        let id = running.last_id;
        running.calls.insert(id, Arc::clone(&call));
        drop(running);
        Noted { shared: Arc::downgrade(&self.shared), id, call }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names what is overdue.
    fn look(&self, now: Instant) {
        let calls: Vec<Arc<Call>> = self.lock().calls.values().cloned().collect();
        for call in calls {
            let Some(sentence) = call.overdue(now, self.limit) else { continue };
            if call.stream.is_empty() {
                tracing::warn!(parent: &call.span, "{}: {sentence}", self.name);
            } else {
                tracing::warn!(parent: &call.span, stream = call.stream, "stream {}: {sentence}", call.stream);
            }
            self.health.error(&call.stream, sentence);
        }
    }
}

impl Call {
    /// Returns what to tell of a method that has not returned for the limit, and again after twice the time, and so on.
    fn overdue(&self, now: Instant, limit: Duration) -> Option<String> {
        let turn = self.turn.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = seen.as_mut().filter(|before| before.turn == turn && turn % 2 == 1) else {
            *seen = Some(Seen { turn, since: now, due: limit });
            return None;
        };
        let took = now.saturating_duration_since(before.since);
        if took < before.due {
            return None;
        }
        before.due = 2 * took;
        let stands = match self.on_thread.load(Ordering::Relaxed) {
            true => "in code that does not await, and blocks a thread of the runtime",
            false => "at an await",
        };
        Some(format!("{} has not returned for {:.1} s; it stands {stands}", self.method, took.as_secs_f64()))
    }
}

/// Calls of a method that were noted.
#[derive(Debug)]
pub(crate) struct Noted {
    shared: Weak<Shared>,
    id: u64,
    call: Arc<Call>,
}

impl Noted {
    /// The method runs until the result is dropped.
    pub(crate) fn enter(&self) -> Turn<'_> {
        Turn::of(&self.call)
    }

    /// The method waits for the SDK until the result is dropped, within [`enter`](Self::enter).
    pub(crate) fn leave(&self) -> Turn<'_> {
        Turn::of(&self.call)
    }

    /// Awaits the method.
    pub(crate) async fn during<R>(&self, call: impl Future<Output = R>) -> R {
        let _running = self.enter();
        let mut call = pin!(call);
        poll_fn(|context| self.polled(|| call.as_mut().poll(context))).await
    }

    /// The method has done something, such as yield an item.
    pub(crate) fn moved(&self) {
        self.call.turn.store(self.call.turn.load(Ordering::Relaxed).wrapping_add(2), Ordering::Relaxed);
    }

    /// Has this thread run the method to the end, or until it waits.
    pub(crate) fn run<R>(&self, run: impl FnOnce() -> R) -> R {
        let _running = self.enter();
        self.polled(run)
    }

    /// Has this thread run the method, which has been entered.
    pub(crate) fn polled<R>(&self, poll: impl FnOnce() -> R) -> R {
        self.call.on_thread.store(true, Ordering::Relaxed);
        let result = poll();
        self.call.on_thread.store(false, Ordering::Relaxed);
        result
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.lock().calls.remove(&self.id);
        }
    }
}

/// The time in which a method runs, or waits for the SDK.
pub(crate) struct Turn<'a>(&'a Call);

impl<'a> Turn<'a> {
    fn of(call: &'a Call) -> Self {
        call.turn.fetch_add(1, Ordering::Relaxed);
        Self(call)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turn.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends the thread that looks, when it is dropped.
pub(crate) struct Watch {
    over: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            // Nothing of it can panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Orders;

    fn calls() -> Calls {
        Calls::new("source orders".to_owned(), Health::new(), Duration::from_secs(10))
    }

    /// At which seconds a method that may take ten is named.
    fn told<const N: usize>(noted: &Noted, began: Instant, seconds: [u64; N]) -> [bool; N] {
        seconds.map(|at| noted.call.overdue(began + Duration::from_secs(at), Duration::from_secs(10)).is_some())
    }

    #[test]
    fn it_is_named_again_after_twice_the_time_and_not_while_it_does_something() {
        let (calls, began) = (calls(), Instant::now());
        let noted = calls.begin::<Orders>("settle", "orders/0");
        let running = noted.enter();
        assert_eq!(told(&noted, began, [0, 9, 11, 21, 23, 45, 47]), [false, false, true, false, true, false, true]);
        drop(noted.leave());
        assert_eq!(told(&noted, began, [48, 57, 59]), [false, false, true]);
        drop(running);
        assert_eq!(told(&noted, began, [100, 300]), [false, false]);
    }

    #[test]
    fn a_method_that_waits_for_the_sdk_is_not_named() {
        let (calls, began) = (calls(), Instant::now());
        let noted = calls.begin::<Orders>("stage", "");
        let _running = noted.enter();
        let _waiting = noted.leave();
        assert_eq!(told(&noted, began, [0, 100, 1000]), [false, false, false]);
    }

    #[test]
    fn it_says_whether_it_blocks_its_thread_and_nothing_once_it_has_returned() {
        let (calls, began) = (calls(), Instant::now());
        let noted = calls.begin::<Orders>("write", "");
        let running = noted.enter();
        assert_eq!(told(&noted, began, [0]), [false]);
        let late = began + Duration::from_secs(12);
        let blocking = noted.polled(|| noted.call.overdue(late, Duration::from_secs(10))).expect("it is overdue");
        assert!(blocking.ends_with("Orders::write() has not returned for 12.0 s; it stands in code that does not await, and blocks a thread of the runtime"), "{blocking}");
        let later = began + Duration::from_secs(30);
        let waiting = noted.call.overdue(later, Duration::from_secs(10)).expect("it is overdue");
        assert!(waiting.ends_with("has not returned for 30.0 s; it stands at an await"), "{waiting}");
        drop(running);
        drop(noted);
        assert!(calls.shared.lock().calls.is_empty());
    }
}
