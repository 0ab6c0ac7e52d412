//! The end of a source or sink: its `close`, on a thread of its own.

use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, sleep, timeout_at};

use crate::error::BoxError;
use crate::served::{Close, Served};

/// How often to look whether methods have returned that were abandoned.
const IDLE_LOOK: Duration = Duration::from_millis(10);

/// Calls `close` of a source or sink once none of its methods runs. Logs what fails or takes too long.
///
/// Returns whether every method has returned, `close` included.
pub(crate) async fn close(served: &dyn Served, limit: Duration) -> bool {
    let (name, by) = (served.name(), Instant::now() + limit);
    while !served.is_idle() {
        if Instant::now() >= by {
            tracing::error!(name, "close() is not called, because another method has not returned");
            return false;
        }
        sleep(IDLE_LOOK).await;
    }
    let closed = match on_a_thread(served.close()) {
        Ok(closed) => closed,
        Err(error) => {
            tracing::error!(name, %error, "close() is not called, because there is no thread for it");
            return true;
        }
    };
    match timeout_at(by, closed).await {
        Ok(Ok(Ok(()))) => true,
        Ok(Ok(Err(error))) => {
            tracing::error!(name, %error, "close() has failed");
            true
        }
        Ok(Err(_)) => {
            tracing::error!(name, "close() has panicked");
            true
        }
        Err(_) => {
            tracing::error!(name, "close() has not returned; the connector ends without it");
            false
        }
    }
}

/// Runs a call on a thread of its own, which nothing waits for: it may block. Drops the call if the receiver is dropped.
fn on_a_thread(call: Close) -> std::io::Result<oneshot::Receiver<Result<(), BoxError>>> {
    let (mut sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new().name("headrace-close".to_owned()).spawn(move || {
        let result = runtime.block_on(async {
            tokio::select! {
                result = call => Some(result),
                () = sender.closed() => None,
            }
        });
        // There is no receiver if it took too long.
        let _ = result.map(|result| sender.send(result));
    })?;
    Ok(receiver)
}
