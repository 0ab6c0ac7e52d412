"""The calls with which Spark writes to sinks: deliveries, and votes."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.contract.counts import counted
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.bounds import (
    MAX_PARTS,
    check_count,
    check_length,
)
from headrace.gateway.core.base.errors import MalformedMessage, NotAtOnce, NotPermitted, OutOfTurn, ProtocolError
from headrace.gateway.core.batches import (
    begin_transaction,
    check_newer,
    instance_for,
    note_delivered,
    note_staged,
    vote,
    wait_until_current,
)
from headrace.gateway.core.sinks import (
    OpenPart,
    Part,
    PartLetters,
    Sink,
    SinkSession,
    Transaction,
    check_sink,
)
from headrace.gateway.core.state import Sending
from headrace.gateway.core.streams import check_frame
from headrace.gateway.identity import Identity
from headrace.gateway.services.received import Delivered
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2

log = logging.getLogger("headrace.gateway")


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
    sink, part = permitted_sink(gateway, identity, start.sink), Part.from_proto(start.part)
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
                    counts = f"received {counted(opened.messages, 'message')}, but DeliveryEnd states {request.end.messages}"
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
    sink, transaction = permitted_sink(gateway, identity, request.sink), Transaction.from_proto(request.transaction)
    parts = [Part.from_proto(part) for part in request.parts]
    if not parts or any(part.transaction != transaction for part in parts):
        raise MalformedMessage(f"sink {sink.name}, {transaction}: want the parts of this transaction, and at least one")
    gateway.owners.claim(transaction.pipeline, identity)
    if request.instances and len(request.instances) != len(parts):
        counts = f"{counted(len(parts), 'part')} and {counted(len(request.instances), 'instance')}"
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


def permitted_sink(gateway: Gateway, identity: Identity, name: str) -> Sink:
    """Returns the sink of a name, known or new.

    Raises:
        ProtocolError: the caller may not write to it, or there are too many.
    """
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
