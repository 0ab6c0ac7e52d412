"""Connectors and queries that are well, to which a fault happens: a message that waits because of it, a sink of results."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import grpc.aio
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Engine
from tests.health.site import Site

from headrace.sdk import AsyncSink, AsyncSource, IdempotentSink, Message, Position, Settings, Sink, serve

SENT_S = 120
"""How long a connector may take to send its first message, in seconds."""


class One(AsyncSource):
    """A source whose only partition has one message."""

    def __init__(self, name: str, partition: str = "0") -> None:
        self.name, self._partition = name, partition

    async def partitions(self) -> Sequence[str]:
        return (self._partition,)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | None]:
        if position is None or position.sequence < 1:
            yield Message(b"the only one")
        while True:
            yield None


@asynccontextmanager
async def querying(here: Site, name: str, *, pipeline: str = "", skip_lost: bool = False, run: int = 1) -> AsyncIterator[Engine]:
    """A query that reads a source, and calls as a planner does, so that its lease does not end."""
    engine = Engine(here.address, pipeline or f"reads-{name}", run, f"{name}/*", skip_lost=skip_lost)
    await engine.attach()

    async def call() -> None:
        while True:
            with suppress(grpc.aio.AioRpcError):
                await engine.renew()
            await asyncio.sleep(0.5)

    calls = asyncio.create_task(call())
    try:
        yield engine
    finally:
        calls.cancel()
        with suppress(asyncio.CancelledError):
            await calls
        await engine.detach()
        await engine.close()


@asynccontextmanager
async def connected(here: Site, made: AsyncSource, stream: str, gateway: str = "") -> AsyncIterator[None]:
    """A connector that is well, and has sent the first message of its stream."""
    task = asyncio.create_task(serve(made, gateway=gateway or here.address))
    engine = Engine(here.address)
    try:
        async with asyncio.timeout(SENT_S):
            while not await _has_sent(engine, stream):
                assert not task.done(), task.exception()
                await asyncio.sleep(0.05)
        yield
    finally:
        await engine.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _has_sent(engine: Engine, stream: str) -> bool:
    return any(each.stream == stream and each.received.sequence for each in (await engine.status()).streams)


@asynccontextmanager
async def writing(here: Site, name: str) -> AsyncIterator[Writer]:
    """A query that writes to a sink, and reads stream `<name>/0`, whose message waits for it."""
    pipeline = f"writes-{name}"
    writer = Writer(here.address, readers=[pipeline], pipeline=pipeline, sink=name)

    async def report() -> None:
        while True:
            await asyncio.sleep(0.5)
            await writer.report_commits()

    async with querying(here, name, pipeline=pipeline), connected(here, One(name), f"{name}/0"):
        await writer.report_commits()
        reports = asyncio.create_task(report())
        try:
            yield writer
        finally:
            reports.cancel()
            await asyncio.gather(reports, return_exceptions=True)
            await writer.close()


@asynccontextmanager
async def attached(
    here: Site, sink: AsyncSink | IdempotentSink | Sink, settings: Settings | None = None
) -> AsyncIterator[Writer]:
    """A sink that is served, and a query that writes to it."""
    task = asyncio.create_task(serve(sink, gateway=here.address, settings=settings))
    try:
        async with writing(here, sink.name) as writer:
            yield writer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
