"""Delivers rows from pipelines to sinks, collects votes, and sends sinks the decisions of the commit logs."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from headrace.contract import clock
from headrace.gateway.core.base.bounds import MAX_PIPELINES, check_room
from headrace.gateway.core.base.errors import ModeMismatch, OlderCheckpoint, SinkAbsent, SinkFailed, Superseded
from headrace.gateway.core.batches.runs import check_current, check_open, merged, over
from headrace.gateway.core.batches.stages import note_committed, note_vote, note_vote_begun
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.sinks import CommitLog, Decision, Holdings, Part, Segment, Sink, SinkSession, Transaction, VotedBatch
from headrace.gateway.core.state import Gateway
from headrace.protocol.v1 import sink_pb2

log = structlog.get_logger("headrace.gateway")


@dataclass(frozen=True, slots=True)
class Pending:
    """Transactions that are in a commit log and not yet visible."""

    transactions: int
    undecided: tuple[int, ...]
    """The batches among them for which no segment names the run that committed them."""


def attach_sink(gateway: Gateway, session: SinkSession) -> Sink:
    """Attaches an instance of a sink, and sends it the decisions about the transactions that it holds.

    Raises:
        ModeMismatch: the other instances of the sink have another mode.
        MalformedMessage: a transaction or part in its Hello is invalid.
        LimitExceeded: the sink is new, and the limit of sinks is reached.
    """
    sink = gateway.sink(session.hello.sink)
    others = [other for instance, other in sink.sessions.items() if instance != session.instance]
    if others and sink.mode != session.hello.mode:
        text = f"sink {sink.name}: its other instances have another mode; give this connector a different sink name"
        modes = (sink_pb2.SinkMode.Name(mode).removeprefix("SINK_MODE_") for mode in (sink.mode, session.hello.mode))
        raise ModeMismatch(text, sink=sink.name, mode=next(modes), actual=next(modes))
    older = sink.sessions.get(session.instance)
    if older is not None:
        log.info("session taken over", sink=sink.name, instance=session.instance, older=older.id, newer=session.id)
        text = f"a newer session of instance {session.instance!r}, from {session.peer}, has taken over"
        older.end(Superseded(text, instance=session.instance, session=session.id))
        older.close()
    sink.attach(session)
    for commit_log in gateway.commit_logs.values():
        if sink.name in commit_log.sinks:
            _decide(session, sink, commit_log)
    sink.losses += gateway.votes.check_instance(session)
    gateway.sinks_changed.notify()
    return sink


async def instance_for(gateway: Gateway, sink: Sink, part: Part, run_number: int, wait_ms: int = 0) -> SinkSession:
    """Returns the instance for a part. Waits until one is attached, for at most `wait_ms` milliseconds, or without limit if 0.

    Raises:
        SinkAbsent: no instance attached in time.
        Superseded: the run that delivers the part was replaced in the meantime.
    """
    try:
        async with asyncio.timeout(wait_ms / 1000 if wait_ms else None):
            while (session := sink.instance_for(part)) is None:
                await sink.news.wait()
                check_current(gateway, part.transaction.pipeline, part.run_id, run_number)
            return session
    except TimeoutError:
        raise SinkAbsent(f"no connector has served sink {sink.name} for {wait_ms / 1000:g} s") from None


def check_newer(sink: Sink, transaction: Transaction) -> None:
    """Checks that a transaction is not visible yet.

    Raises:
        OlderCheckpoint: the transaction is visible, so the pipeline's checkpoint is older than the sink's data.
    """
    if sink.is_visible(transaction):
        last = sink.committed[transaction.pipeline]
        raise OlderCheckpoint(
            f"sink {sink.name} has committed batch {last} of pipeline {transaction.pipeline}, and batch {transaction.batch} is "
            "run again: the checkpoint is older than the sink"
        )


def begin_transaction(gateway: Gateway, transaction: Transaction, run_id: str, run_number: int) -> None:
    """Notes that the current run executes a batch: what other runs staged for this and later batches can only count if prepared.

    Raises:
        Superseded: the run is not the current one, or the batch is already in the commit log.
    """
    commit_log = check_current(gateway, transaction.pipeline, run_id, run_number)
    check_open(commit_log, transaction)
    if commit_log.begun is None:
        commit_log = gateway.commit_logs[commit_log.pipeline] = replace(commit_log, begun=transaction.batch)
        _send_decisions(gateway, commit_log)


async def vote(gateway: Gateway, sink: Sink, transaction: Transaction, parts: Mapping[Part, str], run_number: int) -> None:
    """Asks every instance that has staged some of the parts for its vote; waits for instances that are away.

    `parts` maps each part to the name of the instance that has staged it, or to an empty text if unknown.

    Raises:
        SinkAway: an instance was lost before its vote; the caller may retry.
        SinkFailed: an instance votes against it, or has lost a part.
        Superseded: the run that asks is not the current one, or was replaced before all had voted.
    """
    run_id = next(iter(parts)).run_id
    transaction = transaction.of_run("")
    begin_transaction(gateway, transaction, run_id, run_number)
    sink.voting[transaction] = ""
    note_vote_begun(gateway, transaction)
    try:
        shares = await _shares(gateway, sink, transaction, parts, run_number)
    finally:
        sink.voting.pop(transaction, None)
    any_part = next(iter(parts))
    for session in sink.sessions.values():
        if session not in shares and (held := session.transaction_of(any_part)) in session.holdings.transactions():
            session.abort(held)
    async with asyncio.TaskGroup() as group:
        votes = [session.vote(session.transaction_of(any_part), share) for session, share in shares.items()]
        tasks = [group.create_task(_outcome(voting)) for voting in votes]
    for task in tasks:
        if (error := task.result()) is not None:
            raise error
    check_current(gateway, transaction.pipeline, run_id, run_number)
    if sink.durable:
        _check_kept(sink, transaction, shares)
        _await_proof(gateway, transaction, run_id)
    else:
        sink.note_committed(transaction)
        # An instance that has written its parts and was lost before its vote has committed, too.
        sink.outcomes["committed"] += max(len(shares), len(set(parts.values())))
        for session in shares:
            session.holdings.drop(session.transaction_of(any_part))
            session.note_visible(transaction)
    note_vote(gateway, transaction, sink)
    gateway.dead_letters.vote(sink.name, parts)
    if not sink.writes_at_once:
        gateway.votes.record(transaction, run_id, sink.name, [session.instance for session in shares])


def _check_kept(sink: Sink, transaction: Transaction, shares: Mapping[SinkSession, list[Part]]) -> None:
    """Checks that no instance has lost the transaction and reconnected after its vote, while others were asked.

    Raises:
        SinkFailed: an instance has reconnected without the transaction.
    """
    for session, share in shares.items():
        present = sink.sessions.get(session.instance, session)
        if not present.has(transaction.of_run(share[0].run_id)):
            raise _loss(sink, transaction, set(share), f"were lost by instance {session.instance} after its vote")


def _await_proof(gateway: Gateway, transaction: Transaction, run_id: str) -> None:
    """Records the positions of the query's readers whose commit will prove that the transaction is in the commit log.

    What a reader has planned here may be an earlier batch, if another gateway has answered its calls since: it proves nothing.
    """
    name, batch = transaction.pipeline, transaction.batch
    commit_log = gateway.commit_logs.get(name)
    if commit_log is not None and commit_log.run_id == run_id:
        readers = [gateway.pipelines[reader] for reader in commit_log.readers if reader in gateway.pipelines]
        present = [reader for reader in readers if reader.planned_after.get(name) == batch - 1]
        planned = {reader.name: (reader.run, dict(reader.planned)) for reader in present}
        gateway.voted_batches[name] = VotedBatch(batch, run_id, planned)


def batches_over(gateway: Gateway, pipeline: Pipeline) -> dict[str, int]:
    """Returns the last batch that a pipeline no longer plans, of each query that reads by it: voted for, or committed."""
    over_by = dict[str, int]()
    for name, commit_log in gateway.commit_logs.items():
        if pipeline.name in commit_log.readers:
            voted = gateway.voted_batches.get(name)
            is_voted = voted is not None and voted.run_id == commit_log.run_id
            over_by[name] = max(commit_log.committed, voted.batch if voted and is_voted else -1)
    return over_by


async def _shares(
    gateway: Gateway, sink: Sink, transaction: Transaction, parts: Mapping[Part, str], run_number: int
) -> dict[SinkSession, list[Part]]:
    """Returns the parts that each instance has staged. Sinks that write immediately need no longer hold them.

    Raises:
        SinkFailed: a part is permanently lost, or an instance has failed the transaction.
        Superseded: the run was replaced in the meantime.
    """
    while True:
        shares: dict[SinkSession, list[Part]] = {}
        missing = set(parts)
        for session in sink.sessions.values():
            share = {part for part in missing if session.own(part) in session.holdings.staged}
            if share:
                shares[session] = sorted(map(session.own, share))
                missing -= share
        if not missing or sink.writes_at_once:
            return shares
        if (reason := sink.voting.get(transaction)) is not None and reason:
            raise SinkFailed(f"sink {sink.name}, {transaction}: {reason}")
        if not sink.durable and sink.sessions:
            raise _loss(sink, transaction, missing, "were lost with a session")
        if lost := {part for part in missing if parts[part] in sink.sessions}:
            names = ", ".join(sorted({parts[part] for part in lost}))
            raise _loss(sink, transaction, lost, f"were staged by instance {names}, which has reconnected without them")
        await sink.news.wait()
        check_current(gateway, transaction.pipeline, next(iter(parts)).run_id, run_number)


def _loss(sink: Sink, transaction: Transaction, parts: set[Part], how: str) -> SinkFailed:
    partitions = ", ".join(str(part.partition) for part in sorted(parts))
    return SinkFailed(f"sink {sink.name}, {transaction}: partitions {partitions} {how}; run the batch again")


async def _outcome(voting: Coroutine[Any, Any, None]) -> Exception | None:
    """Returns the error of a vote, if any: the failure of one instance must not cancel the votes of the others."""
    try:
        await voting
    except Exception as error:
        return error
    return None


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
            pipeline=commit_log.pipeline,
            run=commit_log.run_id,
            number=commit_log.run_number,
            batch=commit_log.committed,
        )
        gateway.commits_reported.notify()
    if known is None or (known.run_id, known.stopped) != (commit_log.run_id, commit_log.stopped):
        for sink in gateway.sinks.values():
            sink.news.notify()
            for session in sink.sessions.values():
                _refuse_over(session, commit_log)
    return _send_decisions(gateway, commit_log)


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


def commit_proven(gateway: Gateway, pipeline: Pipeline) -> None:
    """Commits the batch that a query's sinks have voted for, once positions of its reader prove that it is in the commit log."""
    for name, commit_log in list(gateway.commit_logs.items()):
        awaited = gateway.voted_batches.get(name)
        if awaited is None or pipeline.name not in commit_log.readers or awaited.run_id != commit_log.run_id:
            continue
        run, planned = awaited.planned.get(pipeline.name, (None, {}))
        if planned and run == pipeline.run and all(pipeline.position(stream) >= end for stream, end in planned.items()):
            if awaited.batch > commit_log.committed + 1:
                # Another run may have committed the batches between since the report: the next one says who has.
                continue
            if awaited.batch > commit_log.committed:
                proven = (*commit_log.segments, Segment(awaited.run_id, awaited.batch, awaited.batch))
                commit_log = gateway.commit_logs[name] = replace(commit_log, committed=awaited.batch, segments=proven)
                _send_decisions(gateway, commit_log)


def _send_decisions(gateway: Gateway, commit_log: CommitLog) -> Pending:
    pending, undecided = 0, set[int]()
    gateway.dead_letters.decide(commit_log)
    gateway.votes.note_committed(commit_log)
    for sink in map(gateway.sink, commit_log.sinks):
        for session in sink.sessions.values():
            _decide(session, sink, commit_log)
        for holdings in sink.holders():
            decisions = _decisions(holdings, sink, commit_log)
            pending += sum(decision in (Decision.COMMIT, Decision.UNDECIDED) for _, decision in decisions)
            undecided |= {t.batch for t, decision in decisions if decision is Decision.UNDECIDED}
    for name in gateway.votes.check_attached(
        commit_log.pipeline, lambda sink, instance: gateway.sink(sink).sessions.get(instance)
    ):
        gateway.sink(name).losses += 1
    return Pending(pending, tuple(sorted(undecided)))


def _decide(session: SinkSession, sink: Sink, commit_log: CommitLog) -> None:
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
