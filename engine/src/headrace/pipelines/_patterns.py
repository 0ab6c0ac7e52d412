"""Patterns of stream names: `*` stands for any text within one part of a name (`orders/*`), as at the gateway."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The texts between the stars of each part of a pattern."""
    return tuple(tuple(part.split("*")) for part in pattern.split("/"))


def matches(pattern: str, stream: str) -> bool:
    """Whether a stream is one that a pattern means."""
    wanted, found = _parts(pattern), stream.split("/")
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
