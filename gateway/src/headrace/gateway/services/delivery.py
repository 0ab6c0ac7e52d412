"""The calls with which Spark writes to sinks: deliveries, votes and reports of the commit log."""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.bounds import (
    MAX_PARTS,
    MAX_SEGMENTS,
    MAX_STAGES,
    MAX_STEPS,
    MAX_WRITTEN,
    check_count,
    check_length,
)
from headrace.gateway.core.base.errors import MalformedMessage, NotAtOnce, NotPermitted, OutOfTurn, ProtocolError, Superseded
from headrace.gateway.core.base.last_error import later
from headrace.gateway.core.batches import (
    begin_transaction,
    check_newer,
    instance_for,
    note_delivered,
    note_staged,
    record_commits,
    renew,
    vote,
    wait_until_current,
)
from headrace.gateway.core.pipelines import Driver, Fault, after_report
from headrace.gateway.core.sinks import (
    CommitLog,
    OpenPart,
    Part,
    PartLetters,
    Segment,
    Sink,
    SinkSession,
    Transaction,
    Voter,
    check_pipeline,
    check_sink,
)
from headrace.gateway.core.state import Sending
from headrace.gateway.core.streams import check_frame
from headrace.gateway.identity import Identity
from headrace.gateway.services.received import Delivered
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2, metrics_pb2

log = logging.getLogger("headrace.gateway")

MAX_VOTES = 1024
"""The maximum number of votes in a request."""
MAX_UNDECIDED = 100
"""The maximum number of undecided batches in a response."""


