//! Two-phase sinks: parts are staged concurrently as they arrive; decisions are carried out in order.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::kind::Kind;
use super::queue::Queue;
use super::rows::Taken;
use super::session::{Answers, Mode};
use super::spill::Spill;
use super::{Outcomes, Part, PartRows, Recovered, Transaction, TwoPhaseSink};
use crate::BoxError;
use crate::call::Task;
use crate::calls::Calls;
use crate::protocol as pb;
use crate::protocol::sink_service_attach_response::Message as Response;

/// How many decisions may wait.
const DECISIONS: usize = 1000;

pub(super) struct TwoPhase<S> {
    sink: S,
    /// Held by every call but `stage`: one is made at a time.
    calls: Mutex<()>,
}

impl<S: TwoPhaseSink> TwoPhase<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, calls: Mutex::new(()) }
    }

    async fn drop_part(&self, part: &Part, answers: &Answers, calls: &Calls) {
        let _call = self.calls.lock().await;
        if let Err(error) = calls.during::<S, _>("drop_part", "", self.sink.drop_part(part)).await {
            answers.failure(&part.transaction, "dropping a part", error);
        }
    }
}

impl<S: TwoPhaseSink> Kind for TwoPhase<S> {
    const MODE: pb::SinkMode = pb::SinkMode::TwoPhase;
    type Mode = Handler<S>;

    fn name(&self) -> &str {
        self.sink.name()
    }

    fn version(&self) -> &str {
        self.sink.version()
    }

    async fn recover(&self, calls: &Calls) -> Result<Recovered, BoxError> {
        let _call = self.calls.lock().await;
        calls.during::<S, _>("recover", "", self.sink.recover()).await
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.sink.close().await
    }

    fn begin(self: &Arc<Self>, answers: Answers, task: &Task) -> Handler<S> {
        let (decisions, decided) = mpsc::channel(DECISIONS);
        let (closing, closed) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(decide(Arc::clone(self), answers.clone(), task.calls.clone(), decided, closed).in_current_span());
        Handler {
            kind: Arc::clone(self),
            answers,
            calls: task.calls.clone(),
            queue_bytes: task.settings.queue_bytes,
            moved: Arc::default(),
            parts: HashMap::new(),
            last: HashMap::new(),
            decisions: Some(decisions),
            closing,
            tasks,
        }
    }
}

/// A part that is being staged, or is staged.
struct Staging {
    part: Part,
    queue: Arc<Queue>,
    spill: Spill,
    dropped: watch::Sender<bool>,
    /// Whether all of it has arrived.
    complete: bool,
    /// Once `stage` has returned: whether the part is staged.
    over: watch::Receiver<Option<bool>>,
}

/// The decision of the gateway.
enum Verdict {
    Drop(Part),
    Prepare(Vec<Part>),
    Commit,
    Abort,
}

/// A decision, and the parts that it waits for, because they began before it.
struct Decision {
    transaction: Transaction,
    verdict: Verdict,
    before: Vec<watch::Receiver<Option<bool>>>,
    /// Parts that begin after the decision wait for it.
    done: watch::Sender<bool>,
}

