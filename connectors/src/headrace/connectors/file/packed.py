"""Opens compressed files by their suffixes. Those other than gzip are read by codecs of other libraries."""

import io
import lzma
import os
from pathlib import PurePath
from typing import BinaryIO, cast

from headrace.connectors.file.gzip import Gzip
from headrace.connectors.file.unpacked import Damaged, Unpacked

# What is decompressed at a time: what precedes damage is given to within this.
_STEP_BYTES = 4096
_CODECS = {".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def unpacking(path: PurePath, file: io.FileIO) -> BinaryIO:
    """Returns the decompressed bytes of an open file, by the suffix of its name."""
    return cast("BinaryIO", Gzip(file) if path.suffix == ".gz" else _Stream(path.suffix, file))


class _Stream(Unpacked):
    """The decompressed bytes of a zstd, bzip2, lz4 or xz file, of any number of frames."""

    def __init__(self, suffix: str, file: io.FileIO) -> None:
        super().__init__(file)
        self._suffix = suffix
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._ended_at = -1
        if self._suffix == ".xz":
            self._unpacked: BinaryIO = cast("BinaryIO", lzma.LZMAFile(self._file))  # noqa: SIM115 - its file is closed
            return
        # Imported only when needed: it is large.
        import pyarrow as pa

        self._unpacked = cast("BinaryIO", pa.CompressedInputStream(_Unowned(self._file), _CODECS[self._suffix]))

    def _next(self, at_most: int) -> bytes:
        size = os.fstat(self._file.fileno()).st_size
        # An empty file is no damaged one, and no codec reads what was appended after it has reported the end.
        if size in (0, self._ended_at):
            return b""
        if self._ended_at >= 0:
            self._again()
        try:
            piece = self._unpacked.read(min(_STEP_BYTES, at_most))
            self._ended_at = -1 if piece else size
            return piece
        except (EOFError, OSError, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise self._damage(error) from error

    def _damage(self, error: Exception) -> Damaged:
        """Returns the error of damaged data. A record that is cut short is read again from its beginning: it may have grown."""
        cut_short = isinstance(error, EOFError) or "Truncated" in str(error)
        if cut_short:
            self._again()
        return Damaged("it ends within compressed data" if cut_short else str(error), cut_short=cut_short)

    def _again(self) -> None:
        """Reads again from the beginning, up to this place."""
        at, self._at = self._at, 0
        self._rewind()
        self.seek(at)


class _Unowned(io.RawIOBase):
    """A file that stays open when the stream around it is closed."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)
