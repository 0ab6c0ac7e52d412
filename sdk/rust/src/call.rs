//! What every session knows of its connector, and how sessions end.

use std::sync::Arc;

use tokio::sync::watch;

use crate::calls::Calls;
use crate::error::Error;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::protocol as pb;
use crate::settings::Settings;

pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// A connector's settings, and its messages to and from the SDK.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) gateway: String,
    pub(crate) instance: String,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<dyn Metrics>,
    pub(crate) health: Health,
    pub(crate) calls: Calls,
    /// True once the connector is to stop.
    pub(crate) stop: watch::Receiver<bool>,
}

/// How a session ended that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The source has ended, and everything is acknowledged.
    Ended,
    /// The connector was stopped.
    Stopped,
    /// The gateway asked to reconnect.
    Drained,
}

/// The reason that a Goodbye gives.
pub(crate) fn goodbye_text(why: &Result<Finish, Error>) -> String {
    match why {
        Ok(Finish::Ended) => "everything is acknowledged".to_owned(),
        Ok(Finish::Stopped) => "the connector was stopped".to_owned(),
        Ok(Finish::Drained) => "the gateway asked to reconnect".to_owned(),
        Err(error) => error.to_string().chars().take(500).collect(),
    }
}

/// The library, as Hello names it.
pub(crate) fn sdk() -> pb::Sdk {
    pb::Sdk { name: "headrace-rust".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), language: "rust".to_owned() }
}

/// Waits until the connector is to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody can ask for it now.
        std::future::pending().await
    }
}