pub(super) struct Handler<S> {
    kind: Arc<TwoPhase<S>>,
    answers: Answers,
    calls: Calls,
    queue_bytes: usize,
    /// Told when a part has taken rows, or waits for some.
    moved: Arc<Notify>,
    parts: HashMap<u64, Staging>,
    /// The last decision of each transaction that is not carried out yet.
    last: HashMap<Transaction, watch::Receiver<bool>>,
    decisions: Option<mpsc::Sender<Decision>>,
    closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl<S: TwoPhaseSink> Mode for Handler<S> {
    async fn take(&mut self, message: Response) {
        while self.tasks.try_join_next().is_some() {}
        match message {
            Response::StartPart(start) => self.start(start.id, start.part.unwrap_or_default().into()),
            Response::Frame(part) => self.queue(part.id, part.frame.unwrap_or_default()).await,
            Response::EndPart(end) => {
                if let Some(staging) = self.parts.get_mut(&end.id) {
                    staging.complete = true;
                    staging.queue.end(end.messages);
                }
            }
            Response::DropPart(dropped) => {
                if let Some(staging) = self.parts.remove(&dropped.id) {
                    staging.dropped.send_replace(true);
                    let transaction = staging.part.transaction.clone();
                    self.decide(transaction, Verdict::Drop(staging.part), vec![staging.over]).await;
                }
            }
            Response::Prepare(prepare) => {
                let parts: Vec<Part> = prepare.parts.into_iter().map(Part::from).collect();
                let counting: HashSet<Part> = parts.iter().cloned().collect();
                let transaction = prepare.transaction.unwrap_or_default().into();
                self.decide_all(transaction, Verdict::Prepare(parts), &counting).await;
            }
            Response::Commit(commit) => {
                self.decide_all(commit.transaction.unwrap_or_default().into(), Verdict::Commit, &HashSet::new()).await;
            }
            Response::Abort(abort) => {
                self.decide_all(abort.transaction.unwrap_or_default().into(), Verdict::Abort, &HashSet::new()).await;
            }
            Response::Welcome(_) | Response::Drain(_) => {}
        }
    }

    async fn finish(&mut self) {
        for staging in self.parts.values().filter(|staging| !staging.complete) {
            staging.dropped.send_replace(true);
        }
        self.decisions = None;
        while self.tasks.join_next().await.is_some() {}
    }

    async fn close(&mut self) {
        self.closing.send_replace(true);
        for staging in self.parts.values() {
            staging.dropped.send_replace(true);
        }
        self.decisions = None;
        while self.tasks.join_next().await.is_some() {}
    }
}

impl<S: TwoPhaseSink> Handler<S> {
    /// Starts to stage a part.
    fn start(&mut self, id: u64, part: Part) {
        let queue = Arc::new(Queue::new(self.queue_bytes, Arc::clone(&self.moved)));
        let (dropped, is_dropped) = watch::channel(false);
        let (is_over, over) = watch::channel(None);
        let stage = Stage {
            kind: Arc::clone(&self.kind),
            answers: self.answers.clone(),
            calls: self.calls.clone(),
            id,
            part: part.clone(),
            before: self.last.get(&part.transaction).cloned(),
            queue: Arc::clone(&queue),
            dropped: is_dropped,
            over: is_over,
        };
        self.tasks.spawn(stage.run().in_current_span());
        self.parts.insert(id, Staging { part, queue, spill: Spill::default(), dropped, complete: false, over });
    }

    /// Queues rows of a part. If its queue is full, waits until there is room, or until another part waits for rows: a sink may
    /// stage one part only after another one, whose rows are behind these (SNK-36). Those of the first then go to a file.
    async fn queue(&mut self, id: u64, frame: pb::Frame) {
        loop {
            // If the part has failed, what still arrives of it is ignored.
            let Some(staging) = self.parts.get_mut(&id) else { return };
            if staging.queue.has_room(&frame) {
                return staging.queue.add(frame);
            }
            if self.parts.values().any(|staging| staging.queue.is_starved()) {
                if let Some(staging) = self.parts.get_mut(&id) {
                    staging.queue.add_spilled(staging.spill.write(&frame).await);
                }
                return;
            }
            self.moved.notified().await;
        }
    }

    /// Queues a decision about all parts of a transaction; parts that do not count are dropped.
    async fn decide_all(&mut self, transaction: Transaction, verdict: Verdict, counting: &HashSet<Part>) {
        let mut before = Vec::new();
        self.parts.retain(|_, staging| {
            if staging.part.transaction != transaction {
                return true;
            }
            if !counting.contains(&staging.part) {
                staging.dropped.send_replace(true);
            }
            before.push(staging.over.clone());
            false
        });
        self.decide(transaction, verdict, before).await;
    }

