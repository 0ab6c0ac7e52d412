"""A gateway that commits by itself what it is sent, checks every rule that a connector must keep, and can be interrupted."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import grpc
import grpc.aio
from tests.fake_gateway.server import DEADLINE, FakeServer

from headrace.contract.columns import NULL_LENGTH
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer, add_SourceServiceServicer_to_server
from headrace.sdk import Message, decode_frame

FRAME_OVERHEAD = 300

Context = grpc.aio.ServicerContext[pb.IngestRequest, pb.IngestResponse]


@dataclass
class Stream:
    """The gateway's record of a stream; it outlives sessions."""

    messages: list[Message] = field(default_factory=list)
    committed: int = 0
    """How many of the messages are in the pretended checkpoint."""
    ended: bool = False


@dataclass(eq=False)
class Session:
    """One call of a connector."""

    context: Context
    metadata: dict[str, str]
    credit_bytes: int
    credit_messages: int
    hello: pb.Hello = field(default_factory=pb.Hello)
    frames: int = 0
    messages: int = 0
    names: dict[int, str] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)
    held: list[tuple[int, int]] = field(default_factory=list)
    """Bytes and messages of each frame that is not committed."""
    credit_requests: list[pb.CreditRequest] = field(default_factory=list)
    goodbye: str | None = None
    """Why it left, if it said so."""

    async def send(self, **message: object) -> None:
        """Tells the connector something."""
        await self.context.write(pb.IngestResponse(**message))  # type: ignore[arg-type]

    async def reject(self, stream: str, reason: pb.RejectReason.ValueType, retry_after_ms: int = 0) -> None:
        """Closes a stream."""
        stream_id = next(number for number, name in self.names.items() if name == stream and number not in self.rejected)
        self.rejected.add(stream_id)
        text = f"{stream}: as the test says"
        await self.send(reject=pb.Reject(stream_id=stream_id, reason=reason, message=text, retry_after_ms=retry_after_ms))

    async def drain(self, deadline_ms: int) -> None:
        """Asks the connector to finish."""
        await self.send(drain=pb.Drain(deadline_ms=deadline_ms, reason="as the test says"))

    async def end(self, status: grpc.StatusCode) -> None:
        """Ends the call."""
        await self.context.abort(status, "as the test says")


Action = Callable[[Session], Awaitable[None]]


