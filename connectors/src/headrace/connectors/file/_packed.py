"""Reads compressed files other than gzip: zstd, bzip2, lz4 and xz, each up to the point where it is damaged."""

import io
import lzma
from pathlib import PurePath
from typing import BinaryIO, cast

from headrace.connectors.file._gzip import Damaged, Unpacked

# What is decompressed at a time: what precedes damage is given to within this.
_STEP_BYTES = 4096
_CODECS = {".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def unpacking(path: PurePath, file: io.FileIO) -> BinaryIO:
    """Returns the decompressed bytes of an open file, by the suffix of its name."""
    if path.suffix == ".gz":
        return cast("BinaryIO", Unpacked(file))
    return cast("BinaryIO", _Stream(path.suffix, file))


class _Stream(io.RawIOBase):
    """The decompressed bytes of a file. Seeking backwards reads it again from the beginning."""

    def __init__(self, suffix: str, file: io.FileIO) -> None:
        self._suffix = suffix
        self._file = file
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._at = 0
        if self._suffix == ".xz":
            self._unpacked: BinaryIO = cast("BinaryIO", lzma.LZMAFile(self._file))  # noqa: SIM115 - its file is closed
            return
        # Imported only when needed: it is large.
        import pyarrow as pa

        self._unpacked = cast("BinaryIO", pa.CompressedInputStream(_Unowned(self._file), _CODECS[self._suffix]))

    def read(self, size: int = -1) -> bytes:
        """Reads up to `size` bytes, or all: fewer only at the end of the file, or before damaged data.

        Raises:
            Damaged: The next data is damaged.
        """
        pieces: list[bytes] = []
        left = size if size >= 0 else 1 << 62
        try:
            while left and (piece := self._unpacked.read(min(_STEP_BYTES, left))):
                pieces.append(piece)
                self._at += len(piece)
                left -= len(piece)
        except (EOFError, OSError, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            if not pieces:
                raise self._damage(error) from error
        return b"".join(pieces)

    def _damage(self, error: Exception) -> Damaged:
        """Returns the error of damaged data. What is cut short is read again from the beginning, since it may have grown."""
        cut_short = isinstance(error, EOFError) or "Truncated" in str(error)
        if cut_short:
            at = self._at
            self._rewind()
            self.seek(at)
        return Damaged("it ends within compressed data" if cut_short else str(error), cut_short=cut_short)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seeks to an offset, in decompressed bytes.

        Raises:
            Damaged: The offset is after damaged data.
        """
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(min(1 << 20, offset - self._at)):
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


class _Unowned(io.RawIOBase):
    """A file that stays open when the stream around it is closed."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)
