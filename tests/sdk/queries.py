"""Queries as Spark runs them, with their checkpoints: what they read and write survives the gateway."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
import grpc.aio
from tests.gateway.wire import Engine, frame
from tests.sdk.processes import DEADLINE_S

from headrace.protocol.v1 import engine_pb2, engine_pb2_grpc, sink_pb2
from headrace.protocol.v1.frame_pb2 import Position
from headrace.sdk import Message, decode_frame

T = TypeVar("T")

_AWAY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


class Reader:
    """A query that reads one stream."""

    def __init__(self, gateway: str, stream: str) -> None:
        self._engine = Engine(gateway, streams=stream)
        self._stream = stream
        self._committed: dict[str, Position] = {}
        self.messages: list[Message] = []

    @property
    def values(self) -> list[bytes]:
        """The values of the committed messages."""
        return [message.value or b"" for message in self.messages]

    @property
    def committed(self) -> Position:
        """The position that is in the checkpoint."""
        return self._committed.get(self._stream, Position())

    async def read(self, count: int) -> None:
        """Runs micro-batches until it has committed `count` messages."""
        await self.read_until(lambda: len(self.messages) >= count)

    async def read_until(self, enough: Callable[[], bool]) -> None:
        """Runs micro-batches until it has committed enough."""
        async with asyncio.timeout(DEADLINE_S):
            while not enough():
                try:
                    await self._batch()
                except grpc.aio.AioRpcError as error:
                    if error.code() not in _AWAY:
                        raise
                    await self._attach()

    async def acknowledge(self) -> None:
        """Has the gateway learn of the last commit, as the planning of the next batch does."""
        await self._engine.plan(self._committed, wait_ms=0)

    async def close(self) -> None:
        await self._engine.close()

    async def _attach(self) -> None:
        try:
            await self._engine.attach(committed=self._committed)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _AWAY:
                raise

    async def _batch(self) -> None:
        start = self._committed.get(self._stream)
        planned = await self._engine.plan(self._committed, wait_ms=200, max_messages=100)
        for part in planned.ranges:
            frames = await self._engine.fetch(self._stream, start, part.end, progress_timeout_ms=5000)
            messages = [message for found in frames for message in decode_frame(found)]
            # Messages before the start of an epoch are in another one.
            first = start.sequence if start is not None and start.epoch == part.end.epoch else -1
            self.messages += [m for m in messages if first < (m.sequence or 0) <= part.end.sequence]
            self._committed[self._stream] = part.end


class Writer:
    """A run of a query that writes to a sink, in two tasks for each micro-batch."""

    def __init__(self, gateway: str, sink: str, run: int = 1, committed: int | None = None) -> None:
        self._channel = grpc.aio.insecure_channel(gateway)
        self._stub = engine_pb2_grpc.EngineServiceStub(self._channel)
        self._sink = sink
        self._run = run
        self._first = 0 if committed is None else committed + 1
        self._tries = 0
        self.committed = committed

    async def stage(self, batch: int, values: Sequence[bytes]) -> list[sink_pb2.Part]:
        """Delivers a batch, every second value by each task, again until the sink holds it; returns its parts."""
        return [await self.retried(lambda n=n: self._deliver(batch, n, values[n::2])) for n in range(2)]

    async def begin(self, batch: int, values: Sequence[bytes]) -> Callable[[], object]:
        """Delivers a part without its end; returns what cancels that."""
        await self._report()
        part = self._new_part(batch, 0)
        call = self._stub.Deliver(timeout=DEADLINE_S)
        start = engine_pb2.DeliveryStart(sink=self._sink, part=part, run_number=self._run)
        await call.write(engine_pb2.DeliverRequest(start=start))
        await call.write(engine_pb2.DeliverRequest(frame=frame(0, 0, values)))
        return call.cancel

    async def vote(self, batch: int, parts: Sequence[sink_pb2.Part]) -> None:
        """Asks for the vote."""
        request = engine_pb2.VoteRequest(
            sink=self._sink, transaction=sink_pb2.Transaction(pipeline="query", batch=batch), parts=parts, run_number=self._run
        )
        await self._stub.Vote(request, timeout=DEADLINE_S)

    async def commit(self, batch: int) -> None:
        """Has a batch in its commit log, and waits until the sink shows it."""
        self.committed = batch
        async with asyncio.timeout(DEADLINE_S):
            while (await self.retried(self._report)).pending:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.02)

    async def write(self, batch: int, values: Sequence[bytes]) -> None:
        """Stages, votes and commits."""
        await self.vote(batch, await self.stage(batch, values))
        await self.commit(batch)

    async def close(self) -> None:
        await self._channel.close()

    async def _deliver(self, batch: int, partition: int, values: Sequence[bytes]) -> sink_pb2.Part:
        await self._report()
        part = self._new_part(batch, partition)
        requests = [
            engine_pb2.DeliverRequest(start=engine_pb2.DeliveryStart(sink=self._sink, part=part, run_number=self._run)),
            engine_pb2.DeliverRequest(frame=frame(0, 0, values)),
            engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=len(values))),
        ]
        await self._stub.Deliver(iter(requests), timeout=DEADLINE_S)
        return part

    def _new_part(self, batch: int, partition: int) -> sink_pb2.Part:
        self._tries += 1
        transaction = sink_pb2.Transaction(pipeline="query", batch=batch)
        return sink_pb2.Part(transaction=transaction, partition=partition, attempt=f"r{self._run}/{self._tries}")

    async def _report(self) -> engine_pb2.ReportCommitsResponse:
        request = engine_pb2.ReportCommitsRequest(
            pipeline="query",
            run=f"r{self._run}",
            run_number=self._run,
            first_batch=self._first,
            committed=self.committed,
            sinks=[self._sink],
        )
        return await self._stub.ReportCommits(request, timeout=DEADLINE_S)

    async def retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls again while the gateway is away."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    return await call()
                except grpc.aio.AioRpcError as error:
                    if error.code() not in _AWAY:
                        raise
                    await asyncio.sleep(0.05)
