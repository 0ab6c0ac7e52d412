"""The cursor of the file source: identifies the file and what was read of it, so that another file is not mistaken for it."""

import hashlib
from dataclasses import dataclass
from typing import BinaryIO

from headrace.connectors.file._encoding import Encoding

HEAD_BYTES = 1024
TAIL_BYTES = 64
_VERSION = "1"
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Seen:
    """A file of a stream that was read, or left out when the stream began.

    Attributes:
        inode: Its inode number.
        size: The number of its bytes that the checksums are about.
        head_sum: A checksum of the first of these bytes.
        tail_sum: A checksum of the last of these bytes.
    """

    inode: int
    size: int
    head_sum: str
    tail_sum: str

    def fits(self, file: BinaryIO) -> bool:
        """Returns whether a file begins with this one's contents, as far as the checksums tell."""
        head = file.read(min(HEAD_BYTES, self.size))
        if len(head) < min(HEAD_BYTES, self.size) or _short(head) != self.head_sum:
            return False
        return _short(_before(file, self.size)) == self.tail_sum


def seen_of(inode: int, size: int, head: bytes, tail: bytes) -> Seen:
    """Returns what identifies a file, by its first and last bytes."""
    return Seen(inode, size, _short(head[:HEAD_BYTES]), _short(tail[-TAIL_BYTES:]))


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
        seen: The last files before this one, oldest first; None if that is unknown.
        encoding: The encoding of its lines, if its code units have more than a byte; otherwise None.
    """

    base: int
    offset: int
    inode: int
    head: int
    head_sum: str
    tail_sum: str
    seen: tuple[Seen, ...] | None
    encoding: Encoding | None = None

    def encode(self) -> bytes:
        """Encodes the mark as a cursor."""
        fields = tuple(map(str, (self.base, self.offset, self.inode, self.head, self.head_sum, self.tail_sum)))
        encoding = _NONE if self.encoding is None else self.encoding.value
        seen = [_NONE] if self.seen is None else [f"{s.inode}:{s.size}:{s.head_sum}:{s.tail_sum}" for s in self.seen]
        return " ".join((_VERSION, *fields, encoding, *seen)).encode()

    def fits(self, file: BinaryIO) -> bool:
        """Returns whether a file contains what was read before this mark."""
        return checksum(file.read(self.head)) == self.head_sum and checksum(_before(file, self.offset)) == self.tail_sum


def _before(file: BinaryIO, offset: int) -> bytes:
    """Reads the bytes just before an offset."""
    tail = min(TAIL_BYTES, offset)
    file.seek(offset - tail)
    return file.read(tail)


def decoded(cursor: bytes | None) -> Mark | None:
    """Decodes a cursor; None if there is none, as in a position that `headrace positions` has moved."""
    fields = (cursor or b"").decode(errors="replace").split(" ")
    if len(fields) < 8 or fields[0] != _VERSION:
        return None
    base, offset, inode, head = map(int, fields[1:5])
    encoding = None if fields[7] == _NONE else Encoding(fields[7])
    seen = None if fields[8:] == [_NONE] else tuple(_earlier_file(field) for field in fields[8:])
    return Mark(base, offset, inode, head, fields[5], fields[6], seen, encoding)


def _earlier_file(field: str) -> Seen:
    inode, size, head_sum, tail_sum = field.split(":")
    return Seen(int(inode), int(size), head_sum, tail_sum)


def checksum(data: bytes) -> str:
    """Returns the checksum of a few bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _short(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=4).hexdigest()
