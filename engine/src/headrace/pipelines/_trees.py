"""Tells plain values in which nothing is in two places: what pickle makes of them depends on the values alone."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

NUMBERS = frozenset({bool, int, float, complex, type(None)})
TEXTS = frozenset({str, bytes})
LEAVES = NUMBERS | TEXTS | {date, datetime, timedelta, Decimal}
LARGE = 256
"""A longer text may be written once for many places."""
_CHANGING = frozenset({list, dict})
_INNER = _CHANGING | {tuple}
_PLAIN = LEAVES | _INNER
_DEEPEST = 12
_FEW = 64


def is_tree(value: Any) -> bool:
    """Whether values are numbers, texts and the like in lists, dicts and tuples, and no list or dict is in two places.

    There are no sets in them, whose order is another one in each process. They are looked at level by level, at the speed of C.
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
    """Whether a large text is in two places of a tree, be it one object or two that are equal."""
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
    """What lies in lists, dicts and tuples: of each where there are few, of all together where there are many."""
    kinds = set(map(type, level))
    if len(level) <= _FEW:
        yield from level
    else:
        yield _joined(level)
    if dict in kinds:
        dicts = level if len(kinds) == 1 else [each for each in level if type(each) is dict]
        yield _joined(map(dict.values, dicts))


class _joined:
    """What lies in some iterables, one after the other, as often as somebody goes through it."""

    def __init__(self, some: Iterable[Iterable[Any]]) -> None:
        self._some = list(some)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._some)