@dataclass(frozen=True)
class Begun:
    """A part whose delivery has begun."""

    sink: Sink
    part: Part
    session: SinkSession
    opened: OpenPart
    sending: Sending | None
    """Follows the part; None if there are no spans."""
    letters: PartLetters | None
    """Takes the dead letters; None if the part has none."""

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Ends the span of the part after the block."""
        if self.sending is None:
            yield
            return
        try:
            yield
        except BaseException as error:
            self.sending.end(type(error).__name__)
            raise
        self.sending.end(None)


async def deliver(gateway: Gateway, identity: Identity, requests: AsyncIterator[Delivered]) -> pb.DeliverResponse:
    """Delivers one part.

    Raises:
        ProtocolError: the part cannot be delivered; the subclass gives the reason.
    """
    received = await anext(requests, None)
    begun = await begin_part(gateway, identity, received and received.request)
    try:
        with failure_logged("a delivery failed", begun.sink, begun.opened, begun.session), begun.traced():
            await fill_part(gateway, begun, requests)
            note_delivered(gateway, begun.part.transaction, begun.sink)
            refused = await begun.session.finish_part(begun.opened)
            note_staged(gateway, begun.part.transaction)
            if begun.letters is not None:
                gateway.dead_letters.add(begun.sink.name, begun.part, begun.letters)
            return pb.DeliverResponse(refused=refused, instance=begun.session.instance)
    finally:
        begun.session.drop_part(begun.opened)


async def begin_part(gateway: Gateway, identity: Identity, request: pb.DeliverRequest | None, *, at_once: bool = False) -> Begun:
    """Begins a part at an instance of its sink. The caller drops it in the end, which has no effect once it is answered.

    Args:
        gateway: The gateway.
        identity: Who delivers.
        request: The first message of the part; None if the call has ended.
        at_once: Whether the sink must write the part before a vote.

    Raises:
        ProtocolError: the part cannot be delivered; the subclass gives the reason.
    """
    if request is None or request.WhichOneof("message") != "start":
        raise OutOfTurn("the first message of a delivery must be DeliveryStart")
    start = request.start
    sink, part = _sink(gateway, identity, start.sink), Part.from_proto(start.part)
    transaction, number = part.transaction, start.run_number
    with failure_logged("a delivery failed", sink, part):
        gateway.owners.claim(transaction.pipeline, identity)
        await wait_until_current(gateway, transaction.pipeline, part.run_id, number)
        session = await instance_for(gateway, sink, part, number, start.wait_ms)
        if at_once and not sink.writes_at_once:
            raise NotAtOnce(f"sink {sink.name} writes nothing before its vote: it is not at-least-once; deliver with the batch")
        await session.room()
        begin_transaction(gateway, transaction, part.run_id, number)
        if start.accept_lost:
            gateway.votes.accept(transaction.pipeline)
        gateway.votes.check_kept(transaction.pipeline)
        if not start.accept_older:
            check_newer(sink, transaction)
        sending = None if gateway.tracing is None else gateway.tracing.sending(sink.name, session.instance, part)
        letters = PartLetters() if start.dead_letters else None
        return Begun(sink, part, session, session.start_part(part, at_once=at_once), sending, letters)


async def fill_part(gateway: Gateway, part: Begun, requests: AsyncIterator[Delivered]) -> None:
    """Passes the rows of a part on to the sink, until all are there.

    Raises:
        ProtocolError: the rows are invalid or out of turn, or the sink has failed.
    """
    where, opened = f"sink {part.sink.name}, {part.part}", part.opened
    async for request, frame in requests:
        match request.WhichOneof("message"):
            case "frame":
                _check(gateway, request.frame, len(frame), opened.messages, where)
                if part.sending is not None:
                    part.sending.take(request.frame)
                    opened.trace_id = part.sending.trace_id
                if part.letters is not None:
                    part.letters.take(part.part, request.frame, gateway.peek)
                await part.session.deliver(opened, request.frame.count, frame)
            case "end":
                if request.end.messages != opened.messages:
                    counts = f"received {opened.messages} messages, but DeliveryEnd states {request.end.messages}"
                    raise MalformedMessage(f"{where}: {counts}")
                return
            case _:
                raise OutOfTurn(f"{where}: want frames, then DeliveryEnd")
    raise OutOfTurn(f"{where}: the delivery ended without DeliveryEnd")


async def ask_for_vote(gateway: Gateway, identity: Identity, request: pb.VoteRequest) -> pb.VoteResponse:
    """Asks a sink for its vote on a transaction.

    Raises:
        ProtocolError: the sink votes against the transaction, or cannot vote.
    """
    check_count("parts", request.parts, MAX_PARTS)
    sink, transaction = _sink(gateway, identity, request.sink), Transaction.from_proto(request.transaction)
    parts = [Part.from_proto(part) for part in request.parts]
    if not parts or any(part.transaction != transaction for part in parts):
        raise MalformedMessage(f"sink {sink.name}, {transaction}: want the parts of this transaction, and at least one")
    gateway.owners.claim(transaction.pipeline, identity)
    if request.instances and len(request.instances) != len(parts):
        counts = f"{len(parts)} parts and {len(request.instances)} instances"
        raise MalformedMessage(f"sink {sink.name}, {transaction}: {counts}; name one for each part, or none at all")
    for instance in set(request.instances):
        check_length("instance", instance)
    if any(part.run_id != parts[0].run_id for part in parts):
        raise MalformedMessage(f"sink {sink.name}, {transaction}: want the parts of one run")
    by_part = dict(zip(parts, request.instances or [""] * len(parts), strict=True))
    with failure_logged("a vote failed", sink, transaction):
        await wait_until_current(gateway, transaction.pipeline, parts[0].run_id, request.run_number)
        await vote(gateway, sink, transaction, by_part, request.run_number)
    return pb.VoteResponse()


def report_commits(gateway: Gateway, identity: Identity, request: pb.ReportCommitsRequest, peer: str) -> pb.ReportCommitsResponse:
    """Applies a run's report of its query's commit log.

    Raises:
        ProtocolError: a name or a segment is invalid, the caller is not permitted to use it, the query belongs to another
            token, or the run is not the current one.
    """
    check_count("sinks", request.sinks, MAX_WRITTEN)
    check_count("readers", request.readers, MAX_WRITTEN)
    _check_metrics(request.metrics)
    fault = Fault.of(request.fault, request.run) if request.HasField("fault") else None
    check_length("run", request.run)
    if not request.run or "/" in request.run or not request.run_number:
        raise MalformedMessage(
            f"pipeline {request.pipeline[:80]}: want the run that reports the commit log, as a number from 1 and an id "
            "without a slash"
        )
    if not request.sinks:
        raise MalformedMessage(
            f"pipeline {request.pipeline[:80]}: a commit log that names no sink decides nothing; name its sinks"
        )
    check_count("former sinks", request.former_sinks, MAX_WRITTEN)
    sinks = tuple(_sink(gateway, identity, name).name for name in request.sinks)
    former = tuple(name for name in map(check_sink, request.former_sinks) if identity.may_deliver(name))
    for reader in map(check_pipeline, request.readers):
        if not identity.may_run(reader):
            text = f"the token of {identity.name!r} does not allow pipeline {reader[:80]!r}; add it to the token's pipelines"
            raise NotPermitted(text)
    gateway.owners.claim(check_pipeline(request.pipeline), identity)
    commit_log = CommitLog(
        check_pipeline(request.pipeline),
        request.run,
        request.run_number,
        request.first_batch,
        request.committed if request.HasField("committed") else -1,
        tuple(request.readers),
        (*sinks, *former),
        _segments(request),
        request.closed,
        awaited=_awaited(request, sinks),
        former=former,
        stopped=request.stopped,
    )
    votes = _votes(request, commit_log, sinks)
    if request.replaced:
        _note_rival(gateway, request, peer)
        return pb.ReportCommitsResponse()
    was_replaced = fault is not None and fault.told.origin == metrics_pb2.RUN_FAULT_ORIGIN_OTHER_RUN
    if was_replaced:
        # Its query has ended because of the other one, which is no fault of the batch.
        _note_rival(gateway, request, peer)
        fault = None
    try:
        pending = record_commits(gateway, commit_log, votes, accept_older=request.accept_older)
    except Superseded:
        if not (request.stopped or request.closed):
            _note_rival(gateway, request, peer)
        elif not was_replaced:
            # It may have reported once more before somebody stopped it.
            gateway.drivers.end_rival(_read_by(request), _run_of(request))
        raise
    gateway.drivers.by_query.setdefault(commit_log.pipeline, Driver()).heard(peer)
    renew(gateway, request.readers)
    for reader in request.readers:
        if (read := gateway.pipelines.get(reader)) is not None:
            read.fault = after_report(read.fault, fault, commit_log.committed)
            if fault is not None:
                read.error = later(read.error, fault.told.message, fault.told.age_ms)
    if request.HasField("metrics"):
        for reader in request.readers:
            if (pipeline := gateway.pipelines.get(reader)) is not None:
                pipeline.metrics = metrics_pb2.RunMetrics()
                pipeline.metrics.CopyFrom(request.metrics)
    if request.accept_lost:
        gateway.votes.accept(commit_log.pipeline)
    return pb.ReportCommitsResponse(
        pending=pending.transactions,
        undecided=pending.undecided[:MAX_UNDECIDED],
        votes=[_vote(voter, batch) for voter, batch in gateway.votes.logged(commit_log.pipeline)],
        lost=[_vote(voter, batch) for voter, batch in gateway.votes.lost() if voter.pipeline == commit_log.pipeline],
    )


def _note_rival(gateway: Gateway, request: pb.ReportCommitsRequest, peer: str) -> None:
    """Notes that the driver of a run reports although another run has replaced it."""
    current = gateway.drivers.by_query.get(request.pipeline)
    # The current run may not have reported yet.
    taken_over = current.peer if current is not None and current.peer != peer else ""
    gateway.drivers.note_rival(_read_by(request), _run_of(request), peer, taken_over)


def _read_by(request: pb.ReportCommitsRequest) -> Sequence[str]:
    """Returns the pipelines that a query reads as; its own name if it reads as none."""
    return request.readers or [request.pipeline]


def _run_of(request: pb.ReportCommitsRequest) -> str:
    return f"run {request.run_number} ({request.run})"


@contextmanager
def failure_logged(
    what: str, sink: Sink, subject: OpenPart | Part | Transaction, session: SinkSession | None = None
) -> Iterator[None]:
    """Logs an error with the micro-batch whose attempt it ends, and with the session if one was chosen; re-raises the error."""
    try:
        yield
    except ProtocolError as error:
        chosen = session.for_logs if session is not None else {"sink": sink.name}
        log.warning(what, extra={**chosen, **subject.for_logs, "status": error.status.name, "error": str(error)})
        raise


def _check_metrics(metrics: metrics_pb2.RunMetrics) -> None:
    """Checks the size of what a run says that it has done.

    Raises:
        ListTooLong: there are too many steps or stages.
        MalformedMessage: a name is too long.
    """
    check_count("steps", metrics.steps, MAX_STEPS)
    check_count("stages", metrics.stages, MAX_STAGES)
    for name in (*(told.step for told in metrics.steps), *(told.stage for told in metrics.stages)):
        check_length("step or stage", name)


def _awaited(request: pb.ReportCommitsRequest, sinks: Sequence[str]) -> tuple[str, ...]:
    """Returns the sinks that must be attached before a batch is planned.

    Raises:
        LimitExceeded: there are too many.
        MalformedMessage: one is not among the sinks of the request.
    """
    check_count("awaited sinks", request.awaited, MAX_WRITTEN)
    strange = [name for name in request.awaited if name not in sinks]
    if strange:
        raise MalformedMessage(f"pipeline {request.pipeline[:80]}: sink {strange[0][:80]!r} is awaited, but not one of its sinks")
    return tuple(dict.fromkeys(request.awaited))


def _votes(request: pb.ReportCommitsRequest, commit_log: CommitLog, sinks: Sequence[str]) -> list[tuple[str, str, int]]:
    """Returns a request's votes.

    Raises:
        MalformedMessage: there are too many, or one is for a sink that the request does not name, for an invalid instance, or
            for a batch that is not in the log.
    """
    where = f"pipeline {commit_log.pipeline}"
    if len(request.votes) > MAX_VOTES:
        raise MalformedMessage(f"{where}: {len(request.votes)} votes of sinks; name at most {MAX_VOTES}")
    for told in request.votes:
        if told.sink not in sinks or not 0 < len(told.instance) <= MAX_NAME_BYTES or told.batch > commit_log.committed:
            what = f"batch {told.batch} of sink {told.sink[:80]!r}, instance {told.instance[:80]!r}"
            raise MalformedMessage(f"{where}: a vote for {what}: want a sink of the request, an instance, and a batch in its log")
    return [(told.sink, told.instance, told.batch) for told in request.votes]


def _vote(voter: Voter, batch: int) -> pb.SinkVote:
    return pb.SinkVote(sink=voter.sink, instance=voter.instance, batch=batch)


def _segments(request: pb.ReportCommitsRequest) -> tuple[Segment, ...]:
    """Returns a request's run segments.

    Raises:
        LimitExceeded: there are too many.
        MalformedMessage: the name of a run is too long, or a segment ends before it begins.
    """
    where = f"pipeline {request.pipeline[:80]}"
    check_count("segments", request.segments, MAX_SEGMENTS)
    for told in request.segments:
        check_length("run", told.run)
        if told.first_batch > told.last_batch:
            raise MalformedMessage(
                f"{where}: a run segment from batch {told.first_batch} to {told.last_batch}: want them in order"
            )
    return tuple(Segment(told.run, told.first_batch, told.last_batch) for told in request.segments)


def _sink(gateway: Gateway, identity: Identity, name: str) -> Sink:
    if not identity.may_deliver(check_sink(name)):
        raise NotPermitted(
            f"the token of {identity.name!r} does not allow writing to sink {name!r}; add it to the token's writes"
        )
    return gateway.sink(name)


def _check(gateway: Gateway, frame: frame_pb2.Frame, size: int, before: int, where: str) -> None:
    """Checks a frame of `size` bytes, to be appended to a part that has `before` messages.

    Raises:
        ProtocolError: the frame is invalid, or does not begin at row `before`.
    """
    check_frame(frame, size, gateway.limits, where)
    if frame.first_sequence != before or frame.sequence_deltas:
        raise MalformedMessage(f"{where}: a frame begins with row {frame.first_sequence}, but the next row is {before}")
