"""Delivers what pipelines write to sinks, asks for votes, and tells sinks what the commit logs decide."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from headrace.gateway.core._bounds import MAX_PIPELINES, check_room
from headrace.gateway.core._errors import OlderCheckpoint, OutOfTurn, SinkAbsent, SinkFailed, Superseded
from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._ledger import Ledger, Verdict, Voted
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._runs import check_open, check_present, replaced, succeed
from headrace.gateway.core._sink import Sink
from headrace.gateway.core._sink_session import Holdings, SinkSession
from headrace.gateway.core._transaction import Part, Transaction

log = structlog.get_logger("headrace.gateway")


@dataclass(frozen=True, slots=True)
class Pending:
    """What is in a commit log and not visible yet."""

    transactions: int
    undecided: tuple[int, ...]
    """The batches of those that no segment tells the run of."""


def attach_sink(gateway: Gateway, session: SinkSession) -> Sink:
    """Takes an instance of a sink in, and tells it what is decided of what it holds.

    Raises:
        OutOfTurn: the other instances of the sink promise something else.
    """
    sink = gateway.sink(session.hello.sink)
    others = [other for instance, other in sink.sessions.items() if instance != session.instance]
    if others and sink.mode != session.hello.mode:
        raise OutOfTurn(f"sink {sink.name}: its other instances have another mode; give this connector a sink name of its own")
    older = sink.sessions.get(session.instance)
    if older is not None:
        log.info("session taken over", sink=sink.name, instance=session.instance, older=older.id, newer=session.id)
        older.end(Superseded(f"a newer session of instance {session.instance!r}, from {session.peer}, has taken over"))
        older.close()
    sink.attach(session)
    for ledger in gateway.ledgers.values():
        if sink.name in ledger.sinks:
            _decide(session, ledger)
    sink.losses += gateway.votes.compare(session)
    gateway.sinks_changed.notify()
    return sink


async def instance_for(gateway: Gateway, sink: Sink, part: Part, number: int, wait_ms: int = 0) -> SinkSession:
    """The instance that takes a part; waits for one where there is none, for ever unless `wait_ms` is given.

    Raises:
        SinkAbsent: none has come in time.
        Superseded: the run that delivers it was replaced meanwhile.
    """
    try:
        async with asyncio.timeout(wait_ms / 1000 if wait_ms else None):
            while (session := sink.instance_for(part)) is None:
                await sink.news.wait()
                check_present(gateway, part.transaction.pipeline, part.run, number)
            return session
    except TimeoutError:
        raise SinkAbsent(f"no connector has served sink {sink.name} for {wait_ms / 1000:g} s") from None


def check_newer(sink: Sink, transaction: Transaction) -> None:
    """Checks that a transaction is not one that is visible already.

    Raises:
        OlderCheckpoint: it is.
    """
    if sink.is_visible(transaction):
        last = sink.committed[transaction.pipeline]
        raise OlderCheckpoint(
            f"sink {sink.name} has committed batch {last} of pipeline {transaction.pipeline}, and batch {transaction.batch} is "
            "run again: the checkpoint is older than the sink"
        )


def begin(gateway: Gateway, transaction: Transaction, run: str, number: int) -> None:
    """Notes that the present run executes a batch: what other runs left of it, and of later ones, is void.

    Raises:
        Superseded: the run is not the present one, or the batch is in the commit log already.
    """
    ledger = check_present(gateway, transaction.pipeline, run, number)
    check_open(ledger, transaction)
    if ledger.begun is None:
        ledger = gateway.ledgers[ledger.pipeline] = replace(ledger, begun=transaction.batch)
        _tell(gateway, ledger)


async def vote(gateway: Gateway, sink: Sink, transaction: Transaction, parts: Mapping[Part, str], number: int) -> None:
    """Asks every instance that has staged some of the parts for its vote; waits for instances that are away.

    `parts` has the name of the instance that has staged each part; empty where that is not known.

    Raises:
        SinkAway: an instance was lost before its vote; ask again.
        SinkFailed: one votes against it, or has lost a part.
        Superseded: the run that asks is not the present one, or is no more when all have voted.
    """
    run = next(iter(parts)).run
    begin(gateway, transaction, run, number)
    sink.voting[transaction] = ""
    try:
        shares = await _shares(gateway, sink, transaction, parts, number)
    finally:
        sink.voting.pop(transaction, None)
    for session in sink.sessions.values():
        if session not in shares and transaction in session.holdings.transactions():
            session.abort(transaction)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_outcome(session.vote(transaction, share))) for session, share in shares.items()]
    for task in tasks:
        if (error := task.result()) is not None:
            raise error
    check_present(gateway, transaction.pipeline, run, number)
    if sink.durable:
        _check_kept(sink, transaction, shares)
        _await_proof(gateway, transaction, run)
    else:
        sink.note_committed(transaction)
        for session in shares:
            session.holdings.drop(transaction)
            session.note_visible(transaction)
    if not sink.writes_at_once:
        gateway.votes.cast(transaction, run, sink.name, [session.instance for session in shares])


def _check_kept(sink: Sink, transaction: Transaction, shares: Mapping[SinkSession, list[Part]]) -> None:
    """Checks that nobody who has voted came back without it while others were asked.

    Raises:
        SinkFailed: somebody did.
    """
    for session, share in shares.items():
        present = sink.sessions.get(session.instance, session)
        if not present.has(transaction):
            raise _lost(sink, transaction, set(share), f"were lost by instance {session.instance} after its vote")


def _await_proof(gateway: Gateway, transaction: Transaction, run: str) -> None:
    """Notes which commits of the query's readers will show that the transaction is in the commit log."""
    ledger = gateway.ledgers.get(transaction.pipeline)
    if ledger is not None and ledger.run == run:
        readers = (gateway.pipelines.get(name) for name in ledger.readers)
        planned = {reader.name: dict(reader.planned) for reader in readers if reader is not None}
        gateway.voted[transaction.pipeline] = Voted(transaction.batch, run, planned)


