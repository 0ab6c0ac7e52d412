"""The names of streams, and the files that belong to a stream. Pure functions."""

import hashlib
import os
import re
from collections.abc import Container
from enum import Enum
from pathlib import Path

from headrace.contract.names import is_name, to_name

_WILD = re.compile(r"[*?\[]")
# app.log.1, app.log-20260131, app.log.2026-01-31T12:00, app.log.old
_SUFFIX = re.compile(r"[.-](\d[\d.:T_-]*|old)")
_ROTATED = re.compile(rf"(.+?){_SUFFIX.pattern}")
_PACKED = ".gz"
_MAX_NAME = 120


class Names(Enum):
    """What the name of a file's partition is derived from."""

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
    relative = os.path.relpath(path, root or ".")
    if is_name(relative) and len(relative) <= _MAX_NAME:
        return relative
    digest = hashlib.blake2b(os.fsencode(relative), digest_size=8).hexdigest()
    return f"{to_name(relative)[-_MAX_NAME:]}-{digest}"


def unrotated(path: str, known: Container[str]) -> str:
    """Returns the path that a file had before it was rotated or compressed; `path` itself if it was not.

    `app.log.gz` was `app.log`. `app.log.1` was `app.log` only if there is, or was, such a file; otherwise that is its own name.
    """
    unpacked = path.removesuffix(_PACKED) if len(os.path.basename(path)) > len(_PACKED) else path
    match = _ROTATED.fullmatch(os.path.basename(unpacked))
    if match:
        before = os.path.join(os.path.dirname(unpacked), match[1])
        if before in known:
            return before
    return unpacked


def is_packed(path: Path) -> bool:
    """Returns whether a file is compressed."""
    return path.name.endswith(_PACKED)


def is_rotation(name: str, of: str) -> bool:
    """Returns whether a file named `of` may be named `name` after it was rotated or compressed."""
    if not name.startswith(of):
        return False
    suffix = name[len(of) :].removesuffix(_PACKED)
    return (suffix == "" and name != of) or _SUFFIX.fullmatch(suffix) is not None


def rotation_number(path: Path) -> int:
    """Returns the number at the end of a rotated file's name; the largest is the oldest. 0 if it has none, or a date."""
    digits = re.search(r"\.(\d{1,5})(\.gz)?$", path.name)
    return int(digits[1]) if digits else 0
