"""The interface that a session of a source needs of the gateway that serves it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.frames import Message
from headrace.conformance.core.trace import Trace
from headrace.conformance.sources.stream import Stream
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.connector_pb2 import Report
from headrace.protocol.v1.frame_pb2 import Frame, Position

S = TypeVar("S", contravariant=True)


@dataclass
class Terms:
    """What Welcome says. The overhead is not the gateway's own, so that no connector can know it beforehand."""

    credit_bytes: int = 16 << 20
    credit_messages: int = 100_000
    max_frame_bytes: int = 4 << 20
    max_frame_messages: int = 65_536
    max_cursor_bytes: int = 16_384
    max_streams: int = 100
    frame_overhead_bytes: int = 300
    linger_ms: int = 5


class Listener(Protocol[S]):
    """The gateway, as a session sees it: what it knows over all sessions, and what to do with what arrives."""

    trace: Trace
    changes: Changes
    breach: Callable[[str, str], None]
    capabilities: list[Any]
    terms: Terms
    reads: asyncio.Event
    resumes: dict[str, Position | None]
    committed: dict[str, Position]
    earlier: dict[str, Position]
    epochs: int
    continues: bool

    def greeted(self, session: S) -> None:
        """Hello has arrived."""

    def begin_epoch(self, stream: Stream, resume: Position | None) -> Position | None:
        """Begins an epoch of a resumable stream."""

    def asked(self, session: S, stream: Stream) -> None:
        """OpenStream has arrived."""

    def framed(self, session: S, stream: Stream, frame: Frame) -> None:
        """A frame has arrived."""

    def moved(self, stream: Stream, frame: Frame) -> None:
        """A frame without messages has arrived."""

    def requested(self, session: S, stream: Stream, request: pb.CreditRequest) -> None:
        """CreditRequest has arrived."""

    def closed(self, session: S, stream: Stream) -> None:
        """CloseStream has arrived."""

    def lost(self, session: S, stream: Stream) -> None:
        """PositionLost has arrived."""

    def reported(self, report: Report) -> None:
        """Report has arrived."""

    def keep(self, stream: Stream, message: Message) -> None:
        """Remembers a message of a stream."""

    def commit(self, stream: Stream, sequence: int) -> Position:
        """Notes that a stream is acknowledged up to a sequence; returns its position."""
        ...