async def _shares(
    gateway: Gateway, sink: Sink, transaction: Transaction, parts: Mapping[Part, str], number: int
) -> dict[SinkSession, list[Part]]:
    """The parts that each instance has staged; of what is written already, those that somebody is still known to have.

    Raises:
        SinkFailed: a part is lost for good, or an instance is against the transaction.
        Superseded: the run was replaced meanwhile.
    """
    while True:
        shares: dict[SinkSession, list[Part]] = {}
        missing = set(parts)
        for session in sink.sessions.values():
            share = sorted(missing & session.holdings.staged)
            if share:
                shares[session] = share
                missing -= set(share)
        if not missing or sink.writes_at_once:
            return shares
        if (reason := sink.voting.get(transaction)) is not None and reason:
            raise SinkFailed(f"sink {sink.name}, {transaction}: {reason}")
        if not sink.durable and sink.sessions:
            raise _lost(sink, transaction, missing, "were lost with a session")
        if lost := {part for part in missing if parts[part] in sink.sessions}:
            names = ", ".join(sorted({parts[part] for part in lost}))
            raise _lost(sink, transaction, lost, f"were staged by instance {names}, which has come back without them")
        await sink.news.wait()
        check_present(gateway, transaction.pipeline, next(iter(parts)).run, number)


def _lost(sink: Sink, transaction: Transaction, parts: set[Part], how: str) -> SinkFailed:
    partitions = ", ".join(str(part.partition) for part in sorted(parts))
    return SinkFailed(f"sink {sink.name}, {transaction}: partitions {partitions} {how}; run the batch again")


async def _outcome(voting: Coroutine[Any, Any, None]) -> Exception | None:
    """What a vote raised: one instance's failure must not keep the others from being heard."""
    try:
        await voting
    except Exception as error:
        return error
    return None


