"""What streams are called, and which files belong to one. Pure functions."""

import hashlib
import os
import re
from collections.abc import Container
from enum import Enum
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_WILD = re.compile(r"[*?\[]")
# app.log.1, app.log-20260131, app.log.2026-01-31T12:00, app.log.old
_SUFFIX = re.compile(r"[.-](\d[\d.:T_-]*|old)")
_ROTATED = re.compile(rf"(.+?){_SUFFIX.pattern}")
_PACKED = ".gz"
_MAX_NAME = 120


class Names(Enum):
    """What the partition of a file is called after."""

    RELATIVE = "relative"
    """Its path below the folder that comes before the first wildcard of its pattern."""
    BASE = "base"
    """Its file name alone; two files that would have one name are refused."""


def root_of(pattern: str) -> str:
    """The folder that the paths of a pattern's files are relative to: the one before its first wildcard."""
    folder = os.path.dirname(pattern)
    while _WILD.search(folder):
        folder = os.path.dirname(folder)
    return folder


def partition_of(path: str, root: str, names: Names) -> str:
    """The name of a file's partition.

    A path of nothing but letters, digits and `._-` is the name itself. Any other one, and a long one, becomes its plain
    characters and a checksum of all of it, so that two paths never have one name.
    """
    if names is Names.BASE:
        return _NOT_PLAIN.sub("_", os.path.basename(path))
    relative = os.path.relpath(path, root or ".")
    if _PLAIN.fullmatch(relative) and len(relative) <= _MAX_NAME:
        return relative
    digest = hashlib.blake2b(os.fsencode(relative), digest_size=8).hexdigest()
    return f"{_NOT_PLAIN.sub('_', relative)[-_MAX_NAME:]}-{digest}"


def unrotated(path: str, known: Container[str]) -> str:
    """The path that a file had before it was rotated or packed; `path` itself where it was not.

    `app.log.gz` was `app.log`. `app.log.1` was `app.log` only if there is, or was, such a file: else its name is its own.
    """
    unpacked = path.removesuffix(_PACKED) if len(os.path.basename(path)) > len(_PACKED) else path
    match = _ROTATED.fullmatch(os.path.basename(unpacked))
    if match:
        before = os.path.join(os.path.dirname(unpacked), match[1])
        if before in known:
            return before
    return unpacked


def is_packed(path: Path) -> bool:
    """Whether a file is compressed."""
    return path.name.endswith(_PACKED)


def is_rotation(name: str, of: str) -> bool:
    """Whether `name` is what a file called `of` may be called after it was rotated or packed."""
    if not name.startswith(of):
        return False
    suffix = name[len(of) :].removesuffix(_PACKED)
    return (suffix == "" and name != of) or _SUFFIX.fullmatch(suffix) is not None


def rotation_number(path: Path) -> int:
    """The number at the end of a rotated file's name; the largest is the oldest. 0 where it has none, or a date."""
    digits = re.search(r"\.(\d{1,5})(\.gz)?$", path.name)
    return int(digits[1]) if digits else 0
