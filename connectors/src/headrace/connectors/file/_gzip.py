"""Reads gzip files up to the point where they are damaged: the module `gzip` drops the data just before it."""

import io
import zlib

_PACKED_BYTES = 64 * 1024
_UNPACKED_BYTES = 256 * 1024
_GZIP = 31
"""The zlib setting for a gzip member, with header and checksum."""


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
    """The decompressed bytes of a gzip file. Seeking backwards reads it again from the beginning."""

    def __init__(self, file: io.FileIO) -> None:
        """Takes an open file, which is closed with this."""
        self._file = file
        self._packed = self._ahead = b""
        self._at = 0
        self._rewind()

    def read(self, size: int = -1) -> bytes:
        """Reads up to `size` bytes, or all: fewer only at the end of the file, or before damaged data.

        Raises:
            Damaged: The next data is damaged.
        """
        pieces: list[bytes] = []
        left = size if size >= 0 else 1 << 62
        while left and (self._ahead or self._unpack()):
            piece = self._ahead[:left]
            self._ahead = self._ahead[len(piece) :]
            pieces.append(piece)
            left -= len(piece)
        self._at += sum(map(len, pieces))
        if not pieces and left and self._damage is not None:
            raise self._damage
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seeks to an offset, in decompressed bytes.

        Raises:
            Damaged: The offset is after damaged data.
        """
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(min(_UNPACKED_BYTES, offset - self._at)):
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

    def _rewind(self) -> None:
        """Starts again at the first byte."""
        self._file.seek(0)
        self._decoder = zlib.decompressobj(_GZIP)
        self._begun = self._ended = False
        self._packed = self._ahead = b""
        self._at = 0
        self._damage: Damaged | None = None

    def _unpack(self) -> bool:
        """Decompresses some more; False at the end, or at damaged data."""
        while not self._ahead:
            if self._damage is not None and not self._damage.cut_short:
                return False
            if not self._packed:
                self._packed = self._file.read(_PACKED_BYTES) or b""
                if not self._packed:
                    self._damage = Damaged("it ends within compressed data", cut_short=True) if self._begun else None
                    return False
            if not self._begun:
                self._packed = self._packed.lstrip(b"\0") if self._ended else self._packed  # files may be padded
                self._begun = bool(self._packed)
            if self._begun:
                self._decode()
        return True

    def _decode(self) -> None:
        """Decompresses what was read; if it is damaged, byte by byte up to the damage."""
        before = self._decoder.copy()
        try:
            self._ahead = self._decoder.decompress(self._packed, _UNPACKED_BYTES)
        except zlib.error as error:
            self._damage = Damaged(str(error), cut_short=False)
            self._ahead = _up_to_damage(before, self._packed)
            return
        self._packed = self._decoder.unconsumed_tail
        if self._decoder.eof:
            self._packed = self._decoder.unused_data
            self._decoder = zlib.decompressobj(_GZIP)
            self._begun, self._ended = False, True


def _up_to_damage(decoder: "zlib._Decompress", packed: bytes) -> bytes:
    """Decompresses damaged bytes as far as possible."""
    unpacked = bytearray()
    try:
        for at in range(len(packed)):
            unpacked += decoder.decompress(packed[at : at + 1])
    except zlib.error:
        pass
    return bytes(unpacked)
