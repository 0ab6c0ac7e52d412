"""The names of streams, and the files that belong to a stream. Pure functions."""

import hashlib
import os
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headrace.contract.names import is_name, to_name

_WILD = re.compile(r"[*?\[]")
# 1, 20260131, 2026-01-31, 2026-01-31T12-00-00.000, old
_STAMP = re.compile(r"\d[\d.:TZ_+-]*|old")
_SEPARATOR = re.compile(r"[._-](?=\d|old)")
PACKED = (".gz", ".zst", ".bz2", ".xz", ".lz4")
"""The suffixes of compressed files."""
_MAX_NAME = 120


class Names(Enum):
    """The part of a file's path from which the name of its partition is derived."""

    RELATIVE = "relative"
    """Its path below the folder before the first wildcard of its pattern."""
    BASE = "base"
    """Its file name alone; two files with the same name are rejected."""


def root_of(pattern: str) -> str:
    """Returns the folder that the paths of a pattern's files are relative to: the one before its first wildcard."""
    folder = os.path.dirname(pattern)
    while _WILD.search(folder):
        folder = os.path.dirname(folder)
    return folder


def partition_of(path: str, root: str, names: Names) -> str:
    """Returns the name of a file's partition.

    A path of only letters, digits and `._-` is the name itself. Any other path, or a long one, becomes its plain characters and a
    checksum of the whole path, so that two paths never have the same name.
    """
    if names is Names.BASE:
        return to_name(os.path.basename(path))
    # Both are absolute, as a rule, and it is much quicker to cut than to compare.
    relative = path[len(root) + 1 :] if root != "/" and path.startswith(root + "/") else os.path.relpath(path, root or ".")
    if is_name(relative) and len(relative) <= _MAX_NAME:
        return relative
    digest = hashlib.blake2b(os.fsencode(relative), digest_size=8).hexdigest()
    return f"{to_name(relative)[-_MAX_NAME:]}-{digest}"


def unrotated(path: str, paths: Container[str]) -> str:
    """Returns the path that a file had before it was rotated or compressed; `path` itself if it was not.

    `app.log.gz` was `app.log`. `app.log.1` and `app.2026-01-31.log` were `app.log` only if there is, or was, such a file;
    otherwise that is its own name.
    """
    folder, name = os.path.split(path)
    own = unpacked(name)
    return next((before for base in bases(own) if (before := os.path.join(folder, base)) in paths), os.path.join(folder, own))


def unpacked(name: str) -> str:
    """Returns the name that a file had before it was compressed."""
    return next((name.removesuffix(suffix) for suffix in PACKED if name.endswith(suffix) and name != suffix), name)


def bases(name: str) -> Iterator[str]:
    """Yields the names that a file may have had before it was rotated, the longest first: a stamp follows it, or its stem."""
    stem, dot, extension = name.rpartition(".")
    for separator in reversed(list(_SEPARATOR.finditer(name))):
        at, end = separator.span()
        if not at:
            continue
        if _STAMP.fullmatch(name, end):
            yield name[:at]
        elif dot and not extension.isdigit() and end < len(stem) and _STAMP.fullmatch(stem, end):
            yield f"{stem[:at]}.{extension}"


def is_packed(path: Path) -> bool:
    """Returns whether a file is compressed."""
    return path.name.endswith(PACKED)


def is_rotation(name: str, of: str) -> bool:
    """Returns whether a file named `of` may be named `name` after it was rotated or compressed."""
    own = unpacked(name)
    return (own == of and name != of) or of in bases(own)


class Scheme(Enum):
    """How a rotated file is stamped."""

    NONE = "none"
    NUMBER = "number"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The place of a rotated file among the others, by its name.

    Attributes:
        scheme: How it is stamped.
        date: Year, month and day, or another number that only grows; empty for a plain number.
        numbers: The numbers after the date, or the plain number.
    """

    scheme: Scheme = Scheme.NONE
    date: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    def order(self, *, flipped: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the sort key, oldest first.

        The largest plain number is the oldest file, as with logrotate. The largest number after a date is the newest, as with
        logback. If `flipped`, both are the other way round.
        """
        grows_with_age = (self.scheme is Scheme.NUMBER) is not flipped
        return self.date, tuple(-number if grows_with_age else number for number in self.numbers)


def stamp_of(name: str, base: str) -> Stamp:
    """Returns the stamp of a file that was named `base` before it was rotated."""
    own = unpacked(name)
    stem, _, extension = base.rpartition(".")
    text = own[len(base) :] if own.startswith(base) else own[len(stem) : len(own) - len(extension) - 1]
    groups = re.findall(r"\d+", text)
    if not groups:
        return Stamp()
    if len(groups) == 1 and len(groups[0]) <= 5 and not _is_year(groups[0]):
        return Stamp(Scheme.NUMBER, (), (int(groups[0]),))
    date, rest = _date(groups)
    return Stamp(Scheme.DATE, date, tuple(map(int, rest)))


def _is_year(digits: str) -> bool:
    return len(digits) == 4 and digits[:2] in ("19", "20", "21")


def _date(groups: list[str]) -> tuple[tuple[int, ...], list[str]]:
    """Splits the groups of digits in a stamp into the date and the rest."""
    first = groups[0]
    if _is_year(first):
        count = next((n for n in (1, 2) if len(groups) <= n or len(groups[n]) > 2), 3)
        return tuple([*map(int, groups[:count]), 0, 0][:3]), groups[count:]
    if len(first) in (6, 8, 10, 12, 14) and _is_year(first[:4]) and 1 <= int(first[4:6]) <= 12:
        return (int(first[:4]), int(first[4:6]), int(first[6:8] or 0)), [*filter(None, [first[8:]]), *groups[1:]]
    if len(groups) > 2 and _is_year(groups[2]):
        day, month = int(first), int(groups[1])
        return (int(groups[2]), *((day, month) if month > 12 else (month, day))), groups[3:]
    return (int(first), 0, 0), groups[1:]


def text_of(path: str | os.PathLike[str]) -> str:
    """Returns a path as text for people, whatever its bytes are: surrogates cannot be logged or sent."""
    return os.fsencode(path).decode(errors="backslashreplace")
