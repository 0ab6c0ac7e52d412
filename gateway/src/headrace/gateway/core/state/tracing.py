"""The interface by which the gateway reports single messages that pass through it."""

from typing import Protocol

from headrace.gateway.core.sinks import Part
from headrace.gateway.core.streams import Session
from headrace.protocol.v1 import frame_pb2


class Sending(Protocol):
    """A part that is delivered to a sink."""

    @property
    def trace_id(self) -> str | None:
        """The trace of its first sampled message; None if there is none."""

    def take(self, frame: frame_pb2.Frame) -> None:
        """Notes a frame of the part."""

    def end(self, error: str | None) -> None:
        """Notes that the sink has staged the part, or with which type of error the delivery has failed."""


class Tracing(Protocol):
    """Creates spans. The gateway has none of them unless they are exported."""

    def received(self, session: Session, stream: str, frame: frame_pb2.Frame, last: int, begun_at: float) -> None:
        """Notes that a frame is buffered whose last sequence is `last`; it arrived at `begun_at` on the monotonic clock."""

    def settled(self, session: Session, stream_id: int, sequence: int, begun_at: float) -> None:
        """Notes that the acknowledgement up to a sequence is written; the gateway learned of the commit at `begun_at`."""

    def closed(self, session: Session) -> None:
        """Notes that a session has ended."""

    def sending(self, sink: str, instance: str, part: Part) -> Sending:
        """Begins to follow a part on its way to an instance of a sink."""
