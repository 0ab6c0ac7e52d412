"""Keeps the rows of parts until it is known which of them count."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from struct import Struct
from typing import IO

from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk._sink_rows import Rows

_LENGTH = Struct("<I")


class Hold:
    """How much all parts together may keep in memory."""

    def __init__(self, limit: int) -> None:
        """Keeps up to `limit` bytes in memory."""
        self.limit = limit
        self.bytes = 0


class HeldPart:
    """The rows of a part: the first ones in memory, what finds no room there in a temporary file."""

    def __init__(self, hold: Hold) -> None:
        """Begins without rows."""
        self._hold = hold
        self._frames: list[Frame] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self.messages = 0

    async def add(self, rows: Rows) -> None:
        """Keeps rows."""
        size = rows.frame.ByteSize()
        if self._file is None and self._hold.bytes + size <= self._hold.limit:
            self._frames.append(rows.frame)
            self._bytes += size
            self._hold.bytes += size
        else:
            await asyncio.to_thread(self._write, rows.frame)
        self.messages += len(rows)

    def rows(self) -> Iterator[Rows]:
        """All rows, in order."""
        yield from map(Rows, self._frames)
        if self._file is not None:
            self._file.seek(0)
            while (rows := self._read()) is not None:
                yield rows

    async def rows_on_loop(self) -> AsyncIterator[Rows]:
        """The same, without blocking the event loop."""
        for frame in self._frames:
            yield Rows(frame)
        if self._file is not None:
            await asyncio.to_thread(self._file.seek, 0)
            while (rows := await asyncio.to_thread(self._read)) is not None:
                yield rows

    def release(self) -> None:
        """Forgets everything."""
        self._hold.bytes -= self._bytes
        self._frames, self._bytes = [], 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, frame: Frame) -> None:
        """Appends a frame to the file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="headrace-")  # noqa: SIM115 - closed by `release`
        data = frame.SerializeToString()
        self._file.write(_LENGTH.pack(len(data)))
        self._file.write(data)

    def _read(self) -> Rows | None:
        """The next frame of the file."""
        assert self._file is not None
        prefix = self._file.read(_LENGTH.size)
        return Rows(Frame.FromString(self._file.read(*_LENGTH.unpack(prefix)))) if prefix else None
