"""The syntax of names, and patterns of names.

A name consists of ASCII letters, digits and `._-`. The name of a stream is `source/partition`, where both parts are such names.
In a pattern, `*` matches any text within one part: `orders/*`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from headrace.contract.limits import MAX_NAME_BYTES

NAME = r"[A-Za-z0-9._-]+"
"""The regular expression for a name, or for one part of a stream's name."""

SUPERVISOR = "supervisor"
"""The name of the log of a deployment's supervisor, which none of its processes has."""
CONTINUES = "HEADRACE_CONTINUES"
"""The variable that names, by commas, the pipelines that a supervisor starts again: their checkpoints cannot be new."""

_MAX_COMPARED = 1_000
_NAME = re.compile(NAME)
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
_STREAM = re.compile(f"{NAME}/{NAME}")
_PART_PATTERN = re.compile(r"[A-Za-z0-9._*-]+")
_STREAM_PATTERN = re.compile(f"{_PART_PATTERN.pattern}/{_PART_PATTERN.pattern}")


def is_name(text: str) -> bool:
    """Returns whether a text is a valid name of a pipeline, sink or deployment, or a part of a stream's name."""
    return len(text) <= MAX_NAME_BYTES and _NAME.fullmatch(text) is not None


def is_stream_name(text: str) -> bool:
    """Returns whether a text is a valid stream name, `source/partition`."""
    return len(text) <= MAX_NAME_BYTES and _STREAM.fullmatch(text) is not None


def is_name_pattern(text: str) -> bool:
    """Returns whether a text is a valid pattern for names without a slash."""
    return _PART_PATTERN.fullmatch(text) is not None


def is_stream_pattern(text: str) -> bool:
    """Returns whether a text is a valid pattern for stream names."""
    return len(text) <= MAX_NAME_BYTES and _STREAM_PATTERN.fullmatch(text) is not None


def to_name(text: str) -> str:
    """Replaces every character that is not allowed in a name with `_`."""
    return _NO_NAME.sub("_", text)


def source_of(stream: str) -> str:
    """Returns the source part of a stream's name."""
    return stream.partition("/")[0]


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns `; did you mean ...?` if one of `names` resembles `name`; otherwise an empty text.

    Of very many names, it compares only some that are about as long: a gateway has no time for more.
    """
    # Only who makes a mistake waits for this import.
    import difflib

    alike = islice((each for each in names if abs(len(each) - len(name)) <= 3), _MAX_COMPARED)
    near = difflib.get_close_matches(name, list(alike), 1)
    return f"; did you mean {near[0]}?" if near else ""


def covers(pattern: str, name: str) -> bool:
    """Returns whether `pattern` matches `name`. If `name` is a pattern itself, `pattern` must match everything that it matches.

    Takes linear time for any pattern, because any caller of a gateway may send one.
    """
    wanted, found = _parts(pattern), name.split("/")
    return len(wanted) == len(found) and all(map(_matches, wanted, found))


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Returns the texts between the stars of each part of a pattern."""
    return tuple(tuple(part.split("*")) for part in pattern.split("/"))


def _matches(texts: tuple[str, ...], part: str) -> bool:
    """Returns whether a part of a name contains these texts in order. Matching each at its first occurrence is sufficient."""
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
