"""A source connector's session: its streams, its credit, the messages queued for it, and which of its streams have stalled."""

from collections.abc import Iterator, Mapping

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.core.base.errors import ProtocolError, ReadTimeout
from headrace.gateway.core.base.last_error import by_stream, later
from headrace.gateway.core.base.position import to_proto
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.connections import ConnectorCounts, Heartbeat, IdRanges, Reported
from headrace.gateway.core.streams.credit import CreditAccount, CreditPool
from headrace.gateway.core.streams.stall import Outlook, Stall
from headrace.gateway.core.streams.stream import Attachment, RequestedCredit
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1 import source_pb2 as pb

MAX_WAITING = 10_000
"""The maximum number of messages queued for a connector, plus a few for each of its streams; acks and credit are merged."""
ACK_CURSOR_BYTES = 2**20
"""The size of the cursors in one Ack, about: many libraries read no message above 4 MiB."""


class Session:
    """The state of one live session.

    The queue of outgoing messages is bounded: acks and credit are merged, and the rest is one or two messages for each stream.
    """

    def __init__(
        self, session_id: str, hello: pb.Hello, peer: str, identity: Identity, pool: CreditPool, counts: ConnectorCounts
    ) -> None:
        self.id = session_id
        self.hello = hello
        self.peer = peer
        self.identity = identity
        self.opened_at = clock.monotonic()
        self.linger_ms = 0
        self.counts = counts
        self.heartbeat = Heartbeat(hello.capabilities)
        self.reported = Reported(hello.sdk if hello.HasField("sdk") else None)
        self.account: CreditAccount = pool.open(self._grant)
        self.attachments: dict[int, Attachment] = {}
        self.not_closed: set[int] = set()
        """Ids of streams that the connector has not closed."""
        self.retired = IdRanges()
        """Ids of closed and rejected streams, whose frames may still be in transit."""
        self.draining = False
        self.failure: ProtocolError | None = None
        self.outgoing = Signal()
        self._control: list[pb.IngestResponse] = []
        self._acks: dict[int, Position] = {}
        self._acks_since = 0.0
        """When the first of them was queued, on the monotonic clock."""
        self.acknowledging_since: float | None = None
        """When the first of the acknowledgements was queued that were taken last; None once their write is observed."""
        self._credit_bytes = 0
        self._credit_messages = 0

    @property
    def instance(self) -> str:
        """The name that identifies this deployment of the connector across its restarts."""
        return self.hello.instance

    @property
    def part(self) -> str:
        """The connector, as health names it."""
        return f"connector {self.instance}"

    @property
    def for_logs(self) -> dict[str, str]:
        """The keys and values that every log line about this session contains."""
        return {"session": self.id, "instance": self.instance}

    def open_attachments(self) -> Iterator[Attachment]:
        """Returns the streams that are open for frames."""
        return (a for a in self.attachments.values() if a.opened and not a.closed)

    def note_errors(self, report: connector_pb2.Report) -> None:
        """Notes errors that the connector has reported of streams that it sends; it may not blame others' streams."""
        errors = by_stream(report.errors)
        if not errors:
            return
        for attachment in self.attachments.values():
            stream = attachment.stream
            if stream.attachment is attachment and (error := errors.get(stream.name)) is not None:
                stream.error = later(stream.error, error.message, error.age_ms)

    def end(self, failure: ProtocolError) -> None:
        """Ends the session with an error, after the queued messages have been written."""
        self.failure = self.failure or failure
        self.outgoing.notify()

    def send(self, response: pb.IngestResponse) -> None:
        """Queues a message. Ends the session if too many are queued because the connector does not read."""
        self._control.append(response)
        if len(self._control) > MAX_WAITING + 4 * len(self.attachments):
            self.end(ReadTimeout(f"{len(self._control)} answers wait for the connector; read them while you send"))
        self.outgoing.notify()

    def acknowledge(self, attachment: Attachment, position: Position) -> None:
        """Queues an acknowledgement, which replaces a queued one of the same stream."""
        attachment.told = position
        if not self._acks:
            self._acks_since = clock.monotonic()
        self._acks[attachment.stream_id] = position
        self.outgoing.notify()

    def grant_to_stream(self, attachment: Attachment, request: RequestedCredit) -> None:
        """Grants credit for the next frame of a stream, unless it already has the requested credit."""
        usual_bytes, usual_messages = self.account.default_stream_grant()
        size = max(request.bytes, usual_bytes if request.ready_bytes is None else request.ready_bytes) - attachment.granted_bytes
        count = max(request.messages, usual_messages if request.ready_messages is None else request.ready_messages)
        count -= attachment.granted_messages
        if attachment.granted_bytes >= request.bytes and attachment.granted_messages >= request.messages:
            return
        size, count = max(0, size), max(0, count)
        attachment.granted_bytes += size
        attachment.granted_messages += count
        self.account.grant_at_once(size, count)
        self.send(pb.IngestResponse(credit=pb.Credit(bytes=size, messages=count, stream_id=attachment.stream_id)))

    def acknowledges(self, stream_id: int) -> bool:
        """Returns whether an acknowledgement of a stream is queued."""
        return stream_id in self._acks

    def pace(self, linger_ms: int) -> None:
        """Tells the connector how long to collect messages for a frame."""
        self.linger_ms = linger_ms
        self.send(pb.IngestResponse(pace=pb.Pace(linger_ms=linger_ms)))

    def retire(self, stream_id: int) -> None:
        """Forgets a closed stream; its id must not be used again."""
        self.attachments.pop(stream_id, None)
        self.account.clear_request(stream_id)
        self.retired.add(stream_id)

    def reject(self, stream_id: int, reason: pb.RejectReason.ValueType, message: str, retry_after_ms: int = 0) -> None:
        """Rejects a stream: closes it, or refuses to open it."""
        self.attachments.pop(stream_id, None)
        self.not_closed.discard(stream_id)
        self.account.clear_request(stream_id)
        self._acks.pop(stream_id, None)
        self.retired.add(stream_id)
        reject = pb.Reject(stream_id=stream_id, reason=reason, message=message, retry_after_ms=retry_after_ms)
        self.send(pb.IngestResponse(reject=reject))

    def has_waiting(self) -> bool:
        """Returns whether messages are queued."""
        return bool(self._control or self._acks or self._credit_bytes or self._credit_messages)

    def waiting(self) -> Iterator[pb.IngestResponse]:
        """Takes all queued messages."""
        control, self._control = self._control, []
        acks, self._acks = self._acks, {}
        credit = pb.Credit(bytes=self._credit_bytes, messages=self._credit_messages)
        self._credit_bytes = self._credit_messages = 0
        yield from control
        granted = bool(credit.bytes or credit.messages)
        if acks:
            self.acknowledging_since = self._acks_since
            # One message instead of two: with many idle sessions, the cost lies in the number of messages.
            *parts, last = _in_parts(acks)
            yield from (pb.IngestResponse(ack=pb.Ack(streams=part)) for part in parts)
            yield pb.IngestResponse(ack=pb.Ack(streams=last, credit=credit if granted else None))
        elif granted:
            yield pb.IngestResponse(credit=credit)

    def _grant(self, size: int, count: int) -> None:
        self._credit_bytes += size
        self._credit_messages += count
        self.outgoing.notify()


