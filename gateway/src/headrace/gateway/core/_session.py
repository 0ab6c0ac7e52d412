"""A connector's session: its streams, its credit, and what it is still to be told."""

import itertools
import time
from collections.abc import Iterator

from headrace.gateway._identity import Identity
from headrace.gateway.core._credit import CreditAccount, CreditPool
from headrace.gateway.core._errors import ProtocolError, TooSlow
from headrace.gateway.core._id_ranges import IdRanges
from headrace.gateway.core._position import Position
from headrace.gateway.core._signal import Signal
from headrace.gateway.core._stream import Attachment, Wanted
from headrace.protocol.v1 import source_pb2 as pb

MOST_WAITING = 10_000
"""So many messages may wait for a connector to read them, and some for each of its streams; acks and credit are merged."""

_ids = itertools.count(1)


class Session:
    """Everything about one live call.

    What is waiting to be written is bounded: acks and credit are merged, and the rest is a message or two for each stream.
    """

    def __init__(self, hello: pb.Hello, peer: str, identity: Identity, pool: CreditPool) -> None:
        self.id = f"s{next(_ids)}"
        self.hello = hello
        self.peer = peer
        self.identity = identity
        self.opened_at = time.monotonic()
        self.linger_ms = 0
        self.account: CreditAccount = pool.open(self._grant)
        self.attachments: dict[int, Attachment] = {}
        self.not_closed: set[int] = set()
        """Ids of streams that it may send still: of how many thousands it has closed does not matter."""
        self.retired = IdRanges()
        """Ids of streams that were rejected while frames may have been on their way."""
        self.draining = False
        self.failure: ProtocolError | None = None
        self.outgoing = Signal()
        self._control: list[pb.IngestResponse] = []
        self._acks: dict[int, Position] = {}
        self._credit_bytes = 0
        self._credit_messages = 0

    @property
    def instance(self) -> str:
        """Which deployment of the connector this is."""
        return self.hello.instance

    def open_attachments(self) -> Iterator[Attachment]:
        """The streams that it may send."""
        return (a for a in self.attachments.values() if a.opened and not a.closed)

    def end(self, failure: ProtocolError) -> None:
        """Ends the session with an error, after what is waiting has been written."""
        self.failure = self.failure or failure
        self.outgoing.notify()

    def send(self, response: pb.IngestResponse) -> None:
        """Queues a message. A connector that asks and never reads the answers is ended."""
        self._control.append(response)
        if len(self._control) > MOST_WAITING + 4 * len(self.attachments):
            self.end(TooSlow(f"{len(self._control)} answers wait for the connector; read them while you send"))
        self.outgoing.notify()

    def acknowledge(self, attachment: Attachment, position: Position) -> None:
        """Queues an acknowledgement, in place of an earlier one of the same stream."""
        attachment.told = position
        self._acks[attachment.stream_id] = position
        self.outgoing.notify()

    def lend(self, attachment: Attachment, wanted: Wanted) -> None:
        """Gives credit for the next frame of a stream, once for each frame."""
        usual_bytes, usual_messages = self.account.usual_loan()
        size = max(wanted.bytes, usual_bytes if wanted.ready_bytes is None else wanted.ready_bytes) - attachment.lent_bytes
        count = max(wanted.messages, usual_messages if wanted.ready_messages is None else wanted.ready_messages)
        count -= attachment.lent_messages
        if attachment.lent_bytes >= wanted.bytes and attachment.lent_messages >= wanted.messages:
            return
        size, count = max(0, size), max(0, count)
        attachment.lent_bytes += size
        attachment.lent_messages += count
        self.account.lend(size, count)
        self.send(pb.IngestResponse(credit=pb.Credit(bytes=size, messages=count, stream_id=attachment.stream_id)))

    def pace(self, linger_ms: int) -> None:
        """Tells the connector how long to gather messages."""
        self.linger_ms = linger_ms
        self.send(pb.IngestResponse(pace=pb.Pace(linger_ms=linger_ms)))

    def retire(self, stream_id: int) -> None:
        """Lets go of a stream that is closed; its id is not used again."""
        self.attachments.pop(stream_id, None)
        self.account.want_no_more(stream_id)
        self.retired.add(stream_id)

    def reject(self, stream_id: int, reason: pb.RejectReason.ValueType, message: str, retry_after_ms: int = 0) -> None:
        """Closes a stream, or refuses to open it."""
        self.attachments.pop(stream_id, None)
        self.not_closed.discard(stream_id)
        self.account.want_no_more(stream_id)
        self._acks.pop(stream_id, None)
        self.retired.add(stream_id)
        reject = pb.Reject(stream_id=stream_id, reason=reason, message=message, retry_after_ms=retry_after_ms)
        self.send(pb.IngestResponse(reject=reject))

    def has_waiting(self) -> bool:
        """Whether anything is waiting to be written."""
        return bool(self._control or self._acks or self._credit_bytes or self._credit_messages)

    def waiting(self) -> Iterator[pb.IngestResponse]:
        """Takes everything that is waiting to be written."""
        control, self._control = self._control, []
        acks, self._acks = self._acks, {}
        credit = pb.Credit(bytes=self._credit_bytes, messages=self._credit_messages)
        self._credit_bytes = self._credit_messages = 0
        yield from control
        granted = bool(credit.bytes or credit.messages)
        if acks:
            streams = [pb.Ack.Stream(stream_id=i, position=p.to_proto()) for i, p in acks.items()]
            # One message rather than two: with many idle sessions, messages are what costs.
            yield pb.IngestResponse(ack=pb.Ack(streams=streams, credit=credit if granted else None))
        elif granted:
            yield pb.IngestResponse(credit=credit)

    def _grant(self, size: int, count: int) -> None:
        self._credit_bytes += size
        self._credit_messages += count
        self.outgoing.notify()
