"""The decompressed bytes of a file, up to the point where it is damaged, whatever it is compressed with."""

import io
from abc import abstractmethod

_STEP_BYTES = 256 * 1024


class Damaged(OSError):
    """The following data cannot be decompressed.

    Attributes:
        cut_short: Whether the file ends within compressed data, so that more may follow.
    """

    def __init__(self, why: str, *, cut_short: bool) -> None:
        """Creates the error with its reason."""
        super().__init__(why)
        self.cut_short = cut_short


class Unpacked(io.RawIOBase):
    """The decompressed bytes of a file. Seeking backwards reads it again from the beginning."""

    def __init__(self, file: io.FileIO) -> None:
        """Takes an open file, which is closed with this."""
        self._file = file
        self._at = 0

    @abstractmethod
    def _rewind(self) -> None:
        """Starts decompression again at the first byte."""

    @abstractmethod
    def _next(self, at_most: int) -> bytes:
        """Decompresses some more; empty at the end.

        Raises:
            Damaged: The next data is damaged.
        """

    def read(self, size: int = -1) -> bytes:
        """Reads up to `size` bytes, or all: fewer only at the end of the file, or before damaged data.

        Raises:
            Damaged: The next data is damaged.
        """
        pieces: list[bytes] = []
        left = size if size >= 0 else 1 << 62
        try:
            while left and (piece := self._next(left)):
                pieces.append(piece)
                self._at += len(piece)
                left -= len(piece)
        except Damaged:
            if not pieces:
                raise
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seeks to an offset, in decompressed bytes.

        Raises:
            Damaged: The offset is after damaged data.
        """
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        if offset < self._at:
            self._at = 0
            self._rewind()
        while self._at < offset and self.read(min(_STEP_BYTES, offset - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        """Returns the offset."""
        return self._at

    def fileno(self) -> int:
        """Returns the descriptor of the compressed file."""
        return self._file.fileno()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        super().close()
