"""The cursor of the file source: identifies the file and what was read of it, so that another file is not mistaken for it."""

import hashlib
from dataclasses import dataclass
from typing import BinaryIO

HEAD_BYTES = 1024
TAIL_BYTES = 64
_VERSION = b"2"


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in one of the files of a stream.

    Attributes:
        base: The sequence that the stream had when this file began.
        offset: The number of bytes of the file that were read.
        inode: The inode number of the file, as a hint.
        head: The number of bytes at its beginning that `head_sum` covers.
        head_sum: The checksum of these bytes.
        tail_sum: The checksum of the bytes just before the offset.
    """

    base: int
    offset: int
    inode: int
    head: int
    head_sum: str
    tail_sum: str

    def encode(self) -> bytes:
        """Encodes the mark as a cursor."""
        fields = (self.base, self.offset, self.inode, self.head, self.head_sum, self.tail_sum)
        return b" ".join([_VERSION, *(str(field).encode() for field in fields)])

    def fits(self, file: BinaryIO) -> bool:
        """Returns whether a file contains what was read before this mark."""
        if checksum(file.read(self.head)) != self.head_sum:
            return False
        tail = min(TAIL_BYTES, self.offset)
        file.seek(self.offset - tail)
        return checksum(file.read(tail)) == self.tail_sum


def decoded(cursor: bytes | None) -> Mark | None:
    """Decodes a cursor; None for a cursor of an earlier version, which had only the offset."""
    fields = (cursor or b"").decode(errors="replace").split(" ")
    if fields[0] != _VERSION.decode() or len(fields) != 7:
        return None
    base, offset, inode, head = map(int, fields[1:5])
    return Mark(base, offset, inode, head, fields[5], fields[6])


def checksum(data: bytes) -> str:
    """Returns the checksum of a few bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
