"""The grammar of names, and patterns of names.

A name consists of ASCII letters, digits and `._-`. A stream's name is `source/partition`, both of which are such names. In a
pattern, `*` stands for any text within one part: `orders/*`.
"""

import re
from functools import lru_cache

from headrace.contract.limits import MAX_NAME_BYTES

NAME = r"[A-Za-z0-9._-]+"
"""The regular expression of a name, or of one part of a stream's name."""

_NAME = re.compile(NAME)
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
_STREAM = re.compile(f"{NAME}/{NAME}")
_PART_PATTERN = re.compile(r"[A-Za-z0-9._*-]+")
_STREAM_PATTERN = re.compile(f"{_PART_PATTERN.pattern}/{_PART_PATTERN.pattern}")


def is_name(text: str) -> bool:
    """Whether a text is a valid name of a pipeline, sink or deployment, or a part of a stream's name."""
    return len(text) <= MAX_NAME_BYTES and _NAME.fullmatch(text) is not None


def is_stream_name(text: str) -> bool:
    """Whether a text is a valid stream name, `source/partition`."""
    return len(text) <= MAX_NAME_BYTES and _STREAM.fullmatch(text) is not None


def is_name_pattern(text: str) -> bool:
    """Whether a text is a valid pattern of names without a slash."""
    return _PART_PATTERN.fullmatch(text) is not None


def is_stream_pattern(text: str) -> bool:
    """Whether a text is a valid pattern of stream names."""
    return len(text) <= MAX_NAME_BYTES and _STREAM_PATTERN.fullmatch(text) is not None


def to_name(text: str) -> str:
    """A text with `_` in place of every character that a name cannot have."""
    return _NO_NAME.sub("_", text)


def source_of(stream: str) -> str:
    """The source that a stream is a partition of."""
    return stream.partition("/")[0]


def covers(pattern: str, name: str) -> bool:
    """True if `pattern` matches `name`. `name` may itself be a pattern, which is covered if everything that it matches is.

    The time is linear in the lengths, whatever the pattern: any caller of a gateway may send one.
    """
    wanted, found = _parts(pattern), name.split("/")
    return len(wanted) == len(found) and all(map(_matches, wanted, found))


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The texts between the stars of each part of a pattern."""
    return tuple(tuple(part.split("*")) for part in pattern.split("/"))


def _matches(texts: tuple[str, ...], part: str) -> bool:
    """Whether a part of a name has these texts, in order, with anything in between. The first place of each is as good as any."""
    first, last = texts[0], texts[-1]
    if len(texts) == 1:
        return part == first
    at, end = len(first), len(part) - len(last)
    if at > end or not part.startswith(first) or not part.endswith(last):
        return False
    for text in texts[1:-1]:
        place = part.find(text, at, end)
        if place < 0:
            return False
        at = place + len(text)
    return True
