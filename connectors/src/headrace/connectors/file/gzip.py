"""Reads gzip files up to the point where they are damaged: the module `gzip` drops the data just before it."""

import io
import zlib

from headrace.connectors.file.unpacked import Damaged, Unpacked

_PACKED_BYTES = 64 * 1024
_UNPACKED_BYTES = 256 * 1024
_GZIP = 31
"""The zlib setting for a gzip member, with header and checksum."""


class Gzip(Unpacked):
    """The decompressed bytes of a gzip file, of any number of members."""

    def __init__(self, file: io.FileIO) -> None:
        """Takes an open file, which is closed with this."""
        super().__init__(file)
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._decoder = zlib.decompressobj(_GZIP)
        self._in_member = self._ended = False
        self._packed = self._ahead = b""
        self._damage: Damaged | None = None

    def _next(self, at_most: int) -> bytes:
        if not self._ahead and not self._unpack():
            if self._damage is not None:
                raise self._damage
            return b""
        piece, self._ahead = self._ahead[:at_most], self._ahead[at_most:]
        return piece

    def _unpack(self) -> bool:
        """Decompresses some more; False at the end, or at damaged data."""
        while not self._ahead:
            if self._damage is not None and not self._damage.cut_short:
                return False
            if not self._packed:
                self._packed = self._file.read(_PACKED_BYTES) or b""
                if not self._packed:
                    self._damage = Damaged("it ends within compressed data", cut_short=True) if self._in_member else None
                    return False
            if not self._in_member:
                self._packed = self._packed.lstrip(b"\0") if self._ended else self._packed  # files may be padded
                self._in_member = bool(self._packed)
            if self._in_member:
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
            self._in_member, self._ended = False, True


def _up_to_damage(decoder: "zlib._Decompress", packed: bytes) -> bytes:
    """Decompresses damaged bytes as far as possible."""
    unpacked = bytearray()
    try:
        for at in range(len(packed)):
            unpacked += decoder.decompress(packed[at : at + 1])
    except zlib.error:
        pass
    return bytes(unpacked)
