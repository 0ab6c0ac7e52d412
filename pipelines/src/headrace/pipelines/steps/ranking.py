"""The largest values of a key.

The order is total, so the result does not depend on the order in which values come: see `extremes`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from headrace.pipelines.steps.extremes import by_text, order

_PLAIN = frozenset({int, float, str, bytes})


@dataclass(frozen=True)
class Ranking:
    """Keeps some values with the largest ranks, the largest one first.

    Attributes:
        size: How many.
        by: Returns the rank of a value; None counts as no value.
        of: Returns what to keep of a value.
    """

    size: int
    by: Callable[[Any], Any]
    of: Callable[[Any], Any]

    def with_value(self, ranked: list[tuple[Any, Any]], value: Any) -> list[tuple[Any, Any]]:
        """Adds a value.

        Raises:
            TypeError: Its rank cannot be compared with others.
        """
        rank = self.by(value)
        if rank is None:
            return ranked
        kind, at = type(rank), len(ranked)
        if kind in _PLAIN:
            # What `order` says of these, in a fraction of the time; equal ones and NaN are left to it.
            while at and type(ranked[at - 1][0]) is kind and ranked[at - 1][0] < rank:
                at -= 1
            if not at or (type(ranked[at - 1][0]) is kind and rank < ranked[at - 1][0]):
                return ranked if at == self.size else [*ranked[:at], (rank, self.of(value)), *ranked[at:]][: self.size]
        elif len(ranked) == self.size and order(rank, ranked[-1][0]) < 0:
            return ranked
        return self.combined(ranked, [(rank, self.of(value))])

    def combined(self, first: list[tuple[Any, Any]], second: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The largest values of both. Errors as `with_value`."""
        return sorted([*first, *second], key=_FROM_LARGEST)[: self.size]


def _from_largest(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    return order(other[0], one[0]) or by_text(one[1], other[1])


_FROM_LARGEST = cmp_to_key(_from_largest)


def values_of(ranked: list[tuple[Any, Any]]) -> list[Any]:
    """The values without their ranks."""
    return [value for _, value in ranked]