class CommittingGateway(FakeServer, SourceServiceServicer):
    """Serves one connector on a free port."""

    register = add_SourceServiceServicer_to_server

    def __init__(self) -> None:
        super().__init__()
        self.window_bytes = 64 << 20
        self.window_messages = 1_000_000
        self.max_frame_messages = 65536
        self.linger_ms = 5
        self.on_open: list[Action] = []
        """What to do, one for each OpenStream, instead of opening the stream at first."""
        self.after: list[tuple[int, Action]] = []
        """What to do once so many messages were received in all; afterwards half of each frame is committed at first."""
        self.commits = asyncio.Event()
        """Nothing is committed before it is set."""
        self.commits.set()
        self.streams: dict[str, Stream] = {}
        self.sessions: list[Session] = []
        self.violations: list[str] = []
        self._changed = asyncio.Condition()

    @property
    def received(self) -> int:
        """How many messages it has of all streams."""
        return sum(len(stream.messages) for stream in self.streams.values())

    async def commit_all(self, session: Session) -> None:
        """Commits everything that was received."""
        for stream_id, name in session.names.items():
            await self._commit(session, stream_id, len(self.streams[name].messages))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to have happened."""
        async with asyncio.timeout(DEADLINE), self._changed:
            await self._changed.wait_for(condition)

    async def Ingest(self, request_iterator: AsyncIterator[pb.IngestRequest], context: Context) -> None:  # type: ignore[override]
        """One session."""
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        session = Session(context, metadata, self.window_bytes, self.window_messages)
        self.sessions.append(session)
        async for request in request_iterator:
            kind = request.WhichOneof("message")
            await self._take(session, request)
            async with self._changed:
                self._changed.notify_all()
            if kind == "goodbye":
                return
            while self.after and self.received >= self.after[0][0]:
                await self.after.pop(0)[1](session)

    async def _take(self, session: Session, request: pb.IngestRequest) -> None:
        match request.WhichOneof("message"):
            case "hello":
                await self._welcome(session, request.hello)
            case "open_stream":
                await self._open(session, request.open_stream)
            case "frame":
                await self._take_frame(session, request.frame)
            case "backlog":
                self._check_backlog(session, request.backlog)
            case "credit_request":
                session.credit_requests.append(request.credit_request)
                more = request.credit_request.bytes + FRAME_OVERHEAD - session.credit_bytes
                if not session.held and more > 0:  # Else it has crossed the Credit that it waits for.
                    session.credit_bytes += more
                    await session.send(credit=pb.Credit(bytes=more))
            case "close_stream":
                await self._close(session, request.close_stream)
            case "goodbye":
                session.goodbye = request.goodbye.reason
            case "report":
                pass  # Its state, and heartbeats.
            case _:
                self.violations.append(f"unexpected {request}")

    async def _welcome(self, session: Session, hello: pb.Hello) -> None:
        self._expect(hello.protocol_version == 1 and bool(hello.connector) and bool(hello.instance), f"hello {hello}")
        session.hello = hello
        credit = pb.Credit(bytes=session.credit_bytes, messages=session.credit_messages)
        welcome = pb.Welcome(
            protocol_version=1,
            gateway_version="fake",
            session=f"s{len(self.sessions)}",
            max_frame_bytes=4 << 20,
            max_frame_messages=self.max_frame_messages,
            max_streams=100,
            frame_overhead_bytes=FRAME_OVERHEAD,
            credit=credit,
            pace=pb.Pace(linger_ms=self.linger_ms),
        )
        await session.send(welcome=welcome)

    async def _open(self, session: Session, request: pb.OpenStream) -> None:
        self._expect(request.stream_id not in session.names, f"stream id {request.stream_id} used again")
        self._expect(request.kind == pb.SOURCE_KIND_REPLAYABLE, f"kind of {request}")
        session.names[request.stream_id] = request.stream
        if self.on_open:
            await self.on_open.pop(0)(session)
            return
        stream = self.streams.setdefault(request.stream, Stream())
        del stream.messages[stream.committed :]
        opened = pb.StreamOpened(stream_id=request.stream_id)
        if stream.messages:
            position = frame_pb2.Position(sequence=stream.messages[-1].sequence)
            opened.resume.CopyFrom(position)
            opened.acknowledged.CopyFrom(position)
        await session.send(stream_opened=opened)

    async def _take_frame(self, session: Session, frame: frame_pb2.Frame) -> None:
        size = frame.ByteSize() + FRAME_OVERHEAD
        session.frames += 1
        session.messages += frame.count
        session.credit_bytes -= size
        session.credit_messages -= frame.count
        if session.credit_bytes < 0 or session.credit_messages < 0:
            self.violations.append(f"credit overrun by {-session.credit_bytes} bytes, {-session.credit_messages} messages")
        self._expect(frame.count <= self.max_frame_messages, f"a frame of {frame.count} messages")
        session.held.append((size, frame.count))
        if frame.stream_id in session.rejected:
            await self._release(session)
            return
        stream = self.streams[session.names[frame.stream_id]]
        before = len(stream.messages)
        stream.messages += unpack(frame)
        sequences = [message.sequence for message in stream.messages[max(before - 1, 0) :]]
        self._expect(sequences == sorted(set(sequences)), f"sequences step back: {sequences}")
        if self.commits.is_set():
            half = before + frame.count // 2
            await self._commit(session, frame.stream_id, half if self.after else len(stream.messages))

    async def _commit(self, session: Session, stream_id: int, count: int) -> None:
        """Commits the first messages of a stream, and gives credit back where that is all of them."""
        stream = self.streams[session.names[stream_id]]
        if stream.committed != count:
            stream.committed = count
            position = frame_pb2.Position(sequence=stream.messages[count - 1].sequence)
            await session.send(ack=pb.Ack(streams=[pb.Ack.Stream(stream_id=stream_id, position=position)]))
        if all(s.committed == len(s.messages) for s in self.streams.values()):
            await self._release(session)

    async def _release(self, session: Session) -> None:
        size, count = sum(size for size, _ in session.held), sum(count for _, count in session.held)
        session.held.clear()
        session.credit_bytes += size
        session.credit_messages += count
        await session.send(credit=pb.Credit(bytes=size, messages=count))

    def _check_backlog(self, session: Session, backlog: pb.Backlog) -> None:
        stream = self.streams[session.names[backlog.stream_id]]
        last = stream.messages[-1].sequence if stream.messages else 0
        if backlog.stream_id not in session.rejected:
            self._expect((backlog.messages == 0) == (backlog.latest_sequence <= last), f"after {last}: {backlog}")

    async def _close(self, session: Session, close: pb.CloseStream) -> None:
        self._expect(close.end_of_stream, f"{close}")
        stream = self.streams[session.names[close.stream_id]]
        if close.stream_id not in session.rejected:
            stream.ended = True
            async with self._changed:
                self._changed.notify_all()
            await self.commits.wait()
            await self._commit(session, close.stream_id, len(stream.messages))

    def _expect(self, kept: bool, violation: str) -> None:
        if not kept:
            self.violations.append(violation)


def unpack(frame: frame_pb2.Frame) -> list[Message]:
    """The messages of a frame; fails where its columns do not add up."""
    assert frame.count >= 1
    assert frame.value_lengths, "value_lengths are required"
    for column in "key", "value", "message_id", "header_name", "header_value":
        lengths, data = getattr(frame, f"{column}_lengths"), getattr(frame, f"{column}s")
        given = sum(length for (length,) in struct.iter_unpack("<I", lengths) if length != NULL_LENGTH)
        assert given == len(data), f"{column}_lengths add up to {given} of {len(data)} bytes"
    return decode_frame(frame)
