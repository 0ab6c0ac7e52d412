"""A sink and a writing pipeline that speak the gateway's protocol message by message."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from tests.gateway.wire import DEADLINE_S, Call, Connector, Engine, frame

from headrace.protocol.v1 import engine_pb2, engine_pb2_grpc, sink_pb2, sink_pb2_grpc
from headrace.protocol.v1.frame_pb2 import Frame

TWO_PHASE = sink_pb2.SINK_MODE_TWO_PHASE
IDEMPOTENT = sink_pb2.SINK_MODE_BATCH_IDEMPOTENT
AT_LEAST_ONCE = sink_pb2.SINK_MODE_AT_LEAST_ONCE


def transaction(batch: int, pipeline: str = "query") -> sink_pb2.Transaction:
    return sink_pb2.Transaction(pipeline=pipeline, batch=batch)


def part(batch: int, partition: int = 0, attempt: str = "r1/a", pipeline: str = "query") -> sink_pb2.Part:
    return sink_pb2.Part(transaction=transaction(batch, pipeline), partition=partition, attempt=attempt)


async def serving_instances(address: str, instances: Sequence[str]) -> None:
    """Waits until these instances serve sink `out`, and no others."""
    engine = Engine(address)
    async with asyncio.timeout(DEADLINE_S):
        while [list(sink.instances) for sink in (await engine.status()).sinks] != [list(instances)]:
            pass
    await engine.close()


class SinkClient(Call):
    """One session, as its sink sees it."""

    def __init__(self, address: str, token: str | None = None) -> None:
        # With probes, a window may grow until the parts of a sink that reads nothing fit into it.
        self._channel = grpc.aio.insecure_channel(address, options=[("grpc.http2.bdp_probe", 0)])
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self.call = sink_pb2_grpc.SinkServiceStub(self._channel).Attach(metadata=metadata)
        self._parts: dict[int, tuple[sink_pb2.Part, list[bytes]]] = {}

    async def hello(
        self, instance: str = "i", sink: str = "out", mode: sink_pb2.SinkMode.ValueType = TWO_PHASE, **holds: Any
    ) -> sink_pb2.SinkWelcome:
        hello = sink_pb2.SinkHello(protocol_version=1, connector="test", sink=sink, instance=instance, mode=mode, **holds)
        await self.send(hello=hello)
        return await self.expect("welcome")

    async def send(self, **message: Any) -> None:
        await self.call.write(sink_pb2.SinkServiceAttachRequest(**message))

    async def receive(self) -> Any:
        """The next message."""
        async with asyncio.timeout(DEADLINE_S):
            response = await self.call.read()
        if response is grpc.aio.EOF:
            raise AssertionError(f"the session ended with {await self.call.code()}: {await self.call.details()}")
        return response

    async def expect(self, kind: str) -> Any:
        """The next message, which must be of a kind."""
        response = await self.receive()
        assert response.WhichOneof("message") == kind, f"expected {kind}, got {response}"
        return getattr(response, kind)

    async def take_part(self, refused: Sequence[int] = ()) -> tuple[sink_pb2.Part, list[bytes]]:
        """Takes parts until one is complete, and says that it is staged; returns it with its frames' values."""
        async with asyncio.timeout(DEADLINE_S):
            while (response := await self.call.read()).WhichOneof("message") != "end_part":
                if response.WhichOneof("message") == "start_part":
                    self._parts[response.start_part.id] = (response.start_part.part, [])
                else:
                    assert response.WhichOneof("message") == "frame", response
                    self._parts[response.frame.id][1].append(response.frame.frame.values)
        reasons = [sink_pb2.Staged.Refused(sequence=n, reason="bad") for n in refused]
        await self.send(staged=sink_pb2.Staged(id=response.end_part.id, refused=reasons))
        return self._parts.pop(response.end_part.id)

    async def vote(self) -> sink_pb2.Prepare:
        """Votes for the transaction that it is asked for."""
        prepare = await self.expect("prepare")
        await self.send(prepared=sink_pb2.Prepared(transaction=prepare.transaction))
        return prepare

    async def commit(self) -> sink_pb2.Transaction:
        """Commits the transaction that the gateway names."""
        told = (await self.expect("commit")).transaction
        await self.send(committed=sink_pb2.Committed(transaction=told))
        return told


