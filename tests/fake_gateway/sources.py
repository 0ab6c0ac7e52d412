"""A gateway that does what a test tells it, over a real gRPC connection, and checks that connectors keep to their credit."""

import asyncio
from dataclasses import dataclass, field

from tests.fake_gateway.server import DEADLINE, FakeServer, ScriptedCall

from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer, add_SourceServiceServicer_to_server
from headrace.sdk import Message, decode_frame

FRAME_OVERHEAD = 50


@dataclass
class Limits:
    """The content of the gateway's Welcome."""

    max_frame_bytes: int = 16 << 20
    max_frame_messages: int = 65536
    max_streams: int = 100
    credit_bytes: int = 64 << 20
    credit_messages: int = 1_000_000
    linger_ms: int | None = None
    max_cursor_bytes: int = 0
    capabilities: tuple[pb.Capability.ValueType, ...] = ()
    """None, as a gateway of the last release has."""


@dataclass(eq=False, kw_only=True)
class FakeSession(ScriptedCall[pb.IngestRequest, pb.IngestResponse]):
    """One call of a source."""

    hello: pb.Hello
    credit_bytes: int
    credit_messages: int
    capabilities: tuple[pb.Capability.ValueType, ...] = ()
    overrun: str = ""
    shared: list[int] = field(default_factory=list)
    """How many frames each message had that had several. Each of them is received as if it came in a message of its own."""

    def take(self, request: pb.IngestRequest) -> None:
        if request.WhichOneof("message") == "frames":
            if pb.CAPABILITY_FRAMES not in self.capabilities:
                self.overrun = "several frames in one message, which this gateway does not list among its capabilities"
            self.shared.append(len(request.frames.frames))
            for frame in request.frames.frames:
                self.take(pb.IngestRequest(frame=frame))
            return
        if request.WhichOneof("message") == "frame" and request.frame.count:
            self.credit_bytes -= request.frame.ByteSize() + FRAME_OVERHEAD
            self.credit_messages -= request.frame.count
            if self.credit_bytes < 0 or self.credit_messages < 0:
                self.overrun = f"{-self.credit_bytes} bytes, {-self.credit_messages} messages over"
        super().take(request)

    async def next(self, *kinds: str, ignore: tuple[str, ...] = ("backlog", "credit_request", "report")) -> pb.IngestRequest:
        """The connector's next message; it must be one of `kinds`."""
        while True:
            async with asyncio.timeout(DEADLINE):
                request = await self.inbox.get()
            assert not self.overrun, self.overrun
            assert request is not None, f"the connector ended the call instead of sending {kinds}"
            kind = request.WhichOneof("message")
            if kind in kinds:
                return request
            assert kind in ignore, f"expected {kinds}, got {request}"

    async def gone(self) -> None:
        """Waits until the connector has ended the call; it must send nothing more of importance."""
        async with asyncio.timeout(DEADLINE):
            while (request := await self.inbox.get()) is not None:
                assert request.WhichOneof("message") in ("backlog", "report"), request

    async def open(self, stream: str | None = None, **opened: object) -> int:
        """Expects the connector to open a stream, and opens it. Returns its id."""
        request = (await self.next("open_stream", ignore=("backlog", "frame", "report"))).open_stream
        assert stream in (None, request.stream)
        self.answer_open(request.stream_id, **opened)
        return request.stream_id

    def answer_open(self, stream_id: int, **opened: object) -> None:
        self.send(stream_opened=pb.StreamOpened(stream_id=stream_id, **opened))

    async def messages(self, count: int) -> list[Message]:
        """The next messages, from as many frames as it takes."""
        received: list[Message] = []
        while len(received) < count:
            received.extend(decode_frame((await self.next("frame")).frame))
        assert len(received) == count
        return received

    def send(self, **message: object) -> None:
        self.outgoing.put_nowait(pb.IngestResponse(**message))

    def ack(
        self,
        stream_id: int,
        sequence: int,
        epoch: int = 0,
        cursor: bytes | None = None,
        moves: int = 0,
        returns: frame_pb2.Frame | None = None,
    ) -> None:
        """Acknowledges, and gives the credit of a frame back where one is named."""
        position = frame_pb2.Position(epoch=epoch, sequence=sequence, cursor=cursor, moves=moves)
        credit = None
        if returns is not None:
            credit = pb.Credit(bytes=returns.ByteSize() + FRAME_OVERHEAD, messages=returns.count)
            self.credit_bytes += credit.bytes
            self.credit_messages += credit.messages
        self.send(ack=pb.Ack(streams=[pb.Ack.Stream(stream_id=stream_id, position=position)], credit=credit))

    def grant(self, bytes_: int, messages: int) -> None:
        self.credit_bytes += bytes_
        self.credit_messages += messages
        self.send(credit=pb.Credit(bytes=bytes_, messages=messages))


class FakeGateway(FakeServer, SourceServiceServicer):
    """Accepts sources."""

    register = add_SourceServiceServicer_to_server

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        self._sessions: asyncio.Queue[FakeSession] = asyncio.Queue()

    async def session(self) -> FakeSession:
        """The next session that a connector begins."""
        async with asyncio.timeout(DEADLINE):
            return await self._sessions.get()

    @property
    def has_session(self) -> bool:
        return not self._sessions.empty()

    async def Ingest(self, request_iterator, context):
        hello = (await anext(request_iterator)).hello
        limits = self.limits
        session = FakeSession(
            hello=hello,
            metadata=dict(context.invocation_metadata()),
            credit_bytes=limits.credit_bytes,
            credit_messages=limits.credit_messages,
            capabilities=limits.capabilities,
        )
        welcome = pb.Welcome(
            protocol_version=1,
            gateway_version="fake",
            session="s1",
            max_frame_bytes=limits.max_frame_bytes,
            max_frame_messages=limits.max_frame_messages,
            max_streams=limits.max_streams,
            credit=pb.Credit(bytes=limits.credit_bytes, messages=limits.credit_messages),
            frame_overhead_bytes=FRAME_OVERHEAD,
            pace=None if limits.linger_ms is None else pb.Pace(linger_ms=limits.linger_ms),
            capabilities=limits.capabilities,
            max_cursor_bytes=limits.max_cursor_bytes,
        )
        await context.write(pb.IngestResponse(welcome=welcome))
        self._sessions.put_nowait(session)
        await session.serve(request_iterator, context)
