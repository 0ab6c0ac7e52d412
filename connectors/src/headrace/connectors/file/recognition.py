"""Recognises the file that was read among the present files of a stream, by what was read of it."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.connectors.file._names import is_packed, text_of
from headrace.connectors.file.mark import HEAD_BYTES, TAIL_BYTES, Mark
from headrace.connectors.file.order import is_telling, ordered, unseen
from headrace.connectors.file.parts import Part, part_at
from headrace.connectors.file.unpacked import Damaged
from headrace.sdk import PositionLost


def part_of(mark: Mark, parts: Sequence[Part], moved: Callable[[], Path | None]) -> Part | None:
    """Returns the file of a mark: the one with its inode, otherwise the oldest unseen one that begins with all that was read.

    Files newer than the right one were not read yet, and may begin alike.

    Args:
        mark: The mark.
        parts: The files of the stream.
        moved: Returns where the file is if it was given a name that is no rotation of its own.

    Raises:
        PositionLost: Several files are alike.
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
    fresh = unseen([part for part in rotated if fits(part, mark)], rotated, mark.seen)
    return next(iter([*fresh, *(part for part in current if fits(part, mark))]), None)


def copy_of(mark: Mark, parts: Sequence[Part]) -> Part | None:
    """Returns the copy of a file that was truncated after it was read up to a mark; None if there is none.

    Raises:
        PositionLost: Several files are alike.
    """
    rotated = ordered([part for part in parts if not part.current])
    copies = [part for part in rotated if not mark.offset or fits(part, mark)]
    if mark.seen is None:
        return copies[-1] if copies and mark.offset else None
    return next(iter(unseen(copies, rotated, mark.seen)), None)


def distrust(own: Part, mark: Mark, head: bytes, parts: Sequence[Part], *, is_open: bool) -> None:
    """Looks whether a file that has what was read may have been truncated since, and have the same contents again.

    Args:
        own: The file.
        mark: The mark that fits it.
        head: Its first bytes that were read.
        parts: The files of the stream.
        is_open: Whether it was open meanwhile, so that some of what was read may have been written since.

    Raises:
        PositionLost: There is a new copy of what was read.
    """
    if not mark.offset or mark.seen is None or is_telling(head):
        return
    rotated = [part for part in parts if not part.current and part.key != own.key]
    copies = [part for part in rotated if (_begin_alike(part, own) if is_open else fits(part, mark))]
    if copies and (new := unseen(copies, rotated, mark.seen)):
        raise PositionLost(
            f"whether {text_of(own.path)} was truncated since {mark.offset} bytes were read of it is unknown: "
            f"{text_of(new[0].path.name)} begins with the same bytes, and has been copied since"
        )


def _begin_alike(part: Part, other: Part) -> bool:
    """Returns whether the shorter one of two files is the beginning of the other one, as far as their ends tell."""
    with contextlib.suppress(OSError):
        size = min(size_of(part), size_of(other))
        with part.open() as file, other.open() as reference:
            if not size or file.read(min(HEAD_BYTES, size)) != reference.read(min(HEAD_BYTES, size)):
                return False
            file.seek(max(0, size - TAIL_BYTES))
            reference.seek(max(0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES)[: min(TAIL_BYTES, size)] == reference.read(TAIL_BYTES)[: min(TAIL_BYTES, size)]
    return False


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
