"""A query that reads what a connector gives, batch by batch, and commits when the test asks for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.gateway.wire import DEADLINE_S, Engine

from headrace.protocol.v1.frame_pb2 import Position
from headrace.sdk import AsyncSource, Message, Source, decode_frame, serve


class Query:
    """One run of a query, attached to a gateway."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._committed: dict[str, Position] = {}
        self._read: dict[str, Position] = {}

    async def batch(self, stream: str, count: int) -> list[Message]:
        """Plans until a batch has `count` messages of a stream, and reads them."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                planned = await self._engine.plan(self._committed, wait_ms=200)
                found = {each.stream: each for each in planned.ranges}
                if stream in found and found[stream].messages >= count:
                    break
        end = found[stream].end
        frames = await self._engine.fetch(stream, self._committed.get(stream), end)
        self._read[stream] = end
        return [message for frame in frames for message in decode_frame(frame)]

    async def values(self, stream: str, count: int) -> list[bytes | None]:
        """The values of such a batch."""
        return [message.value for message in await self.batch(stream, count)]

    async def until_alone(self) -> None:
        """Waits until the gateway has noticed that the connectors are gone, so that it serves no more of what they sent."""
        async with asyncio.timeout(DEADLINE_S):
            while (await self._engine.status()).sessions:
                pass

    async def commit(self) -> None:
        """The checkpoint contains now what was read."""
        self._committed |= self._read
        self._read.clear()
        await self._engine.plan(self._committed, wait_ms=0)


@asynccontextmanager
async def querying(address: str, streams: str) -> AsyncIterator[Query]:
    """A query that reads streams of a gateway."""
    engine = Engine(address, streams=streams)
    await engine.attach()
    try:
        yield Query(engine)
    finally:
        await engine.close()


@asynccontextmanager
async def serving(source: Source | AsyncSource, address: str) -> AsyncIterator["asyncio.Task[None]"]:
    """Streams a source into a gateway, and ends it as a crash would: without waiting for acknowledgements."""
    task = asyncio.create_task(serve(source, gateway=address))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
