//! Batch-idempotent sinks: parts are held until Spark has chosen the ones that count, and then written in one step.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::kind::Kind;
use super::session::{Answers, Mode};
use super::{IdempotentSink, Outcomes, Part, Recovered, RowError, Rows, Transaction};
use crate::BoxError;
use crate::call::Task;
use crate::calls::Calls;
use crate::protocol as pb;
use crate::protocol::sink_service_attach_response::Message as Response;

pub(super) struct Idempotent<S> {
    sink: S,
    /// Pipelines that have written here, whose last batch the next session reports.
    pipelines: Mutex<BTreeSet<String>>,
}

impl<S> Idempotent<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, pipelines: Mutex::default() }
    }
}

impl<S: IdempotentSink> Kind for Idempotent<S> {
    const MODE: pb::SinkMode = pb::SinkMode::BatchIdempotent;
    type Mode = Handler<S>;

    fn name(&self) -> &str {
        self.sink.name()
    }

    fn version(&self) -> &str {
        self.sink.version()
    }

    async fn recover(&self, calls: &Calls) -> Result<Recovered, BoxError> {
        let pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut committed = Vec::new();
        for pipeline in pipelines {
            if let Some(batch) = calls.during::<S, _>("last", "", self.sink.last(&pipeline)).await? {
                committed.push(Transaction { pipeline, batch });
            }
        }
        Ok(Recovered { committed, ..Recovered::default() })
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.sink.close().await
    }

    fn begin(self: &Arc<Self>, answers: Answers, task: &Task) -> Handler<S> {
        let kind = Arc::clone(self);
        let (calls, hold) = (task.calls.clone(), task.settings.hold_bytes);
        Handler { kind, answers, calls, parts: HashMap::new(), written: HashMap::new(), hold, held: 0 }
    }
}

/// A part, and the rows of it that have arrived.
struct Held {
    part: Part,
    rows: Vec<Rows>,
    bytes: usize,
    messages: u64,
    outcomes: Outcomes,
    whole: bool,
}

pub(super) struct Handler<S> {
    kind: Arc<Idempotent<S>>,
    answers: Answers,
    calls: Calls,
    parts: HashMap<u64, Held>,
    /// The last batch of each pipeline that was written in this session.
    written: HashMap<String, u64>,
    hold: usize,
    held: usize,
}

impl<S: IdempotentSink> Mode for Handler<S> {
    async fn take(&mut self, message: Response) {
        match message {
            Response::StartPart(start) => {
                let part: Part = start.part.unwrap_or_default().into();
                let mut pipelines = self.kind.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
                pipelines.insert(part.transaction.pipeline.clone());
                drop(pipelines);
                let outcomes = Outcomes::all_written();
                self.parts.insert(start.id, Held { part, rows: Vec::new(), bytes: 0, messages: 0, outcomes, whole: false });
            }
            Response::Frame(part) => {
                if let Err(error) = self.hold(part.id, part.frame.unwrap_or_default()).await {
                    self.fail(part.id, error).await;
                }
            }
            Response::EndPart(end) => {
                let Some(held) = self.parts.get_mut(&end.id) else { return };
                if held.messages == end.messages {
                    held.whole = true;
                    self.answers.part(end.id, &held.part, Ok(std::mem::take(&mut held.outcomes))).await;
                } else {
                    let error = RowError::Incomplete { arrived: held.messages, expected: end.messages };
                    self.fail(end.id, error.into()).await;
                }
            }
            Response::DropPart(dropped) => {
                self.release(dropped.id);
            }
            Response::Prepare(prepare) => {
                let transaction: Transaction = prepare.transaction.unwrap_or_default().into();
                let parts: Vec<Part> = prepare.parts.into_iter().map(Part::from).collect();
                let result = self.write(&transaction, &parts).await;
                if result.is_ok() {
                    self.written.insert(transaction.pipeline.clone(), transaction.batch);
                    self.release_all(&transaction);
                }
                self.answers.prepared(transaction, result).await;
            }
            Response::Commit(commit) => {
                self.answers.committed(commit.transaction.unwrap_or_default().into(), Ok(())).await;
            }
            Response::Abort(abort) => self.release_all(&abort.transaction.unwrap_or_default().into()),
            Response::Welcome(_) | Response::Drain(_) => {}
        }
    }

    async fn finish(&mut self) {}

    async fn close(&mut self) {}
}

impl<S: IdempotentSink> Handler<S> {
    /// Holds the rows of a frame that the sink does not refuse.
    async fn hold(&mut self, id: u64, frame: pb::Frame) -> Result<(), BoxError> {
        let Some(held) = self.parts.get_mut(&id) else { return Ok(()) };
        let rows = Rows::read(frame)?;
        let first = rows.first();
        let end = first + rows.len() as u64;
        let outcomes = self.calls.during::<S, _>("check", "", self.kind.sink.check(&rows)).await?.checked(first, end)?;
        let rows = if outcomes.refused().is_empty() { Some(rows) } else { rows.without(&outcomes)? };
        held.outcomes.extend(outcomes);
        held.messages += end - first;
        if let Some(rows) = rows {
            let bytes = rows.bytes();
            if self.held + bytes > self.hold {
                return Err(
                    format!("undecided transactions have more than {} bytes: raise Settings::hold_bytes", self.hold).into()
                );
            }
            self.held += bytes;
            held.bytes += bytes;
            held.rows.push(rows);
        }
        Ok(())
    }

    /// Writes the parts of a transaction, unless it is written already.
    async fn write(&mut self, transaction: &Transaction, parts: &[Part]) -> Result<(), BoxError> {
        let is_written = self.written.get(&transaction.pipeline) == Some(&transaction.batch)
            || self.calls.during::<S, _>("last", "", self.kind.sink.last(&transaction.pipeline)).await?
                == Some(transaction.batch);
        if is_written {
            return Ok(());
        }
        let mut rows = Vec::new();
        for part in parts {
            let held = self.parts.values().find(|held| held.whole && held.part == *part);
            let held = held.ok_or_else(|| format!("partition {}, attempt {}, is not held", part.partition, part.attempt))?;
            rows.extend(held.rows.iter().cloned());
        }
        self.calls.during::<S, _>("write", "", self.kind.sink.write(transaction, &rows)).await
    }

    async fn fail(&mut self, id: u64, error: BoxError) {
        if let Some(held) = self.release(id) {
            self.answers.part(id, &held.part, Err(error)).await;
        }
    }

    fn release(&mut self, id: u64) -> Option<Held> {
        let held = self.parts.remove(&id)?;
        self.held -= held.bytes;
        Some(held)
    }

    fn release_all(&mut self, transaction: &Transaction) {
        let ids: Vec<u64> =
            self.parts.iter().filter(|(_, held)| held.part.transaction == *transaction).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| drop(self.release(id)));
    }
}
