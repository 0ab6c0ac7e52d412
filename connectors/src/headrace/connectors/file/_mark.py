"""The cursor of the file source: which file, and what of it was read, so that another file is never taken for it."""

import hashlib
from dataclasses import dataclass
from typing import BinaryIO

HEAD_BYTES = 1024
TAIL_BYTES = 64
_VERSION = b"2"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in one of the files that a stream has gone through.

    Attributes:
        base: The sequence that the stream had when this file began.
        offset: How many bytes of the file were read.
        inode: The number of the file on its disk, a hint.
        head: How many bytes of its beginning have the checksum `head_sum`.
        head_sum: Their checksum.
        tail_sum: The checksum of the bytes right before the offset.
    """

    base: int
    offset: int
    inode: int
    head: int
    head_sum: str
    tail_sum: str

    def encode(self) -> bytes:
        """As a cursor."""
        fields = (self.base, self.offset, self.inode, self.head, self.head_sum, self.tail_sum)
        return b" ".join([_VERSION, *(str(field).encode() for field in fields)])

    def fits(self, file: BinaryIO) -> bool:
        """Whether a file has what was read before this mark."""
        if checksum(file.read(self.head)) != self.head_sum:
            return False
        tail = min(TAIL_BYTES, self.offset)
        file.seek(self.offset - tail)
        return checksum(file.read(tail)) == self.tail_sum


def decoded(cursor: bytes | None) -> Mark | None:
    """The mark in a cursor; None for one of a version that kept nothing but the offset."""
    fields = (cursor or b"").decode(errors="replace").split(" ")
    if fields[0] != _VERSION.decode() or len(fields) != 7:
        return None
    base, offset, inode, head = map(int, fields[1:5])
    return Mark(base, offset, inode, head, fields[5], fields[6])


def checksum(data: bytes) -> str:
    """Of a few bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
