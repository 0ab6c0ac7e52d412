"""Recognises trees of plain values without shared objects, for which pickle's bytes depend only on the values."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

NUMBERS = frozenset({bool, int, float, complex, type(None)})
TEXTS = frozenset({str, bytes})
LEAVES = NUMBERS | TEXTS | {date, datetime, timedelta, Decimal}
LARGE = 256
"""A longer text is written only once."""
_CHANGING = frozenset({list, dict})
_INNER = _CHANGING | {tuple}
_PLAIN = LEAVES | _INNER
_DEEPEST = 12
_FEW = 64


def is_tree(value: Any) -> bool:
    """Whether a value consists of plain values in lists, dicts and tuples, and contains no list or dict twice.

    Sets are excluded, since their order differs between processes. The check proceeds level by level, mostly in C.
    """
    if type(value) not in _INNER:
        return type(value) in LEAVES
    level, seen, count = [value], set[int](), 0
    for _ in range(_DEEPEST):
        inside: list[Any] = []
        for values in _values_in(level):
            kinds = set(map(type, values))
            if kinds <= LEAVES:
                continue
            if not kinds <= _PLAIN:
                return False
            inside += values if kinds <= _INNER else [each for each in values if type(each) in _INNER]
        if not inside:
            return True
        changing = inside if tuple not in set(map(type, inside)) else [each for each in inside if type(each) in _CHANGING]
        count += len(changing)
        seen.update(map(id, changing))
        if len(seen) < count:
            return False
        level = inside
    return False


def has_large_twice(value: Any) -> bool:
    """Whether a tree contains a large text twice, as the same object or as equal ones."""
    level, large = [value], set[Any]()
    while level:
        inside = [each for values in _values_in(level) for each in values if type(each) not in NUMBERS]
        for text in inside:
            if type(text) in TEXTS and len(text) > LARGE:
                if text in large:
                    return True
                large.add(text)
        level = [each for each in inside if type(each) in _INNER]
    return False


def _values_in(level: list[Any]) -> Iterator[Iterable[Any]]:
    """The items of lists, dicts and tuples: separately if there are few, concatenated if there are many."""
    kinds = set(map(type, level))
    if len(level) <= _FEW:
        yield from level
    else:
        yield _joined(level)
    if dict in kinds:
        dicts = level if len(kinds) == 1 else [each for each in level if type(each) is dict]
        yield _joined(map(dict.values, dicts))


class _joined:
    """The concatenated items of iterables, which can be iterated repeatedly."""

    def __init__(self, some: Iterable[Iterable[Any]]) -> None:
        self._some = list(some)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._some)
