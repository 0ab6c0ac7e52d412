//! One session of a sink, from Welcome to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at};
use tonic::Streaming;

use super::{Outcomes, Part, Transaction};
use crate::BoxError;
use crate::call::{Finish, Task, goodbye_text, stopped};
use crate::connect::unavailable;
use crate::ending::error_of;
use crate::error::Error;
use crate::health::{Health, Reporter};
use crate::metrics::Metrics;
use crate::protocol as pb;
use crate::protocol::sink_service_attach_request::Message as Request;
use crate::protocol::sink_service_attach_response::Message as Response;

const GOODBYE: Duration = Duration::from_secs(1);

/// Handles the messages of a session, in order, and answers them.
pub(super) trait Mode: Send {
    /// Takes a message; waits while the sink is behind, which slows the gateway down.
    fn take(&mut self, message: Response) -> impl Future<Output = ()> + Send;

    /// Answers everything that has arrived completely.
    fn finish(&mut self) -> impl Future<Output = ()> + Send;

    /// Ends every call of the sink.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Sends the answers of a session.
#[derive(Clone)]
pub(super) struct Answers {
    sink: Arc<str>,
    requests: mpsc::Sender<pb::SinkServiceAttachRequest>,
    health: Health,
    metrics: Arc<dyn Metrics>,
}

impl Answers {
    pub(super) fn new(sink: String, requests: mpsc::Sender<pb::SinkServiceAttachRequest>, task: &Task) -> Self {
        Self { sink: sink.into(), requests, health: task.health.clone(), metrics: Arc::clone(&task.metrics) }
    }

    /// Sends a message. If the call is over, the answer is not needed.
    async fn say(&self, message: Request) {
        let _ = self.requests.send(pb::SinkServiceAttachRequest { message: Some(message) }).await;
    }

    /// Answers that a part is staged, or that it cannot be.
    pub(super) async fn part(&self, id: u64, part: &Part, result: Result<Outcomes, BoxError>) {
        match result {
            Ok(outcomes) => {
                if let Some(first) = outcomes.refused().first() {
                    tracing::info!(sink = %self.sink, count = outcomes.refused().len(), first = first.reason, "messages refused");
                }
                self.say(Request::Staged(pb::Staged { id, refused: outcomes.into() })).await;
            }
            Err(error) => {
                let doing = format!("staging partition {}", part.partition);
                let reason = self.failure(&part.transaction, &doing, error);
                self.say(Request::Failed(pb::Failed { what: Some(pb::failed::What::PartId(id)), reason })).await;
            }
        }
    }

    /// Answers with the vote for a transaction.
    pub(super) async fn prepared(&self, transaction: Transaction, result: Result<(), BoxError>) {
        match result {
            Ok(()) => self.say(Request::Prepared(pb::Prepared { transaction: Some(transaction.into()) })).await,
            Err(error) => self.transaction_failed(transaction, "preparing", error).await,
        }
    }

    /// Answers that a transaction is visible, or that it cannot be made so.
    pub(super) async fn committed(&self, transaction: Transaction, result: Result<(), BoxError>) {
        match result {
            Ok(()) => {
                self.say(Request::Committed(pb::Committed { transaction: Some(transaction.into()) })).await;
                self.metrics.committed(&self.sink);
            }
            Err(error) => self.transaction_failed(transaction, "committing", error).await,
        }
    }

    async fn transaction_failed(&self, transaction: Transaction, doing: &str, error: BoxError) {
        let reason = self.failure(&transaction, doing, error);
        let what = Some(pb::failed::What::Transaction(transaction.into()));
        self.say(Request::Failed(pb::Failed { what, reason })).await;
    }

