"""The messages that wait to be sent to a sink."""

from collections import deque

from headrace.contract import clock
from headrace.gateway.core.base.turns import Signal
from headrace.protocol.v1 import sink_pb2 as pb

QUEUE_BYTES = 4 * 2**20
"""The size in bytes at which further deliveries wait."""
MESSAGE_BYTES = 512
"""The size in bytes that a message counts for, besides its frame."""

Response = pb.SinkServiceAttachResponse | bytes
"""A message to the sink. One with a frame is already serialized, built around the frame's bytes."""


class Outbox:
    """A queue of messages, whose size deliveries limit by waiting for room.

    Attributes:
        arrived: Notified when there is a message.
        room: Notified when there may be room.
        full_since: Since when it has been full, on the monotonic clock; None if it is not.
    """

    def __init__(self) -> None:
        """Begins without messages."""
        self.arrived = Signal()
        self.room = Signal()
        self.full_since: float | None = None
        self._messages: deque[tuple[Response, int]] = deque()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether deliveries wait."""
        return self._bytes >= QUEUE_BYTES

    def put(self, response: Response, frame_bytes: int = 0) -> None:
        """Queues a message, even if the queue is full: a delivery waits for room before."""
        size = frame_bytes + MESSAGE_BYTES
        self._messages.append((response, size))
        self._bytes += size
        if self.is_full and self.full_since is None:
            self.full_since = clock.monotonic()
        self.arrived.notify()

    def take(self) -> Response | None:
        """Removes and returns the next message; None if there is none."""
        if not self._messages:
            return None
        response, size = self._messages.popleft()
        self._bytes -= size
        if not self.is_full:
            self.full_since = None
        self.room.notify()
        return response

    def clear(self) -> None:
        """Drops all messages, and wakes whoever waits for room."""
        self._messages.clear()
        self.room.notify()
