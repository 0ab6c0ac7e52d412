"""Records the commit logs of pipelines, and sends sinks the decisions that follow from them."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.contract import clock
from headrace.gateway.core.base.bounds import MAX_PIPELINES, check_room
from headrace.gateway.core.batches.runs import merged, over
from headrace.gateway.core.batches.stages import note_committed
from headrace.gateway.core.sinks import CommitLog, Decision, Holdings, Sink, SinkSession, Transaction
from headrace.gateway.core.state import Gateway

log = logging.getLogger("headrace.gateway")


@dataclass(frozen=True, slots=True)
class Pending:
    """Transactions that are in a commit log and not yet visible."""

    transactions: int
    undecided: tuple[int, ...]
    """The batches among them for which no segment names the run that committed them."""


def record_commits(
    gateway: Gateway, reported: CommitLog, votes: Iterable[tuple[str, str, int]] = (), *, accept_older: bool = False
) -> Pending:
    """Applies a run's report of its commit log; returns the committed transactions that are not yet visible.

    Args:
        gateway: The gateway.
        reported: The commit log as the run reports it.
        votes: Votes for committed batches, possibly from before this gateway started: sink, instance, batch.
        accept_older: Whether a run with a lower number may replace the current one, because a checkpoint was restored.

    Raises:
        Superseded: the run is not the current one, and does not replace it.
        LimitExceeded: the pipeline or a vote is new, and the limit of commit logs or votes is reached.
    """
    known = gateway.commit_logs.get(reported.pipeline)
    if known is None:
        check_room("commit logs of pipelines", gateway.commit_logs, MAX_PIPELINES)
    commit_log = merged(known, reported, accept_older)
    gateway.votes.adopt(commit_log.pipeline, votes)
    gateway.commits_reported_at[commit_log.pipeline] = clock.monotonic()
    gateway.sinks_changed.notify()
    gateway.commit_logs[commit_log.pipeline] = commit_log
    note_committed(gateway, commit_log)
    if known is None or known.run_id != commit_log.run_id:
        log.info(
            "run reports commits",
            extra={
                "pipeline": commit_log.pipeline,
                "run": commit_log.run_id,
                "number": commit_log.run_number,
                "batch": commit_log.committed,
            },
        )
        gateway.commits_reported.notify()
    if known is None or (known.run_id, known.stopped) != (commit_log.run_id, commit_log.stopped):
        for sink in gateway.sinks.values():
            sink.news.notify()
            for session in sink.sessions.values():
                _refuse_over(session, commit_log)
    return send_decisions(gateway, commit_log)


def _refuse_over(session: SinkSession, commit_log: CommitLog) -> None:
    """Ends the deliveries and pending votes of runs that were replaced or stopped."""
    for opened in list(session.open.values()):
        error = over(commit_log, opened.part)
        if error is not None:
            session.refuse_part(opened, error)
    for transaction in list(session.votes):
        errors = [over(commit_log, part) for part in session.holdings.staged if part.transaction == transaction]
        if errors and errors[0] is not None:
            session.refuse_vote(transaction, errors[0])


def send_decisions(gateway: Gateway, commit_log: CommitLog) -> Pending:
    """Sends all sinks of a pipeline the decisions that its commit log permits; returns what is not yet visible."""
    pending, undecided = 0, set[int]()
    gateway.dead_letters.decide(commit_log)
    gateway.votes.note_committed(commit_log)
    for sink in map(gateway.sink, commit_log.sinks):
        for session in sink.sessions.values():
            decide(session, sink, commit_log)
        for holdings in sink.holders():
            decisions = _decisions(holdings, sink, commit_log)
            pending += sum(decision in (Decision.COMMIT, Decision.UNDECIDED) for _, decision in decisions)
            undecided |= {t.batch for t, decision in decisions if decision is Decision.UNDECIDED}
    for name in gateway.votes.check_attached(
        commit_log.pipeline, lambda sink, instance: gateway.sink(sink).sessions.get(instance)
    ):
        gateway.sink(name).losses += 1
    return Pending(pending, tuple(sorted(undecided)))


def decide(session: SinkSession, sink: Sink, commit_log: CommitLog) -> None:
    """Sends an instance the decisions about the transactions that it holds."""
    for transaction, decision in _decisions(session.holdings, sink, commit_log):
        if decision is Decision.ABORT:
            session.abort(transaction)
        elif decision is Decision.COMMIT:
            session.commit(transaction)


def _decisions(holdings: Holdings, sink: Sink, commit_log: CommitLog) -> list[tuple[Transaction, Decision]]:
    """Returns the decisions about a pipeline's transactions that an instance holds, by ascending batch."""
    decided = list[tuple[Transaction, Decision]]()
    for transaction in sorted(t for t in holdings.transactions() if t.pipeline == commit_log.pipeline):
        is_prepared = transaction in holdings.prepared
        decision = commit_log.decision(transaction, holdings.run_ids(transaction), prepared=is_prepared)
        if decision is Decision.COMMIT and transaction.run and not commit_log.owner(transaction.batch):
            # Another file manager has written the entry, which then names no run. Only one of the runs has.
            rivals = {run for each in sink.holders() for run in each.prepared_by(transaction)}
            decision = Decision.COMMIT if commit_log.latest(rivals) == transaction.run else Decision.ABORT
        decided.append((transaction, decision))
    return decided