    /// Logs and reports a failure, and returns its text.
    pub(super) fn failure(&self, transaction: &Transaction, doing: &str, error: BoxError) -> String {
        let text = format!("{doing} of batch {} of pipeline {}: {error}", transaction.batch, transaction.pipeline);
        tracing::error!(sink = %self.sink, "{text}");
        self.health.error("", text);
        error.to_string()
    }
}

/// Serves a session after Welcome, until it ends.
pub(super) async fn serve<M: Mode>(
    task: &Task,
    mut mode: M,
    answers: Answers,
    welcome: pb::SinkWelcome,
    mut responses: Streaming<pb::SinkServiceAttachResponse>,
) -> Result<Finish, Error> {
    let result = session(task, &mut mode, &answers, &welcome, &mut responses).await;
    if timeout(task.settings.drain, mode.close()).await.is_err() {
        tracing::warn!(sink = %answers.sink, "a method of the sink does not return; it is abandoned");
    }
    result
}

async fn session<M: Mode>(
    task: &Task,
    mode: &mut M,
    answers: &Answers,
    welcome: &pb::SinkWelcome,
    responses: &mut Streaming<pb::SinkServiceAttachResponse>,
) -> Result<Finish, Error> {
    let mut stop = task.stop.clone();
    let mut reporter = task.health.reporter();
    // Several times in each period in which the gateway wants to hear something.
    let busy_every = Duration::from_millis(u64::from(welcome.read_timeout_ms).max(1000) / 4);
    let (why, by) = loop {
        tokio::select! {
            response = responses.message() => match response {
                Ok(Some(response)) => match response.message {
                    Some(Response::Drain(drain)) => {
                        tracing::info!(reason = drain.reason, "the gateway asks to reconnect");
                        break (Finish::Drained, Instant::now() + Duration::from_millis(drain.deadline_ms.into()).mul_f64(0.9));
                    }
                    Some(message) => {
                        if let Response::Frame(part) = &message {
                            let frame = part.frame.as_ref();
                            let bytes = frame.map_or(0, prost::Message::encoded_len) as u64;
                            task.metrics.frame_received(&answers.sink, frame.map_or(0, |frame| frame.count).into(), bytes);
                        }
                        let stopping = while_busy(mode.take(message), answers, &mut reporter, busy_every, &mut stop, task.settings.drain);
                        if let Some(by) = stopping.await {
                            break (Finish::Stopped, by);
                        }
                    }
                    None => tracing::debug!("ignored a message that this version does not know"),
                },
                Ok(None) => return Err(Error::Unavailable {
                    gateway: task.gateway.clone(),
                    ending: unavailable("the gateway ended the call without a Goodbye"),
                }),
                Err(status) => return Err(error_of(&task.gateway, &status)),
            },
            report = reporter.next() => answers.say(Request::Report(report)).await,
            () = stopped(&mut stop) => break (Finish::Stopped, Instant::now() + task.settings.drain),
        }
    };
    if timeout_at(by, mode.finish()).await.is_err() {
        tracing::info!(sink = %answers.sink, "not finished in time; it comes again");
    }
    let reason = goodbye_text(&Ok(why));
    let by = Instant::now() + GOODBYE;
    let goodbye = pb::SinkServiceAttachRequest { message: Some(Request::Goodbye(pb::SinkGoodbye { reason })) };
    if let Ok(Ok(())) = timeout_at(by, answers.requests.send(goodbye)).await {
        // The gateway ends the call; ending it here could overtake what was just written.
        while let Ok(Ok(Some(_))) = timeout_at(by, responses.message()).await {}
    }
    Ok(why)
}

/// Waits until a message is taken. Meanwhile nothing is read, so the connector sends that it lives (SNK-35). Returns
/// until when to finish if the connector was stopped and the message was not taken in time.
async fn while_busy(
    taking: impl Future<Output = ()>,
    answers: &Answers,
    reporter: &mut Reporter,
    every: Duration,
    stop: &mut tokio::sync::watch::Receiver<bool>,
    drain: Duration,
) -> Option<Instant> {
    let mut taking = std::pin::pin!(taking);
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let mut by: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            () = &mut taking => return by,
            _ = ticks.tick() => answers.say(Request::Busy(pb::SinkBusy {})).await,
            report = reporter.next() => answers.say(Request::Report(report)).await,
            () = stopped(stop), if by.is_none() => by = Some(Instant::now() + drain),
            () = sleep_until(by.unwrap_or_else(Instant::now)), if by.is_some() => return by,
        }
    }
}
