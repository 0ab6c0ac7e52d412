"""The files of a stream whose log is rotated: finds and opens them."""

import contextlib
import os
import stat
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from headrace.connectors.file._names import Stamp, bases, is_packed, is_rotation, stamp_of, unpacked
from headrace.connectors.file.mark import HEAD_BYTES
from headrace.connectors.file.packed import unpacking

Key = tuple[int, int]
"""The device and the inode of a file."""


class Changed(OSError):
    """Another file is at a path than a moment ago."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the files of a stream.

    Attributes:
        path: Its current path.
        key: Its device and inode.
        size: Its size on disk, in bytes.
        mtime_ns: The time of its last modification, in nanoseconds.
        current: Whether it has the stream's own path, and may therefore grow.
        stamp: What its name says of its place among the others.
    """

    path: Path
    key: Key
    size: int
    mtime_ns: int
    current: bool
    stamp: Stamp = field(default_factory=Stamp)

    @property
    def inode(self) -> int:
        """Its inode number."""
        return self.key[1]

    def open(self) -> BinaryIO:
        """Opens the file at its beginning, without waiting for anything.

        Raises:
            Changed: It is no longer the file at its path.
            OSError: It cannot be opened.
        """
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        file = open(self.path, "rb", buffering=0, opener=lambda path, _: os.open(path, flags))  # noqa: SIM115
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or key_of(found) != self.key:
            file.close()
            raise Changed(f"another file is at {self.path} now")
        return unpacking(self.path, file) if is_packed(self.path) else cast("BinaryIO", file)


def key_of(status: os.stat_result) -> Key:
    """Returns the identity of a file."""
    return status.st_dev, status.st_ino


def part_at(path: Path, *, current: bool, base: str | None = None) -> Part | None:
    """Returns the regular file at a path; None if there is none.

    Args:
        path: The path.
        current: Whether it is the stream's own.
        base: The name that it had before it was rotated.

    Raises:
        OSError: It cannot be found out.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if "symbolic links" in str(error):
            return None
        raise
    if not stat.S_ISREG(found.st_mode):
        return None
    stamp = Stamp() if base is None else stamp_of(path.name, base)
    return Part(path, key_of(found), found.st_size, found.st_mtime_ns, current, stamp)


def all_parts(path: Path) -> list[Part]:
    """Returns the file at a path, and the files that it was rotated to, each once, in no particular order.

    These are next to it, or next to what it is a link to. A compressed file does not count as long as its original exists,
    because it may be incomplete.
    """
    found = {part.key: part for part in _rotated(path, path.name)}
    with contextlib.suppress(OSError, RuntimeError):
        if path.is_symlink():
            real = path.resolve()
            for base in (real.name, *bases(unpacked(real.name))):
                found = {part.key: part for part in _rotated(real, base)} | found
    own = part_at(path, current=True)
    return list((found if own is None else found | {own.key: own}).values())


def _rotated(path: Path, base: str) -> list[Part]:
    """Returns the files next to a path that may have been named `base` before they were rotated."""
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if is_rotation(entry.name, base)]
    paths = sorted(path.with_name(name) for name in names)
    # Of two names of one file, the first is taken.
    parts = [part for each in reversed(paths) if (part := part_at(each, current=False, base=base)) is not None]
    return [part for part in parts if not is_copy(part.path)]


def is_removed(path: Path) -> bool:
    """Returns whether neither the file at a path nor one that it was rotated to exists.

    False if its folder is missing, because that is inconclusive.
    """
    try:
        with os.scandir(path.parent) as entries:
            return not any(entry.name == path.name or is_rotation(entry.name, path.name) for entry in entries)
    except OSError:
        return False


def is_copy(path: Path) -> bool:
    """Returns whether a compressed file is a copy of a file that still exists; an incomplete one counts as a copy."""
    if not is_packed(path):
        return False
    original = part_at(path.with_name(unpacked(path.name)), current=False)
    part = part_at(path, current=False)
    if original is None or part is None:
        return False
    try:
        with original.open() as file, part.open() as packed:
            return packed.read(HEAD_BYTES) == file.read(HEAD_BYTES)
    except Changed:
        return False
    except (EOFError, OSError, zlib.error):
        return True
