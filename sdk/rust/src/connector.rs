//! A connector: a source or a sink, its settings, and the loop that keeps it connected.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use tracing::Instrument as _;

use crate::backoff::Backoff;
use crate::call::{Finish, Task, stopped};
use crate::calls::Calls;
use crate::closing::close;
use crate::connect::Target;
#[cfg(feature = "tls")]
use crate::connect::Tls;
use crate::environment::Environment;
use crate::error::Error;
use crate::health::Health;
use crate::metrics::{Metrics, NoMetrics};
use crate::names::check_text;
use crate::served::Served;
use crate::settings::Settings;
use crate::token_file::TokenFile;

const DEFAULT_GATEWAY: &str = "127.0.0.1:7433";
/// A session that stood this long has succeeded: the next wait is a short one.
const STOOD: Duration = Duration::from_secs(2);
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A source or a sink with its settings. [`run`](crate::run) it, or [`serve`](Self::serve) it in a program of your own.
pub struct Connector {
    served: Box<dyn Served>,
    gateway: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    instance: Option<String>,
    settings: Settings,
    metrics: Arc<dyn Metrics>,
    health: Health,
}

impl Connector {
    pub(crate) fn of(served: Box<dyn Served>) -> Self {
        Self {
            served,
            gateway: None,
            token: None,
            token_file: None,
            #[cfg(feature = "tls")]
            tls: None,
            instance: None,
            settings: Settings::default(),
            metrics: Arc::new(NoMetrics),
            health: Health::new(),
        }
    }

    /// Sets the address of the gateway, `host:port`, or `unix:PATH` for a socket. Default: `HEADRACE_GATEWAY`, else
    /// 127.0.0.1:7433.
    #[must_use]
    pub fn gateway(mut self, gateway: impl Into<String>) -> Self {
        self.gateway = Some(gateway.into());
        self
    }

