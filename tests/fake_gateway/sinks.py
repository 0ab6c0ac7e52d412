"""A gateway that does with sinks what a test tells it, over a real gRPC connection."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fake_gateway.server import DEADLINE, FakeServer, ScriptedCall

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer, add_SinkServiceServicer_to_server
from headrace.sdk import Batch
from headrace.sdk.wire import fill_frame, pack


def transaction(batch: int, pipeline: str = "p") -> pb.Transaction:
    return pb.Transaction(pipeline=pipeline, batch=batch)


def part(batch: int, partition: int = 0, attempt: str = "a", pipeline: str = "p") -> pb.Part:
    return pb.Part(transaction=transaction(batch, pipeline), partition=partition, attempt=attempt)


def frame_of(values: Sequence[bytes | None], first: int = 0, **columns: object) -> Frame:
    """Rows of a part."""
    frame = Frame()
    fill_frame(frame, pack([Batch(values, sequences=range(first, first + len(values)), **columns)], 1, None), 0, 0, len(values))
    return frame


@dataclass(eq=False, kw_only=True)
class FakeSinkSession(ScriptedCall[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]):
    """One call of a sink."""

    gateway: "FakeSinkGateway"
    hello: pb.SinkHello
    ids: int = 0

    async def next(self, kind: str) -> object:
        """The sink's next message but Reports, which must be of a kind."""
        request = await self._answer()
        assert request is not None, f"the sink ended the call instead of sending {kind}"
        assert request.WhichOneof("message") == kind, request
        return getattr(request, kind)

    async def gone(self) -> None:
        """Waits until the sink has ended the call; it must send nothing more but Reports."""
        assert await self._answer() is None

    async def _answer(self) -> pb.SinkServiceAttachRequest | None:
        async with asyncio.timeout(DEADLINE):
            while (request := await self.inbox.get()) is not None and request.WhichOneof("message") == "report":
                pass
            return request

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


class FakeSinkGateway(FakeServer, SinkServiceServicer):
    """Accepts sinks."""

    register = add_SinkServiceServicer_to_server

    def __init__(self) -> None:
        super().__init__()
        self._sessions: asyncio.Queue[FakeSinkSession] = asyncio.Queue()

    async def session(self) -> FakeSinkSession:
        """The next session that a sink begins."""
        async with asyncio.timeout(DEADLINE):
            return await self._sessions.get()

    async def Attach(self, request_iterator, context):
        hello = (await anext(request_iterator)).hello
        session = FakeSinkSession(gateway=self, hello=hello, metadata=dict(context.invocation_metadata()))
        welcome = pb.SinkWelcome(protocol_version=1, gateway_version="fake", session="s1")
        await context.write(pb.SinkServiceAttachResponse(welcome=welcome))
        self._sessions.put_nowait(session)
        await session.serve(request_iterator, context)