class Writer:
    """One run of a pipeline that writes to a sink."""

    def __init__(
        self,
        address: str,
        run: str = "r1",
        first_batch: int = 0,
        readers: Sequence[str] = (),
        number: int | None = None,
        *,
        pipeline: str = "query",
        sink: str = "out",
    ) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self.stub = engine_pb2_grpc.EngineServiceStub(self._channel)
        self.run = run
        self.number = int(run.removeprefix("r")) if number is None else number
        self._reported = False
        self.first_batch = first_batch
        self.readers = readers
        self.pipeline = pipeline
        self.sink = sink

    def part(self, batch: int, partition: int = 0, attempt: str = "a") -> sink_pb2.Part:
        return part(batch, partition, f"{self.run}/{attempt}", self.pipeline)

    def start(self, batch: int, partition: int = 0, attempt: str = "a") -> engine_pb2.DeliveryStart:
        """How a delivery of a part begins."""
        return engine_pb2.DeliveryStart(sink=self.sink, part=self.part(batch, partition, attempt), run_number=self.number)

    def deliver(
        self, batch: int, values: Sequence[bytes] = (b"v",), partition: int = 0, attempt: str = "a", **start: Any
    ) -> "asyncio.Task[engine_pb2.DeliverResponse]":
        """Delivers a part of one frame; reports its commit log first, if it has not yet."""
        return self._deliver(self.part(batch, partition, attempt), [frame(0, 0, values)], len(values), **start)

    def deliver_frames(
        self, batch: int, values: Sequence[bytes], partition: int = 0
    ) -> "asyncio.Task[engine_pb2.DeliverResponse]":
        """Delivers a part whose rows are a frame each."""
        return self._deliver(self.part(batch, partition), [frame(0, n, [value]) for n, value in enumerate(values)], len(values))

    def deliver_frames_held(
        self, batch: int, values: Sequence[bytes], rest: asyncio.Event, partition: int = 0
    ) -> "asyncio.Task[engine_pb2.DeliverResponse]":
        """As `deliver_frames`, but all after the first frame only once `rest` is set."""

        async def requests() -> AsyncIterator[engine_pb2.DeliverRequest]:
            frames = (frame(0, n, [value]) for n, value in enumerate(values))
            yield engine_pb2.DeliverRequest(start=self.start(batch, partition))
            yield engine_pb2.DeliverRequest(frame=next(frames))
            await rest.wait()
            for each in frames:
                yield engine_pb2.DeliverRequest(frame=each)
            yield engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=len(values)))

        return asyncio.ensure_future(self._present(self.stub.Deliver, requests()))

    def deliver_packed(self, part: sink_pb2.Part, rows: Frame) -> "asyncio.Task[engine_pb2.DeliverResponse]":
        """Delivers a part of one frame that is packed already."""
        return self._deliver(part, [rows], rows.count)

    def _deliver(
        self, part: sink_pb2.Part, frames: Sequence[Frame], messages: int, **start: Any
    ) -> "asyncio.Task[engine_pb2.DeliverResponse]":
        start.setdefault("run_number", self.number)
        requests = [
            engine_pb2.DeliverRequest(start=engine_pb2.DeliveryStart(sink=self.sink, part=part, **start)),
            *(engine_pb2.DeliverRequest(frame=each) for each in frames),
            engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=messages)),
        ]
        return asyncio.ensure_future(self._present(self.stub.Deliver, iter(requests)))

    def vote(self, batch: int, *parts: sink_pb2.Part, instances: Sequence[str] = ()) -> "asyncio.Task[engine_pb2.VoteResponse]":
        """Asks for the vote; reports its commit log first, if it has not yet."""
        request = engine_pb2.VoteRequest(
            sink=self.sink,
            transaction=transaction(batch, self.pipeline),
            parts=parts or [self.part(batch)],
            instances=instances,
            run_number=self.number,
        )
        return asyncio.ensure_future(self._present(self.stub.Vote, request))

    def assume_others_reported(self) -> None:
        """Sends deliveries and votes although this run has reported nothing."""
        self._reported = True

    async def _present(self, call: Any, request: Any) -> Any:
        if not self._reported:
            await self.report_commits()
        return await call(request, timeout=DEADLINE_S)

    async def report_commits(self, committed: int | None = None, **more: Any) -> int:
        """Reports the commit log; returns how many transactions in it are not visible yet."""
        return (await self.commit_report(committed, **more)).pending

    async def commit_report(self, committed: int | None = None, **more: Any) -> engine_pb2.ReportCommitsResponse:
        """Reports the commit log; returns the answer."""
        self._reported = True
        request = engine_pb2.ReportCommitsRequest(
            pipeline=self.pipeline,
            run=self.run,
            first_batch=self.first_batch,
            committed=committed,
            readers=self.readers,
            run_number=self.number,
            **{"sinks": [self.sink], "awaited": [self.sink], **more},
        )
        response = await self.stub.ReportCommits(request, timeout=DEADLINE_S)
        assert isinstance(response, engine_pb2.ReportCommitsResponse)
        return response

    async def close(self) -> None:
        await self._channel.close()


async def stage_and_vote(sink: SinkClient, writer: Writer, batch: int) -> None:
    """Brings a batch of one part up to the vote."""
    delivery = writer.deliver(batch)
    await sink.take_part()
    await delivery
    vote = writer.vote(batch)
    await sink.vote()
    await vote


@asynccontextmanager
async def sink_and_source(
    address: str, committed: int | None = None
) -> AsyncIterator[tuple[SinkClient, Writer, Connector, Engine]]:
    """Sink `out` and a query that writes to it, and reads stream orders/0 of a source, which is open as stream 1."""
    sink, writer = SinkClient(address), Writer(address, readers=["p"])
    source, reader = Connector(address), Engine(address)
    await sink.hello()
    await source.hello()
    await reader.attach()
    await source.open()
    await source.expect("stream_opened")
    await writer.report_commits(committed)
    yield sink, writer, source, reader
    for client in (sink, writer, source, reader):
        await client.close()
