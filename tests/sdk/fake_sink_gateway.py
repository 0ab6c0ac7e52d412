"""A gateway that does with sinks what a test tells it, over a real gRPC connection."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio
from tests.sdk.fake_gateway import DEADLINE

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer, add_SinkServiceServicer_to_server
from headrace.sdk import Batch
from headrace.sdk._frame import fill_frame
from headrace.sdk._pack import pack


def transaction(batch: int, pipeline: str = "p") -> pb.Transaction:
    return pb.Transaction(pipeline=pipeline, batch=batch)


def part(batch: int, partition: int = 0, attempt: str = "a", pipeline: str = "p") -> pb.Part:
    return pb.Part(transaction=transaction(batch, pipeline), partition=partition, attempt=attempt)


def frame_of(values: Sequence[bytes | None], first: int = 0, **columns: object) -> Frame:
    """Rows of a part."""
    frame = Frame()
    fill_frame(frame, pack([Batch(values, sequences=range(first, first + len(values)), **columns)], 1, None), 0, 0, len(values))
    return frame


@dataclass(eq=False)
class FakeSinkSession:
    """One call of a sink, from the gateway's side."""

    gateway: "FakeSinkGateway"
    hello: pb.SinkHello
    metadata: dict[str, str]
    inbox: asyncio.Queue[pb.SinkServiceAttachRequest | None] = field(default_factory=asyncio.Queue)
    outgoing: asyncio.Queue[pb.SinkServiceAttachResponse | tuple[grpc.StatusCode, str]] = field(default_factory=asyncio.Queue)
    written: int = 0
    """How many messages gRPC has taken from the gateway."""
    ids: int = 0

    async def next(self, kind: str) -> object:
        """The sink's next message, which must be of a kind."""
        async with asyncio.timeout(DEADLINE):
            request = await self.inbox.get()
        assert request is not None, f"the sink ended the call instead of sending {kind}"
        assert request.WhichOneof("message") == kind, request
        return getattr(request, kind)

    async def gone(self) -> None:
        """Waits until the sink has ended the call; it must send nothing more."""
        async with asyncio.timeout(DEADLINE):
            assert await self.inbox.get() is None

    def send(self, **message: object) -> None:
        self.outgoing.put_nowait(pb.SinkServiceAttachResponse(**message))

    def start(self, of: pb.Part) -> int:
        """Begins a part; returns its id."""
        self.ids += 1
        self.send(start_part=pb.StartPart(id=self.ids, part=of))
        return self.ids

    def rows(self, id_: int, values: Sequence[bytes | None], first: int = 0, **columns: object) -> None:
        self.send(frame=pb.PartFrame(id=id_, frame=frame_of(values, first, **columns)))

    def end(self, id_: int, messages: int) -> None:
        self.send(end_part=pb.EndPart(id=id_, messages=messages))

    def drop(self, id_: int) -> None:
        self.send(drop_part=pb.DropPart(id=id_))

    def prepare(self, of: pb.Transaction, *parts: pb.Part) -> None:
        self.send(prepare=pb.Prepare(transaction=of, parts=parts))

    def commit(self, of: pb.Transaction) -> None:
        self.send(commit=pb.Commit(transaction=of))

    def abort(self, of: pb.Transaction) -> None:
        self.send(abort=pb.Abort(transaction=of))

    def drain(self, deadline_ms: int = 5000) -> None:
        self.send(drain=pb.SinkDrain(deadline_ms=deadline_ms, reason="as the test says"))

    def close(self, status: grpc.StatusCode, details: str = "as the test says") -> None:
        self.outgoing.put_nowait((status, details))

    async def staged(self, of: pb.Part, *values: bytes | None, refused: dict[int, str] | None = None) -> int:
        """Delivers a part, and sees it staged; returns its id."""
        id_ = self.start(of)
        if values:
            self.rows(id_, values)
        self.end(id_, len(values))
        answer = await self.next("staged")
        assert answer.id == id_
        assert {message.sequence: message.reason for message in answer.refused} == (refused or {})
        return id_

    async def prepared(self, of: pb.Transaction, *parts: pb.Part) -> None:
        """Asks for the vote, and gets it."""
        self.prepare(of, *parts)
        assert (await self.next("prepared")).transaction == of

    async def committed(self, of: pb.Transaction) -> None:
        """Asks to commit, and sees it done."""
        self.commit(of)
        assert (await self.next("committed")).transaction == of


class FakeSinkGateway(SinkServiceServicer):
    """Accepts sinks."""

    def __init__(self) -> None:
        self.port = 0
        self._sessions: asyncio.Queue[FakeSinkSession] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.http2.min_ping_interval_without_data_ms", 1000),
                ("grpc.so_reuseport", 0),
            ]
        )
        add_SinkServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def session(self) -> FakeSinkSession:
        """The next session that a sink begins."""
        async with asyncio.timeout(DEADLINE):
            return await self._sessions.get()

    async def Attach(self, request_iterator, context):
        hello = (await anext(request_iterator)).hello
        session = FakeSinkSession(self, hello, dict(context.invocation_metadata()))
        welcome = pb.SinkWelcome(protocol_version=1, gateway_version="fake", session="s1")
        await context.write(pb.SinkServiceAttachResponse(welcome=welcome))
        self._sessions.put_nowait(session)
        reading = asyncio.create_task(self._read(session, request_iterator))
        writing = asyncio.create_task(self._write(session, context))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await context.abort(*writing.result())
        finally:
            reading.cancel()
            writing.cancel()

    async def _read(self, session: FakeSinkSession, requests: AsyncIterator[pb.SinkServiceAttachRequest]) -> None:
        try:
            async for request in requests:
                session.inbox.put_nowait(request)
                if request.HasField("goodbye"):
                    return
        finally:
            session.inbox.put_nowait(None)

    async def _write(self, session: FakeSinkSession, context) -> tuple[grpc.StatusCode, str]:
        """Sends what the test wants sent; returns how the call shall end."""
        while not isinstance(message := await session.outgoing.get(), tuple):
            await context.write(message)
            session.written += 1
        return message
