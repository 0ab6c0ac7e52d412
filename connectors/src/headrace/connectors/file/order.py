"""The order of the files that a log was rotated to: their names decide, as far as they agree with what was read before."""

import contextlib
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path

from headrace.connectors.file._names import Scheme, is_packed, text_of
from headrace.connectors.file.mark import HEAD_BYTES, TAIL_BYTES, Seen, seen_of
from headrace.connectors.file.parts import Part
from headrace.sdk import PositionLost

SEEN_FILES = 8
"""How many of the files before the present one are remembered: where the newest of them lies tells in which order names count."""
# Two files of one log that share different lines of this many bytes are the same file.
_TELLING_BYTES, _TELLING_LINES = 256, 4


class _Is(Enum):
    """A file next to the present one, as far as it is known."""

    SEEN = "seen"
    PERHAPS_SEEN = "perhaps seen"
    NEW = "new"
    EMPTY = "empty"


def later(parts: Sequence[Part], at: Part | None, earlier: Sequence[Seen] | None) -> list[Part]:
    """Returns the files after one of them, oldest first.

    Plain numbers count down (`app.log.1` is the newest) or up, whichever has all files that were seen before the present one, and
    all new ones after it.

    Args:
        parts: All files of the stream.
        at: The present file; None if it is not among them.
        earlier: The last files before it; None if that is unknown.

    Raises:
        PositionLost: Neither order does, so the next file is unknown.
    """
    current = [part for part in parts if part.current]
    if at is not None and at.current:
        return []
    others = [part for part in parts if not part.current]
    known = {part.path: _what(part, earlier or ()) for part in others if at is None or part.key != at.key}
    if at is None:
        return [*unseen(others, others, earlier or ()), *current]
    possible = []
    for flipped in (False, True):
        order = ordered(others, flipped=flipped)
        place = next(place for place, part in enumerate(order) if part.key == at.key)
        before, after = order[:place], order[place + 1 :]
        if earlier is None or _agrees(before, after, known, [at, *after] if flipped else []):
            possible.append(after)
    if len(possible) > 1 and _are_copies(possible[0], earlier or ()):
        del possible[0]
    if possible:
        return [*possible[0], *current]
    names = ", ".join(text_of(part.path.name) for part in ordered(others))
    raise PositionLost(
        f"which file follows {text_of(at.path)} is unknown: by their names, some that were not read lie before it ({names}); "
        "move away files of other logs"
    )


def _agrees(before: list[Part], after: list[Part], kinds: Mapping[Path, _Is], numbered: list[Part]) -> bool:
    """Returns whether an order has no file before the present one that is new, and none after it that was seen."""
    if any(kinds[part.path] is _Is.SEEN for part in after):
        return False
    nearest = next((kinds[part.path] for part in reversed(before) if kinds[part.path] is not _Is.EMPTY), None)
    numbers = [part.stamp.numbers[0] for part in numbered if part.stamp.scheme is Scheme.NUMBER]
    # Numbers that count up have no gaps; a file that was restored from elsewhere has any.
    return nearest is not _Is.NEW and all(higher == lower + 1 for lower, higher in pairwise(numbers))


def _are_copies(parts: Sequence[Part], others: Sequence[Seen]) -> bool:
    """Returns whether each of some files has the contents of another file that was seen, as compressed files and copies have.

    Where several that were seen are alike, a file with their contents may be a new one.
    """
    like = [[each for each in others if _has(part, each)] for part in parts if part.size]
    return bool(like) and all(len(each) == 1 for each in like) and len({each[0] for each in like}) == len(like)


def ordered(parts: Sequence[Part], *, flipped: bool = False) -> list[Part]:
    """Returns rotated files, oldest first: by their stamps, files with other stamps by their times of modification."""
    newest = {part.stamp.scheme: 0 for part in parts}
    for part in parts:
        newest[part.stamp.scheme] = max(newest[part.stamp.scheme], part.mtime_ns)

    def order(part: Part) -> tuple[int, tuple[tuple[int, ...], tuple[int, ...]], int]:
        return newest[part.stamp.scheme], part.stamp.order(flipped=flipped), part.mtime_ns

    return sorted(parts, key=order)


