"""Delivers rows from pipelines to sinks, and collects votes."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

from headrace.gateway.core.base.errors import ModeMismatch, OlderCheckpoint, SinkAbsent, SinkFailed, Superseded
from headrace.gateway.core.batches.decisions import decide, send_decisions
from headrace.gateway.core.batches.runs import check_current, check_open
from headrace.gateway.core.batches.stages import note_vote, note_vote_begun
from headrace.gateway.core.sinks import Part, Sink, SinkSession, Transaction
from headrace.gateway.core.state import Gateway
from headrace.protocol.v1 import sink_pb2

log = logging.getLogger("headrace.gateway")


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
        log.info(
            "session taken over", extra={"sink": sink.name, "instance": session.instance, "older": older.id, "newer": session.id}
        )
        text = f"a newer session of instance {session.instance!r}, from {session.peer}, has taken over"
        older.end(Superseded(text, instance=session.instance, session=session.id))
        older.close()
    sink.attach(session)
    for commit_log in gateway.commit_logs.values():
        if sink.name in commit_log.sinks:
            decide(session, sink, commit_log)
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
        send_decisions(gateway, commit_log)


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