def settle(
    gateway: Gateway, ledger: Ledger, votes: Iterable[tuple[str, str, int]] = (), *, accept_older: bool = False
) -> Pending:
    """Takes over what a commit log says; returns which transactions in it are not visible yet.

    `votes` are those of batches in the log that this gateway need not have been there for: sink, instance, batch.

    Raises:
        Superseded: the run that tells of it is not the present one, and does not replace it.
    """
    known = gateway.ledgers.get(ledger.pipeline)
    if known is None:
        check_room("commit logs of pipelines", gateway.ledgers, MAX_PIPELINES)
    ledger = succeed(known, ledger, accept_older)
    gateway.votes.adopt(ledger.pipeline, votes)
    gateway.settled_at[ledger.pipeline] = time.monotonic()
    gateway.sinks_changed.notify()
    gateway.ledgers[ledger.pipeline] = ledger
    if known is None or known.run != ledger.run:
        log.info("run settles", pipeline=ledger.pipeline, run=ledger.run, number=ledger.number, batch=ledger.committed)
        for sink in gateway.sinks.values():
            sink.news.notify()
            for session in sink.sessions.values():
                _refuse_replaced(session, ledger)
        gateway.settled.notify()
    return _tell(gateway, ledger)


def _refuse_replaced(session: SinkSession, ledger: Ledger) -> None:
    """Ends what runs before the present one are delivering, and their wait for votes."""
    for opened in list(session.open.values()):
        error = replaced(ledger, opened.part)
        if error is not None:
            session.refuse_part(opened, error)
    for transaction in list(session.votes):
        errors = [replaced(ledger, part) for part in session.holdings.staged if part.transaction == transaction]
        if errors and errors[0] is not None:
            session.refuse_vote(transaction, errors[0])


def prove(gateway: Gateway, pipeline: Pipeline) -> None:
    """Settles what a query has voted for, where its reader shows that the batch is in the commit log."""
    for name, ledger in list(gateway.ledgers.items()):
        awaited = gateway.voted.get(name)
        if awaited is None or pipeline.name not in ledger.readers or awaited.run != ledger.run:
            continue
        planned = awaited.planned.get(pipeline.name)
        if planned and all(pipeline.position(stream) >= end for stream, end in planned.items()):
            del gateway.voted[name]
            if awaited.batch > ledger.committed:
                ledger = gateway.ledgers[name] = replace(ledger, committed=awaited.batch)
                _tell(gateway, ledger)


def _tell(gateway: Gateway, ledger: Ledger) -> Pending:
    pending, undecided = 0, set[int]()
    gateway.votes.follow(ledger.pipeline, ledger.run, ledger.first_batch, ledger.committed)
    for sink in map(gateway.sink, ledger.sinks):
        for session in sink.sessions.values():
            _decide(session, ledger)
        for holdings in sink.holders():
            verdicts = _verdicts(holdings, ledger)
            pending += sum(verdict in (Verdict.COMMIT, Verdict.UNDECIDED) for _, verdict in verdicts)
            undecided |= {t.batch for t, verdict in verdicts if verdict is Verdict.UNDECIDED}
    for name in gateway.votes.compare_all(ledger.pipeline, lambda sink, instance: gateway.sink(sink).sessions.get(instance)):
        gateway.sink(name).losses += 1
    return Pending(pending, tuple(sorted(undecided)))


def _decide(session: SinkSession, ledger: Ledger) -> None:
    """Tells an instance what is decided of what it holds."""
    for transaction, verdict in _verdicts(session.holdings, ledger):
        if verdict is Verdict.ABORT:
            session.abort(transaction)
        elif verdict is Verdict.COMMIT:
            session.commit(transaction)


def _verdicts(holdings: Holdings, ledger: Ledger) -> list[tuple[Transaction, Verdict]]:
    """What is decided of what an instance holds of a pipeline, by ascending batch."""
    return [
        (transaction, ledger.verdict(transaction, holdings.runs(transaction), prepared=transaction in holdings.prepared))
        for transaction in sorted(t for t in holdings.transactions() if t.pipeline == ledger.pipeline)
    ]