def at_first(parts: Sequence[Part]) -> list[Part]:
    """Sorts rotated files of which none was read, oldest first. Numbers count up only if every time of modification agrees."""
    numbered = [part for part in ordered(parts, flipped=True) if part.stamp.scheme is Scheme.NUMBER]
    counts_up = len(numbered) > 1 and all(older.mtime_ns < newer.mtime_ns for older, newer in pairwise(numbered))
    return ordered(parts, flipped=counts_up)


def _what(part: Part, others: Sequence[Seen]) -> _Is:
    """Returns what is known of a file. One that cannot be read now may be any."""
    if not part.size:
        return _Is.EMPTY
    found = _Is.NEW
    for each in others:
        if not is_packed(part.path) and part.size < each.size:
            continue
        try:
            with part.open() as file:
                fits = each.fits(file)
                file.seek(0)
                head = file.read(min(HEAD_BYTES, each.size)) if fits else b""
        except OSError:
            return _Is.PERHAPS_SEEN
        if fits and (each.inode == part.inode or is_telling(head)):
            return _Is.SEEN
        found = _Is.PERHAPS_SEEN if fits else found
    return found


def is_telling(head: bytes) -> bool:
    """Returns whether two files of one log that begin alike are the same file: the same lines over and over tell nothing."""
    lines = set(head.split(b"\n"))
    return len(lines) >= _TELLING_LINES and sum(map(len, lines)) >= _TELLING_BYTES


def unseen(among: Sequence[Part], parts: Sequence[Part], earlier: Sequence[Seen]) -> list[Part]:
    """Returns the rotated files that were not seen, oldest first.

    Args:
        among: These files.
        parts: All rotated files of the stream.
        earlier: The last files before the present one.

    Raises:
        PositionLost: Some files cannot be told from files that were seen.
    """
    order = ordered(parts)
    places = [place for each in earlier for place, part in enumerate(order) if part.inode == each.inode and _has(part, each)]
    if len(places) > 1 and places[0] > places[-1]:
        order = ordered(parts, flipped=True)
    of_inode = {each for each in earlier if any(part.inode == each.inode and _has(part, each) for part in order)}
    last = max((place for place, part in enumerate(order) for each in of_inode if part.inode == each.inode), default=-1)
    wanted = {part.path for part in among}
    found = []
    for part in order[last + 1 :]:
        what = _what(part, earlier)
        if part.path not in wanted or what in (_Is.SEEN, _Is.EMPTY):
            continue
        like = [each for each in earlier if each not in of_inode and what is _Is.PERHAPS_SEEN and _has(part, each)]
        if like and not is_packed(part.path):
            raise PositionLost(
                f"whether {text_of(part.path)} was read is unknown: another file of its log has the same contents; "
                "move away what was read"
            )
        if not like:
            found.append(part)
    return found


def _has(part: Part, each: Seen) -> bool:
    """Returns whether a file begins with the contents of one that was seen."""
    with contextlib.suppress(OSError), part.open() as file:
        return each.fits(file)
    return False


def left_out(parts: Sequence[Part]) -> tuple[Seen, ...]:
    """Returns what identifies files that a stream begins after, as if they had been read."""
    seen = []
    for part in ordered(parts)[-SEEN_FILES:]:
        with contextlib.suppress(OSError), part.open() as file:
            head = file.read(HEAD_BYTES)
            # All of a compressed file would have to be unpacked for its end.
            size = len(head) if is_packed(part.path) else part.size
            file.seek(max(0, size - TAIL_BYTES))
            if head:
                seen.append(seen_of(part.inode, size, head, file.read(min(TAIL_BYTES, size))))
    return tuple(seen)
