"""The files of a stream whose log is rotated: finds, orders and opens them."""

import contextlib
import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from headrace.connectors.file._gzip import Unpacked
from headrace.connectors.file._mark import HEAD_BYTES
from headrace.connectors.file._names import is_packed, is_rotation, rotation_number


@dataclass(frozen=True, slots=True)
class Part:
    """One of the files of a stream.

    Attributes:
        path: Its current path.
        inode: Its inode number.
        mtime_ns: The time of its last modification, in nanoseconds.
        current: Whether it has the stream's own path, and may therefore grow.
    """

    path: Path
    inode: int
    mtime_ns: int
    current: bool

    @property
    def order(self) -> tuple[bool, int, int]:
        """The sort key: oldest first, current file last."""
        return self.current, self.mtime_ns, -rotation_number(self.path)

    def open(self) -> BinaryIO:
        """Opens the file at its beginning."""
        if is_packed(self.path):
            return cast("BinaryIO", Unpacked(self.path))
        return open(self.path, "rb", buffering=0)


def part_at(path: Path, *, current: bool) -> Part | None:
    """Returns the file at a path; None if there is none."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return Part(path, stat.st_ino, stat.st_mtime_ns, current)


def all_parts(path: Path) -> list[Part]:
    """Returns the file at a path, and the files next to it that it was rotated to; oldest first.

    A compressed file does not count as long as its original exists, because it may be incomplete.
    """
    names = []
    with contextlib.suppress(FileNotFoundError), os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if is_rotation(entry.name, path.name)]
    rotated = (path.with_name(name) for name in names)
    parts = [part_at(path, current=True), *(part_at(part, current=False) for part in rotated if not is_copy(part))]
    return sorted((part for part in parts if part is not None), key=lambda part: part.order)


def is_copy(path: Path) -> bool:
    """Returns whether a compressed file is a copy of a file that still exists; an incomplete one counts as a copy."""
    unpacked = path.with_name(path.name.removesuffix(".gz"))
    if unpacked == path:
        return False
    try:
        with unpacked.open("rb") as file, gzip.open(path, "rb") as packed:
            return packed.read(HEAD_BYTES) == file.read(HEAD_BYTES)
    except FileNotFoundError:
        return False
    except (EOFError, OSError, zlib.error):
        return True