    async fn decide(&mut self, transaction: Transaction, verdict: Verdict, before: Vec<watch::Receiver<Option<bool>>>) {
        let (done, is_done) = watch::channel(false);
        self.last.retain(|_, last| !*last.borrow() && last.has_changed().is_ok());
        self.last.insert(transaction.clone(), is_done);
        if let Some(decisions) = &self.decisions {
            let _ = decisions.send(Decision { transaction, verdict, before, done }).await;
        }
    }
}

/// A call of `stage`.
struct Stage<S> {
    kind: Arc<TwoPhase<S>>,
    answers: Answers,
    calls: Calls,
    id: u64,
    part: Part,
    before: Option<watch::Receiver<bool>>,
    queue: Arc<Queue>,
    dropped: watch::Receiver<bool>,
    over: watch::Sender<Option<bool>>,
}

impl<S: TwoPhaseSink> Stage<S> {
    async fn run(mut self) {
        if let Some(before) = &mut self.before {
            // If nobody carries the decision out, the session is over, and the part dropped.
            let _ = before.wait_for(|done| *done).await.is_ok();
        }
        if *self.dropped.borrow() {
            return self.queue.close();
        }
        let result = self.stage().await;
        self.queue.close();
        let staged = result.is_ok();
        if !staged {
            self.kind.drop_part(&self.part, &self.answers, &self.calls).await;
        }
        if !*self.dropped.borrow() {
            self.answers.part(self.id, &self.part, result).await;
        }
        self.over.send_replace(Some(staged));
    }

    async fn stage(&mut self) -> Result<Outcomes, BoxError> {
        let mut taken = Taken::default();
        let noted = self.calls.begin::<S>("stage", "");
        let rows = PartRows { queue: &self.queue, dropped: &mut self.dropped, taken: &mut taken, noted: &noted };
        let staged = noted.during(AssertUnwindSafe(self.kind.sink.stage(&self.part, rows)).catch_unwind()).await;
        let outcomes = staged.unwrap_or_else(|_| Err("stage() panicked".into()))?;
        if !taken.to_the_end {
            return Err(format!("stage() returned before the end of the part: it took {} of its messages", taken.rows).into());
        }
        Ok(outcomes.checked(0, taken.rows)?)
    }
}

/// Carries out decisions, one after the other.
async fn decide<S: TwoPhaseSink>(
    kind: Arc<TwoPhase<S>>,
    answers: Answers,
    calls: Calls,
    mut decisions: mpsc::Receiver<Decision>,
    closed: watch::Receiver<bool>,
) {
    while let Some(decision) = decisions.recv().await {
        let mut staged = false;
        for mut over in decision.before {
            // A part whose task ended without a result was dropped before it began.
            staged |= over.wait_for(Option::is_some).await.is_ok_and(|over| *over == Some(true));
        }
        if *closed.borrow() {
            return;
        }
        let transaction = decision.transaction;
        match decision.verdict {
            Verdict::Drop(part) => {
                if staged {
                    kind.drop_part(&part, &answers, &calls).await;
                }
            }
            Verdict::Prepare(parts) => {
                let call = kind.calls.lock().await;
                let result = calls.during::<S, _>("prepare", "", kind.sink.prepare(&transaction, &parts)).await;
                drop(call);
                answers.prepared(transaction, result).await;
            }
            Verdict::Commit => {
                let call = kind.calls.lock().await;
                let result = calls.during::<S, _>("commit", "", kind.sink.commit(&transaction)).await;
                drop(call);
                answers.committed(transaction, result).await;
            }
            Verdict::Abort => {
                let _call = kind.calls.lock().await;
                if let Err(error) = calls.during::<S, _>("abort", "", kind.sink.abort(&transaction)).await {
                    answers.failure(&transaction, "aborting", error);
                }
            }
        }
        decision.done.send_replace(true);
    }
}
