"""Patterns of stream and pipeline names: `*` stands for any text within one part of a name (`orders/*`).

Whoever calls may bring a pattern, so matching one never tries anything twice.
"""

from functools import lru_cache


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The texts between the stars of each part of a pattern."""
    return tuple(tuple(part.split("*")) for part in pattern.split("/"))


def covers(pattern: str, name: str) -> bool:
    """True where `pattern` matches `name`; `name` may be a pattern itself, and is then covered where all it matches is."""
    wanted, found = _parts(pattern), name.split("/")
    return len(wanted) == len(found) and all(map(_matches, wanted, found))


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
