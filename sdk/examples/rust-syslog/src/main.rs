//! A source that receives syslog over UDP and TCP: see README.md.

mod buffer;
mod framing;
mod listen;
mod options;
mod record;
mod source;
mod time;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, io};

use headrace::{Connector, Health, Settings, State, log_to_stderr};
use tokio::net::{TcpListener, UdpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::buffer::Buffer;
use crate::listen::Receiver;
use crate::options::{Options, USAGE};
use crate::source::Syslog;

const REPORT_INTERVAL: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    if let Err(error) = log_to_stderr() {
        eprintln!("Error: {error}");
        return ExitCode::from(2);
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("Error: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::from(if matches!(error, Failure::Connector(headrace::Error::Invalid(_))) { 2 } else { 1 })
        }
    }
}

/// Why the program ends before it is stopped.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}: {1}")]
    Listen(String, io::Error),
    #[error("{0}: {1}")]
    Addresses(String, io::Error),
    #[error("this process cannot handle signals: {0}")]
    Signals(#[from] io::Error),
    #[error(transparent)]
    Connector(#[from] headrace::Error),
}

/// Receives and sends, until SIGTERM or SIGINT. SIGHUP does not end it.
async fn serve(options: Options) -> Result<(), Failure> {
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let buffer = Arc::new(Buffer::new(options.buffer_bytes));
    let mut listeners = listen(&options, &buffer).await?;
    let health = Health::new();
    listeners.spawn(report(Arc::clone(&buffer), health.clone()));
    let source = Syslog { name: options.source, buffer: Arc::clone(&buffer) };
    let mut settings = Settings::default();
    // All that was read is acknowledged already, or waited for long enough.
    settings.drain = Duration::from_secs(1);
    let stop = async {
        loop {
            tokio::select! {
                _ = signals.0.recv() => break,
                _ = signals.1.recv() => break,
                _ = hangup.recv() => tracing::info!("SIGHUP: the connector runs on"),
            }
        }
        tracing::info!(waiting = buffer.len(), "stopping: receiving nothing more");
        listeners.shutdown().await;
        let _ = tokio::time::timeout(options.drain, buffer.emptied()).await;
    };
    let ended = Connector::source(source).settings(settings).health(health).serve(stop).await;
    let counters = &buffer.counters;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    tracing::info!(received = count(&counters.received), dropped = count(&counters.dropped), "stopped");
    if buffer.len() > 0 {
        tracing::warn!(lost = buffer.len(), "messages were received and are not in a checkpoint: they are lost");
    }
    Ok(ended?)
}

/// Listens on the addresses, and receives in tasks of their own.
async fn listen(options: &Options, buffer: &Arc<Buffer>) -> Result<JoinSet<()>, Failure> {
    let receiver = Receiver {
        buffer: Arc::clone(buffer),
        max_message_bytes: options.max_message_bytes,
        clients: Arc::new(Semaphore::new(options.max_clients)),
        offset: options.offset,
    };
    let (mut listeners, mut addresses) = (JoinSet::new(), String::new());
    if let Some(address) = &options.udp {
        let failure = |error| Failure::Listen(format!("UDP {address}"), error);
        let socket = UdpSocket::bind(address).await.map_err(failure)?;
        addresses += &format!("udp {}\n", socket.local_addr().map_err(failure)?);
        listeners.spawn(receiver.clone().datagrams(socket));
    }
    if let Some(address) = &options.tcp {
        let failure = |error| Failure::Listen(format!("TCP {address}"), error);
        let listener = TcpListener::bind(address).await.map_err(failure)?;
        addresses += &format!("tcp {}\n", listener.local_addr().map_err(failure)?);
        listeners.spawn(receiver.clients(listener));
    }
    tracing::info!(addresses = addresses.trim_end().replace('\n', ", "), "listening");
    if let Some(path) = &options.addresses {
        // Whoever waits for the file never reads half of it.
        let partial = path.with_extension("partial");
        let written = fs::write(&partial, &addresses).and_then(|()| fs::rename(&partial, path));
        written.map_err(|error| Failure::Addresses(path.display().to_string(), error))?;
    }
    Ok(listeners)
}

/// Logs what was lost, and reports it to operators, while it happens.
async fn report(buffer: Arc<Buffer>, health: Health) {
    let counters = &buffer.counters;
    let now = || [&counters.dropped, &counters.oversized, &counters.unparsed].map(|counter| counter.load(Ordering::Relaxed));
    let mut before = now();
    let mut ticks = tokio::time::interval(REPORT_INTERVAL);
    loop {
        ticks.tick().await;
        let total = now();
        let [dropped, oversized, unparsed] = std::array::from_fn(|at| total[at] - before[at]);
        before = total;
        if dropped > 0 {
            let reason = format!("datagrams dropped within 10 s: {dropped}; the buffer was full");
            tracing::warn!(dropped, in_all = total[0], "datagrams dropped: the buffer was full");
            health.error("", reason.as_str());
            health.set(State::Degraded, reason);
        } else {
            health.set(State::Running, "");
        }
        if oversized + unparsed > 0 {
            tracing::warn!(oversized, unparsed, "messages skipped because of their size, or sent without a header");
        }
    }
}