def _in_parts(acks: Mapping[int, Position]) -> Iterator[list[pb.Ack.Stream]]:
    """Yields acknowledgements in lists whose cursors fit into a message that any client reads."""
    part: list[pb.Ack.Stream] = []
    size = 0
    for stream_id, position in acks.items():
        size += len(position.cursor or b"")
        if part and size > ACK_CURSOR_BYTES:
            yield part
            part, size = [], len(position.cursor or b"")
        part.append(pb.Ack.Stream(stream_id=stream_id, position=to_proto(position)))
    yield part


def pass_round_of_streams(session: Session, seconds: float) -> None:
    """Lets a round of this many seconds count towards stalls of the streams of a session."""
    # A connector that says why it does not send, or that is silent, is named for that.
    explained = session.draining or session.reported.is_impaired or session.heartbeat.silent_ms is not None
    for attachment in session.attachments.values():
        behind = attachment.opened and attachment.stream.is_behind
        if not behind and attachment.stall is None:
            continue
        attachment.stall = attachment.stall or Stall()
        should = behind and not explained and _should_send(attachment)
        backlog = attachment.stream.backlog
        seen = Outlook(attachment.last_sequence, backlog.messages, backlog.bytes) if should else None
        attachment.stall.pass_round(seconds, seen, has_credit=should and _has_credit(session, attachment))


def _should_send(attachment: Attachment) -> bool:
    """Returns whether a stream that is behind has nothing to wait for but credit."""
    stream = attachment.stream
    if attachment.closed or stream.attachment is not attachment or stream.pause is not None:
        return False
    if not stream.redelivering or attachment.last_sequence < 0:
        return True
    # A queue gives a consumer a limited number of messages before the first of them are acknowledged.
    return Position(attachment.epoch, attachment.last_sequence) <= attachment.told


def _has_credit(session: Session, attachment: Attachment) -> bool:
    """Returns whether a stream may send. If it waits for credit, it has requested some (SRC-33).

    A connector with a single stream need not do so: it may send if at most three quarters of its credit are used.
    """
    account = session.account
    if attachment.requested_credit is not None or account.bytes_left <= 0 or account.messages_left <= 0:
        return False
    if len(session.not_closed) > 1:
        return True
    return account.bytes_left * 3 >= account.bytes_held and account.messages_left * 3 >= account.messages_held
