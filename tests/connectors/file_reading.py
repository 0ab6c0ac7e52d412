"""The items that a file source reads of a folder, one by one, without a gateway."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from headrace.connectors import FileSource
from headrace.sdk import Batch, Position
from headrace.sdk.wire import pack

DEADLINE_S = 150.0


def values_of(batch: Batch) -> list[bytes]:
    """The values of a batch."""
    columns = pack([batch], 1, None)
    return [columns.values.data[start:end] for start, end in pairwise(columns.values.ends)]


class Reading:
    """Reads the streams of a source at the same time, and looks for new ones, as a session does."""

    def __init__(self, source: FileSource, positions: dict[str, Position] | None = None) -> None:
        """Starts nothing yet.

        Args:
            source: The source.
            positions: Where each stream continues; what is read moves them on.
        """
        self.source = source
        self.positions = {} if positions is None else positions
        self.found: dict[str, list[bytes]] = {}
        self.errors: dict[str, Exception] = {}
        self.yielded = 0
        self._readings: dict[str, asyncio.Task[None]] = {}

    @property
    def values(self) -> list[bytes]:
        """All values, stream by stream."""
        return [value for values in self.found.values() for value in values]

    async def until(self, holds: Callable[["Reading"], bool], seconds: float = DEADLINE_S) -> "Reading":
        """Reads until a condition holds; the first error of a stream is raised."""
        async with asyncio.timeout(seconds):
            while not holds(self):
                for partition in await self.source.partitions():
                    if partition not in self._readings:
                        self._readings[partition] = asyncio.create_task(self._read(partition))
                for task in list(self._readings.values()):
                    if task.done() and task.exception() is not None:
                        await task
                await asyncio.sleep(0.01)
        return self

    async def has(self, *values: bytes) -> "Reading":
        """Reads until there are at least these values."""
        return await self.until(lambda reading: set(values) <= set(reading.values))

    async def looks(self, count: int = 30) -> "Reading":
        """Looks for files `count` times, while everything that is found is read."""
        left = iter(range(count))
        return await self.until(lambda _: next(left, None) is None)

    async def stop(self) -> None:
        """Ends all reading, as a lost session does."""
        for task in self._readings.values():
            task.cancel()
        await asyncio.gather(*self._readings.values(), return_exceptions=True)
        self._readings.clear()

    async def _read(self, partition: str) -> None:
        found = self.found.setdefault(partition, [])
        items: Any = self.source.read(partition, self.positions.get(partition))
        try:
            async for item in items:
                self.yielded += 1
                if isinstance(item, Batch):
                    found += values_of(item)
                    columns = pack([item], 1, None)
                    self.positions[partition] = Position(sequence=columns.sequences[-1], cursor=item.cursor)
                await asyncio.sleep(0)
        finally:
            await items.aclose()
