"""Recognises the file that was read among the present files of a stream, by what was read of it."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.connectors.file._mark import Mark, Seen
from headrace.connectors.file._names import is_packed
from headrace.connectors.file._order import ordered
from headrace.connectors.file._parts import Part, part_at
from headrace.connectors.file._unpacked import Damaged


def part_of(mark: Mark, parts: Sequence[Part], moved: Callable[[], Path | None]) -> Part | None:
    """Returns the file of a mark: that with its inode, otherwise the oldest that has what was read and was not seen before.

    What is newer than the right one was not read yet, and may begin alike.

    Args:
        mark: The mark.
        parts: The files of the stream.
        moved: Returns where the file is if it was given a name that is no rotation of its own.
    """
    known = [part for part in parts if part.inode == mark.inode and fits(part, mark)]
    if known:
        return known[0]
    if (path := moved()) is not None:
        elsewhere = part_at(path, current=False)
        if elsewhere is not None and fits(elsewhere, mark):
            return elsewhere
    rotated = ordered([part for part in parts if not part.current])
    current = [part for part in parts if part.current]
    if mark.seen is None:
        return next((part for part in reversed([*rotated, *current]) if fits(part, mark)), None)
    found = [part for part in (*rotated, *current) if fits(part, mark)]
    fresh = [part for part in found if part.current or not _was_seen(part, mark.seen)]
    return next(iter(fresh or found), None)


def copy_of(mark: Mark, parts: Sequence[Part]) -> Part | None:
    """Returns the copy of a file that was truncated after it was read up to a mark; None if there is none."""
    copies = [part for part in ordered(parts) if not part.current and (not mark.offset or fits(part, mark))]
    fresh = [part for part in copies if not _was_seen(part, mark.seen or ())]
    # Without a record that was read, only a file that is new can be the copy.
    return next(iter(fresh or (copies[-1:] if mark.offset else ())), None)


def fits(part: Part, mark: Mark) -> bool:
    """Returns whether a mark belongs to a file."""
    with contextlib.suppress(OSError), part.open() as file:
        return mark.fits(file)
    return False


def size_of(part: Part) -> int:
    """Returns the size of a file, in decompressed bytes."""
    if not is_packed(part.path):
        return part.path.stat().st_size
    size = 0
    # Damaged data does not count, because it is not read.
    with contextlib.suppress(Damaged), part.open() as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
    return size


def _was_seen(part: Part, seen: Sequence[Seen]) -> bool:
    """Returns whether a file was seen before."""
    for each in seen:
        with contextlib.suppress(OSError), part.open() as file:
            if each.fits(file):
                return True
    return False
