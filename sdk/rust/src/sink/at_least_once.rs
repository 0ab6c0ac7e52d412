//! Sinks that write at least once: rows are written as they arrive.

use std::collections::HashMap;
use std::sync::Arc;

use super::kind::Kind;
use super::session::{Answers, Mode};
use super::{Outcomes, Part, Recovered, RowError, Rows, Sink};
use crate::BoxError;
use crate::call::Task;
use crate::calls::Calls;
use crate::protocol as pb;
use crate::protocol::sink_service_attach_response::Message as Response;

pub(super) struct AtLeastOnce<S> {
    sink: S,
}

impl<S> AtLeastOnce<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink }
    }
}

impl<S: Sink> Kind for AtLeastOnce<S> {
    const MODE: pb::SinkMode = pb::SinkMode::AtLeastOnce;
    type Mode = Handler<S>;

    fn name(&self) -> &str {
        self.sink.name()
    }

    fn version(&self) -> &str {
        self.sink.version()
    }

    async fn recover(&self, _: &Calls) -> Result<Recovered, BoxError> {
        Ok(Recovered::default())
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.sink.close().await
    }

    fn begin(self: &Arc<Self>, answers: Answers, task: &Task) -> Handler<S> {
        Handler { kind: Arc::clone(self), answers, calls: task.calls.clone(), parts: HashMap::new() }
    }
}

/// A part that is being written.
struct Writing {
    part: Part,
    messages: u64,
    outcomes: Outcomes,
}

pub(super) struct Handler<S> {
    kind: Arc<AtLeastOnce<S>>,
    answers: Answers,
    calls: Calls,
    parts: HashMap<u64, Writing>,
}

impl<S: Sink> Mode for Handler<S> {
    async fn take(&mut self, message: Response) {
        match message {
            Response::StartPart(start) => {
                let part = start.part.unwrap_or_default().into();
                self.parts.insert(start.id, Writing { part, messages: 0, outcomes: Outcomes::all_written() });
            }
            Response::Frame(part) => {
                let Some(writing) = self.parts.get_mut(&part.id) else { return };
                if let Err(error) = write(&self.kind.sink, &self.calls, writing, part.frame.unwrap_or_default()).await {
                    self.answers.part(part.id, &writing.part, Err(error)).await;
                    self.parts.remove(&part.id);
                }
            }
            Response::EndPart(end) => {
                let Some(writing) = self.parts.remove(&end.id) else { return };
                let result = match end.messages == writing.messages {
                    true => self.calls.during::<S, _>("flush", "", self.kind.sink.flush()).await.map(|()| writing.outcomes),
                    false => Err(RowError::Incomplete { arrived: writing.messages, expected: end.messages }.into()),
                };
                self.answers.part(end.id, &writing.part, result).await;
            }
            Response::DropPart(dropped) => {
                self.parts.remove(&dropped.id);
            }
            Response::Prepare(prepare) => {
                self.answers.prepared(prepare.transaction.unwrap_or_default().into(), Ok(())).await;
            }
            Response::Commit(commit) => {
                self.answers.committed(commit.transaction.unwrap_or_default().into(), Ok(())).await;
            }
            Response::Abort(abort) => {
                let transaction = abort.transaction.unwrap_or_default().into();
                self.parts.retain(|_, writing| writing.part.transaction != transaction);
            }
            Response::Welcome(_) | Response::Drain(_) => {}
        }
    }

    async fn finish(&mut self) {}

    async fn close(&mut self) {}
}

/// Writes the rows of a frame.
async fn write<S: Sink>(sink: &S, calls: &Calls, writing: &mut Writing, frame: pb::Frame) -> Result<(), BoxError> {
    let rows = Rows::read(frame)?;
    let outcomes = calls.during::<S, _>("write", "", sink.write(&writing.part, &rows)).await?;
    let first = rows.first();
    writing.messages += rows.len() as u64;
    writing.outcomes.extend(outcomes.checked(first, first + rows.len() as u64)?);
    Ok(())
}
