"""Buffers the rows of parts until it is known which parts count."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk.sinks.file import FrameFile, Place
from headrace.sdk.sinks.rows import Rows


class Hold:
    """The memory budget that all parts share."""

    def __init__(self, limit: int) -> None:
        """Allows up to `limit` bytes in memory."""
        self.limit = limit
        self.bytes = 0


class HeldPart:
    """The rows of a part: in memory as far as they fit, and the rest in a temporary file."""

    def __init__(self, hold: Hold) -> None:
        """Begins without rows."""
        self._hold = hold
        self._frames: list[Frame] = []
        self._bytes = 0
        self._file = FrameFile()
        self._places: list[Place] = []
        self.messages = 0

    async def add(self, rows: Rows) -> None:
        """Appends rows."""
        size = rows.frame.ByteSize()
        if not self._places and self._hold.bytes + size <= self._hold.limit:
            self._frames.append(rows.frame)
            self._bytes += size
            self._hold.bytes += size
        else:
            self._places.append(await asyncio.to_thread(self._file.write, rows.frame))
        self.messages += len(rows)

    def rows(self) -> Iterator[Rows]:
        """Yields all rows, in order."""
        yield from map(Rows, self._frames)
        yield from map(self._file.read, self._places)

    async def rows_on_loop(self) -> AsyncIterator[Rows]:
        """Yields all rows, in order, without blocking the event loop."""
        for frame in self._frames:
            yield Rows(frame)
        for place in self._places:
            yield await asyncio.to_thread(self._file.read, place)

    def release(self) -> None:
        """Deletes all rows, and returns their memory to the budget."""
        self._hold.bytes -= self._bytes
        self._frames, self._bytes, self._places = [], 0, []
        self._file.close()
