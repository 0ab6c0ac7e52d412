"""A pipeline without Spark that reads the streams of the pages' programs, and commits on request."""

import asyncio
from collections import defaultdict

from tests.gateway.wire import Engine, values_of

from headrace.protocol.v1.frame_pb2 import Position

DEADLINE_S = 150.0


class Reader:
    """Reads every stream of a gateway."""

    def __init__(self, address: str) -> None:
        self._engine = Engine(address, "docs", streams="*/*")
        self._committed: dict[str, Position] = {}
        self._begun: dict[str, Position] = {}
        self.values: dict[str, list[bytes]] = defaultdict(list)

    async def attach(self) -> None:
        """Lets streams begin."""
        await self._engine.attach()

    async def read(self, stream: str, count: int) -> list[bytes]:
        """The first values of a stream, none of them committed."""
        async with asyncio.timeout(DEADLINE_S):
            end = None
            while len(self.values[stream]) < count:
                for planned in (await self._engine.plan(self._begun, wait_ms=200)).ranges:
                    if planned.start:
                        self._begun[planned.stream] = planned.end
                    elif planned.stream == stream and planned.end != end:
                        end = planned.end
                        self.values[stream] = values_of(await self._engine.fetch(stream, self._begun.get(stream), end))
            assert end is not None
            self._committed[stream] = end
        return self.values[stream]

    async def commit(self) -> None:
        """Commits everything that was read."""
        await self._engine.plan(self._committed, wait_ms=0)

    async def close(self) -> None:
        """Goes away."""
        await self._engine.close()
