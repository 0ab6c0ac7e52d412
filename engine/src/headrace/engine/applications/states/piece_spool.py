"""Pieces of states until their file is written: in memory up to a limit, then in a temporary file."""

import os
import tempfile
from collections.abc import Iterator
from typing import IO

from headrace.machine.resources import named_folder

MEMORY_BYTES = 16 * 2**20
_Place = tuple[int, int]
"""The offset of a piece in the temporary file, and its size, in bytes."""


class PieceSpool:
    """Numbered pieces, of which a piece may be replaced and removed."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes | _Place] = {}
        self._memory_bytes = 0
        self._file: IO[bytes] | None = None
        self._end = 0

    def __contains__(self, number: int) -> bool:
        return number in self._pieces

    def __iter__(self) -> Iterator[int]:
        return iter(self._pieces)

    def put(self, number: int, piece: bytes) -> None:
        """Keeps a piece under a number, instead of the one before.

        Raises:
            OSError: The temporary file cannot be written.
        """
        self.drop(number)
        if self._memory_bytes + len(piece) <= MEMORY_BYTES:
            self._pieces[number] = piece
            self._memory_bytes += len(piece)
            return
        with named_folder():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="headrace-states-")  # noqa: SIM115
            left = memoryview(piece)
            while left:
                left = left[os.pwrite(self._file.fileno(), left, self._end + len(piece) - len(left)) :]
        self._pieces[number] = (self._end, len(piece))
        self._end += len(piece)

    def get(self, number: int) -> bytes:
        """The piece with a number.

        Raises:
            KeyError: There is none.
            OSError: The temporary file cannot be read.
        """
        piece = self._pieces[number]
        if isinstance(piece, bytes):
            return piece
        assert self._file is not None, "a place is in the file"
        offset, size = piece
        read = b""
        while len(read) < size:
            if not (some := os.pread(self._file.fileno(), size - len(read), offset + len(read))):
                raise OSError(f"a temporary file of states ends {size - len(read)} bytes early")
            read += some
        return read

    def drop(self, number: int) -> None:
        """Removes a piece, if there is one."""
        piece = self._pieces.pop(number, b"")
        if isinstance(piece, bytes):
            self._memory_bytes -= len(piece)
