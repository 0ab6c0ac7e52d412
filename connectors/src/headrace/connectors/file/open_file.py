"""An open file of a stream: reads it as long as it has what was read before."""

import os
import time
from typing import BinaryIO

from headrace.connectors.file._names import is_packed
from headrace.connectors.file.mark import HEAD_BYTES, TAIL_BYTES
from headrace.connectors.file.parts import Part
from headrace.connectors.file.unpacked import Damaged

# A little below the SDK's frame size, so that what is read together becomes one frame.
_CHUNK_BYTES = 256 * 1024


class OpenFile:
    """An open file, and what identifies what was read of it. The latter remains when it is closed."""

    def __init__(self, part: Part, offset: int, *, waits_for_rest: bool) -> None:
        """Opens a file, to continue just past what was read of it.

        Args:
            part: The file.
            offset: The number of bytes that were read.
            waits_for_rest: Whether compressed data that ends too early may still be written.

        Raises:
            OSError: It cannot be opened.
        """
        file = part.open()
        try:
            self.head = file.read(min(HEAD_BYTES, offset))
            """The first bytes that were read."""
            file.seek(max(0, offset - TAIL_BYTES))
            self.tail = file.read(min(TAIL_BYTES, offset))
            """The last bytes that were read and belong to complete records."""
        except BaseException:
            file.close()
            raise
        self._file: BinaryIO = file
        self._last = self.tail
        self._is_packed = is_packed(part.path)
        self._waits_for_rest = waits_for_rest
        self._unchanged: tuple[int, float] = (-1, 0.0)
        self.is_cut_short = False
        """Whether its compressed data ends too early, so far."""

    @property
    def is_open(self) -> bool:
        """Whether it is not closed."""
        return not self._file.closed

    @property
    def descriptor(self) -> int:
        """Its descriptor."""
        return self._file.fileno()

    def close(self) -> None:
        """Closes it."""
        self._file.close()

    def read(self, rotated_seconds: float) -> bytes:
        """Reads the next data; empty at its end, or if it was overwritten.

        Args:
            rotated_seconds: How long compressed data that ends too early must be unchanged to count as damaged, in seconds.

        Raises:
            Damaged: The rest cannot be decompressed.
        """
        self.is_cut_short = False
        try:
            chunk = self._file.read(_CHUNK_BYTES)
        except Damaged as damage:
            # A file that is being written also ends too early until it is complete.
            may_grow = self._waits_for_rest and damage.cut_short
            self.is_cut_short = may_grow and not self.has_not_grown(self.stat(), rotated_seconds)
            if not self.is_cut_short:
                raise
            return b""
        if not chunk:
            return b""
        same = False
        try:
            # A file that was truncated and has grown again may be as long as before, but has other data.
            same = self._is_same(len(chunk))
        finally:
            if not same:
                self._file.seek(-len(chunk), os.SEEK_CUR)
        if not same:
            return b""
        self._last = chunk[-TAIL_BYTES:] if len(chunk) >= TAIL_BYTES else (self._last + chunk)[-TAIL_BYTES:]
        return chunk

    def passed(self, data: bytes, end: int) -> None:
        """Notes the bytes before `end` as read, so that the file can be recognised."""
        if len(self.head) < HEAD_BYTES:
            self.head += data[: min(end, HEAD_BYTES - len(self.head))]
        self.tail = (self.tail + data[max(0, end - TAIL_BYTES) : end])[-TAIL_BYTES:]

    def stat(self) -> os.stat_result:
        """Returns its status."""
        return os.fstat(self._file.fileno())

    def is_overwritten(self, size: int) -> bool:
        """Returns whether it no longer has all that was read; `size` is its present size."""
        return size < self._file.tell() or not self._is_same()

    def has_not_grown(self, stat: os.stat_result, seconds: float) -> bool:
        """Returns whether it has been unchanged for this time."""
        now = time.monotonic()
        if self._unchanged[0] != stat.st_size:
            self._unchanged = stat.st_size, now
        return max(now - self._unchanged[1], time.time() - stat.st_mtime) >= seconds

    def _is_same(self, just_read: int = 0) -> bool:
        """Returns whether it still has the data that was read, at its beginning and just before the place."""
        if self._is_packed:
            return True
        descriptor, end = self._file.fileno(), self._file.tell() - just_read
        if self.head and os.pread(descriptor, len(self.head), 0) != self.head:
            return False
        return not self._last or os.pread(descriptor, len(self._last), end - len(self._last)) == self._last
