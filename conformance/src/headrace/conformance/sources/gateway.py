"""A gateway for one source: it welcomes, opens, acknowledges and grants by itself, unless a check says otherwise."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.frames import Message
from headrace.conformance.core.gateway import SessionGateway, metadata_of
from headrace.conformance.core.trace import Trace
from headrace.conformance.sources.listener import Terms
from headrace.conformance.sources.session import SourceSession, at
from headrace.conformance.sources.stream import Stream
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Frame, Position
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer, add_SourceServiceServicer_to_server


class SourceGateway(SessionGateway[SourceSession], SourceServiceServicer):
    """Serves the sessions of one source, and remembers what it was sent over all of them."""

    register = add_SourceServiceServicer_to_server  # type: ignore[assignment]

    def __init__(self, trace: Trace, changes: Changes) -> None:
        super().__init__(trace, changes)
        self.capabilities += (pb.CAPABILITY_FRAMES, pb.CAPABILITY_CURSORS)
        self.terms = Terms()
        self.reads = asyncio.Event()
        """Set while it reads what connectors send."""
        self.reads.set()
        self.opens = True
        """Whether it opens streams as soon as it is asked for them."""
        self.acks = True
        """Whether it acknowledges each frame at once."""
        self.grants = True
        """Whether it grants what a CreditRequest asks for, when nothing is outstanding."""
        self.on_asked: list[Callable[[SourceSession, Stream], None]] = []
        """What to do, one for each OpenStream, instead of opening the stream."""
        self.resumes: dict[str, Position | None] = {}
        """Where streams resume."""
        self.committed: dict[str, Position] = {}
        """What is acknowledged."""
        self.earlier: dict[str, Position] = {}
        """The last position of redelivering streams in a checkpoint, of an earlier epoch."""
        self.received: dict[str, dict[int, Message]] = {}
        """The messages of each stream by sequence, over all sessions; of a replayable source."""
        self.epochs = 0
        self.continues = False
        """Whether resumable streams are opened again in the epoch of their resume positions."""
        self._cursors: dict[str, list[tuple[int, bytes]]] = {}

    # What checks use

    @property
    def last_session(self) -> SourceSession | None:
        """The session that began last."""
        return self.sessions[-1] if self.sessions else None

    def position(self, name: str, sequence: int) -> Position:
        """A position of a replayable stream, with the cursor of the last frame that ended at or before it."""
        return at(sequence, self.cursor(name, sequence))

    def cursor(self, name: str, sequence: int) -> bytes | None:
        """The cursor of the last frame of a stream that ended at or before a sequence."""
        cursors = [cursor for last, cursor in self._cursors.get(name, []) if last <= sequence]
        return cursors[-1] if cursors else None

    def has_cursor_at(self, name: str, sequence: int) -> bool:
        """Whether a frame of a stream that ended at a sequence had a cursor."""
        return any(last == sequence for last, _ in self._cursors.get(name, []))

    def resume_at(self, name: str, sequence: int | None) -> None:
        """Sets where a stream resumes, and what is acknowledged; None is its beginning."""
        if sequence is None:
            self.resumes.pop(name, None)
            self.committed.pop(name, None)
        else:
            self.resumes[name] = self.committed[name] = self.position(name, sequence)

    def commit(self, stream: Stream, sequence: int) -> Position:
        """Notes that a stream is acknowledged up to a sequence."""
        if stream.kind == pb.SOURCE_KIND_REDELIVERING:
            return Position(epoch=stream.epoch, sequence=sequence)
        position = self.position(stream.name, sequence)
        position.epoch = stream.epoch
        self.resumes[stream.name] = self.committed[stream.name] = position
        return position

    # What sessions report

    def asked(self, session: SourceSession, stream: Stream) -> None:
        """OpenStream has arrived."""
        if self.on_asked:
            self.on_asked.pop(0)(session, stream)
        elif self.opens:
            session.open(stream)

    def framed(self, session: SourceSession, stream: Stream, frame: Frame) -> None:
        """A frame has arrived."""
        if stream.kind == pb.SOURCE_KIND_RESUMABLE and frame.HasField("cursor"):
            self._check_order(stream, frame)
        if frame.HasField("cursor") and stream.messages:
            self._cursors.setdefault(stream.name, []).append((stream.messages[-1].sequence, frame.cursor))
        if self.acks and not stream.settled:
            session.acknowledge((stream, len(stream.messages)))

    def _check_order(self, stream: Stream, frame: Frame) -> None:
        if frame.cursor < stream.cursor:
            text = f"{stream.name}: cursor {frame.cursor!r} follows {stream.cursor!r}, and is before it byte by byte"
            self.breach("cursor-order", text)
        stream.cursor = frame.cursor

    def begin_epoch(self, stream: Stream, resume: Position | None) -> Position | None:
        """Begins an epoch of a stream that is not replayable; returns the place after which its source is opened."""
        self.epochs += 1
        stream.epoch = self.epochs
        self._cursors[stream.name] = []
        if resume is None or not resume.HasField("cursor"):
            return None
        self._cursors[stream.name].append((0, resume.cursor))
        return Position(epoch=stream.epoch, cursor=resume.cursor)

    def moved(self, stream: Stream, frame: Frame) -> None:
        """A frame without messages has arrived: from its sequence on, positions have its cursor."""
        self._cursors.setdefault(stream.name, []).append((frame.first_sequence, frame.cursor))

    def requested(self, session: SourceSession, stream: Stream, request: pb.CreditRequest) -> None:
        """CreditRequest has arrived."""
        outstanding = any(other.outstanding for other in session.streams.values())
        bytes_ = request.bytes + self.terms.frame_overhead_bytes - session.credit_bytes
        messages = request.messages - session.credit_messages
        if self.grants and not outstanding and (bytes_ > 0 or messages > 0):
            session.grant(max(bytes_, 0), max(messages, 0))

    def closed(self, session: SourceSession, stream: Stream) -> None:
        """CloseStream has arrived."""

    def lost(self, session: SourceSession, stream: Stream) -> None:
        """PositionLost has arrived: the stream is to be opened again, and is parked then."""
        session.reject(stream, pb.REJECT_REASON_REOPEN)

    def keep(self, stream: Stream, message: Message) -> None:
        """Remembers a message; the same position must always yield the same one."""
        if stream.kind != pb.SOURCE_KIND_REPLAYABLE:
            return
        known = self.received.setdefault(stream.name, {}).setdefault(message.sequence, message)
        if known != message:
            self.breach("replay", f"{stream.name}: first {known}, later {message}")

    async def Ingest(self, request_iterator: AsyncIterator[pb.IngestRequest], context: Any) -> None:  # type: ignore[override]
        """One session."""
        session = SourceSession(metadata=metadata_of(context), number=len(self.sessions) + 1, gateway=self)
        await self.run("SourceService.Ingest", session, request_iterator, context)