    /// Identifies this deployment of the connector, the same across its restarts. A newer session of an instance takes over
    /// from the older one. Default: `HEADRACE_INSTANCE`, else the name of the source or sink.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Sets the connector's token. Default: `HEADRACE_TOKEN`, else none.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the file that contains the token, and nothing else but white space around it, such as `/dev/fd/3`. It is read again
    /// before each session, so that a token can be replaced. Excludes [`token`](Self::token). Default: `HEADRACE_TOKEN_FILE`,
    /// which precedes `HEADRACE_TOKEN`.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// Connects with TLS. Default: as `HEADRACE_TLS`, `HEADRACE_TLS_CA`, `HEADRACE_TLS_CERT` and `HEADRACE_TLS_KEY` say.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets what rarely needs to be changed.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Counts what the connector does.
    #[must_use]
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.metrics = Arc::new(metrics);
        self
    }

    /// Reports what a source or sink says of itself: give both a clone of the same [`Health`].
    #[must_use]
    pub fn health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// Serves until the source has ended and everything is acknowledged, or until `stop` completes. Reconnects as long as it
    /// takes.
    ///
    /// When `stop` completes, a source sends what it has read, and waits up to [`Settings::drain`] for acknowledgements; a sink
    /// answers what it has received, within that time. Dropping the future instead ends the connector at once, which loses
    /// nothing: messages are sent again.
    ///
    /// At the end, also after an error, it calls `close` of the source or sink, unless that or a setting was invalid, or the future
    /// is dropped.
    ///
    /// # Errors
    ///
    /// What ended the connector: see [`Error`].
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        self.serve_and_close(stop).await.0
    }

    /// As [`serve`](Self::serve); also returns whether every method has returned, `close` included.
    pub(crate) async fn serve_and_close(mut self, stop: impl Future<Output = ()> + Send) -> (Result<(), Error>, bool) {
        let (stopping, stopped) = watch::channel(false);
        let (task, mut target) = match self.prepared(stopped) {
            Ok(prepared) => prepared,
            Err(error) => return (Err(error), true),
        };
        // As an error, so that no level leaves it out.
        let instance = tracing::error_span!("connector", instance = task.instance);
        let watch = task.calls.watch();
        let end = async {
            let result = self.serve_prepared(stop, &stopping, &task, &mut target).await;
            let returned = close(&*self.served, self.settings.close).await;
            drop(watch);
            (result, returned)
        };
        end.instrument(instance).await
    }

    /// Serves until the connector ends, or `stop` completes.
    async fn serve_prepared(
        &mut self,
        stop: impl Future<Output = ()> + Send,
        stopping: &watch::Sender<bool>,
        task: &Task,
        target: &mut Target,
    ) -> Result<(), Error> {
        let mut connected = Box::pin(self.keep_connected(task, target));
        let ended = tokio::select! {
            ended = &mut connected => Some(ended),
            () = stop => None,
        };
        match ended {
            Some(ended) => ended,
            None => {
                stopping.send_replace(true);
                connected.await
            }
        }
    }

    /// Checks the connector and its settings before anything is called.
    fn prepared(&self, stopped: watch::Receiver<bool>) -> Result<(Task, Target), Error> {
        self.served.check()?;
        let (target, instance) = self.resolved(Environment::of_process()?)?;
        check_text("instance", &instance)?;
        target.endpoint(self.settings.welcome)?;
        let task = Task {
            gateway: target.gateway.clone(),
            instance,
            settings: self.settings.clone(),
            metrics: Arc::clone(&self.metrics),
            health: self.health.clone(),
            calls: Calls::new(format!("{} {}", self.served.kind(), self.served.name()), self.health.clone(), self.settings.stuck),
            stop: stopped,
        };
        if target.shows_token() {
            tracing::warn!(gateway = target.gateway, "the token goes over the network in the clear: use TLS");
        }
        Ok((task, target))
    }

    /// Returns where to connect, and the instance: what was set, or else what the environment says.
    pub(crate) fn resolved(&self, environment: Environment) -> Result<(Target, String), Error> {
        let (token_file, token) = self.resolved_token(&environment)?;
        let instance = self.instance.clone().or(environment.instance).unwrap_or_else(|| self.served.name().to_owned());
        let target = Target {
            gateway: self.gateway.clone().or(environment.gateway).unwrap_or_else(|| DEFAULT_GATEWAY.to_owned()),
            token,
            token_file,
            #[cfg(feature = "tls")]
            files: if self.tls.is_none() { environment.tls.clone() } else { None },
            #[cfg(feature = "tls")]
            tls: match (&self.tls, environment.tls) {
                (Some(tls), _) => Some(tls.clone()),
                (None, files) => files.as_ref().map(Tls::read).transpose()?,
            },
        };
        #[cfg(not(feature = "tls"))]
        if environment.tls.is_some() {
            return Err(Error::Invalid(
                "the environment asks for TLS (HEADRACE_TLS), but this program was built without: enable the feature `tls` of \
                 the crate headrace"
                    .to_owned(),
            ));
        }
        Ok((target, instance))
    }

    /// Returns the token, and the file that it is from.
    fn resolved_token(&self, environment: &Environment) -> Result<(Option<TokenFile>, Option<String>), Error> {
        let (name, path) = match (&self.token, &self.token_file, &environment.token_file) {
            (Some(_), Some(_), _) => {
                let text = "token and token_file exclude each other: give the token, or the file that contains it";
                return Err(Error::Invalid(text.to_owned()));
            }
            (Some(token), None, _) => return Ok((None, Some(token.clone()))),
            (None, Some(path), _) => ("token_file", path),
            (None, None, Some(path)) => ("HEADRACE_TOKEN_FILE", path),
            (None, None, None) => return Ok((None, environment.token.clone())),
        };
        let (file, token) = TokenFile::open(name, path)?;
        Ok((Some(file), Some(token)))
    }

    /// Reconnects, with backoff, until a session ends permanently.
    async fn keep_connected(&mut self, task: &Task, target: &mut Target) -> Result<(), Error> {
        let mut backoff = Backoff::new(task.settings.first_backoff, task.settings.max_backoff);
        let mut logged_at: Option<Instant> = None;
        let mut stop = task.stop.clone();
        loop {
            let began = Instant::now();
            target.refresh_token();
            let result = tokio::select! {
                channel = target.connect(task.settings.welcome) => match channel {
                    Ok(channel) => self.served.attempt(task, target, channel).await,
                    Err(error) => Err(error),
                },
                () = stopped(&mut stop) => return Ok(()),
            };
            match result {
                Ok(Finish::Ended | Finish::Stopped) => return Ok(()),
                Ok(Finish::Drained) => {}
                Err(error) if error.is_temporary() => {
                    task.health.error("", error.to_string());
                    if logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                        tracing::warn!(%error, "trying again");
                        logged_at = Some(Instant::now());
                    }
                }
                Err(error) if error.is_unauthenticated() && target.refresh_token() => {
                    tracing::info!(
                        "the gateway no longer takes the token, and its file contains another one: connecting with that"
                    );
                }
                Err(error) => return Err(error),
            }
            task.metrics.reconnecting();
            if began.elapsed() >= STOOD {
                backoff.reset();
                logged_at = None;
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next_wait()) => {}
                () = stopped(&mut stop) => return Ok(()),
            }
        }
    }
}
