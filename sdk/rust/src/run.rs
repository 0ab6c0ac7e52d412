//! Runs a connector as a program.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::connector::Connector;
use crate::error::Error;
use crate::logs::{log_to_stderr, writes_json};

/// Serves a connector until it ends, or SIGTERM or SIGINT asks it to stop, and returns the exit code of the program: 0 for
/// success, 1 for a failure, 2 for something invalid. It logs as [`log_to_stderr`] does. An error goes to stderr, in a line that
/// begins with `Error:`, or in JSON as an error of the log. SIGHUP does not end it: TLS files are read again with each connection.
/// If a method has not returned by the end, or `close` has not, it ends the process itself.
///
/// It reads the variables with which `headrace connector run` starts a program: `HEADRACE_GATEWAY`, `HEADRACE_TOKEN`,
/// `HEADRACE_INSTANCE`, `HEADRACE_LOG_FORMAT`, `HEADRACE_VERBOSE`, and all that begin with `HEADRACE_TLS`. Settings of the [`Connector`] in code precede them.
///
/// ```no_run
/// # use futures_util::stream::{self, Stream};
/// # use headrace::{Item, Position, ReadError, Source};
/// # struct Numbers;
/// # impl Source for Numbers {
/// #     type Token = ();
/// #     fn name(&self) -> &str { "numbers" }
/// #     fn read(&self, _: &str, _: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send { stream::empty() }
/// # }
/// use std::process::ExitCode;
///
/// use headrace::{Connector, run};
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     run(Connector::source(Numbers)).await
/// }
/// ```
pub async fn run(connector: Connector) -> ExitCode {
    if let Err(error) = log_to_stderr() {
        eprintln!("Error: {error}");
        return ExitCode::from(2);
    }
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt)] = signals else {
        eprintln!("Error: this process cannot handle SIGTERM and SIGINT");
        return ExitCode::FAILURE;
    };
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        eprintln!("Error: this process cannot handle SIGHUP");
        return ExitCode::FAILURE;
    };
    let stop = async {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => tracing::info!("SIGHUP: the connector runs on"),
            }
        }
        tracing::info!("stopping");
    };
    let (result, returned) = connector.serve_and_close(stop).await;
    let code = match result {
        Ok(()) => 0,
        Err(error) => {
            // `headrace` shows the last error as the reason if the program fails in a deployment.
            if writes_json() {
                tracing::error!(%error, "the connector has failed");
            } else {
                eprintln!("Error: {error}");
            }
            if matches!(error, Error::Invalid(_)) { 2 } else { 1 }
        }
    };
    if !returned {
        // A runtime that is dropped waits for its threads, so the process would never end.
        std::process::exit(code.into());
    }
    ExitCode::from(code)
}
