"""Quantiles of numbers, within a relative error, by a sketch that depends on nothing but the numbers.

It is a DDSketch (Masson and others, "DDSketch: a fast and fully-mergeable quantile sketch", 2019): it counts numbers in intervals
whose bounds grow by a constant factor. So it is the same in whatever order numbers come, and the sketches of parts add up to the
sketch of the whole, unlike sketches that compact at random or in turn.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MAX_INTERVALS = 4096
"""How many intervals of each sign are kept: beyond, the numbers closest to 0 share one. With 1 %, 35 powers of ten fit."""

_MAX_LOGARITHM = 709.78
"""The logarithm of about the largest number."""


@dataclass
class Counts:
    """How many numbers are in each interval.

    Attributes:
        zeros: How many are 0.
        above: How many are in each interval of positive numbers.
        below: How many are in each interval of negative ones, by the same numbers.
    """

    zeros: int
    above: dict[int, int]
    below: dict[int, int]


@dataclass(frozen=True)
class Intervals:
    """The intervals for an accuracy, between 0 and 1: the largest relative error."""

    accuracy: float

    @property
    def _log_factor(self) -> float:
        return math.log1p(2 * self.accuracy / (1 - self.accuracy))

    def with_number(self, counts: Counts, number: Any) -> Counts:
        """Adds a number; None counts as none.

        Raises:
            ValueError: It is not finite.
            TypeError: It is no number.
        """
        if number is None:
            return counts
        if isinstance(number, (str, bytes)):
            raise TypeError(f"quantile is of numbers, not {number!r}")
        value = float(number)
        if not math.isfinite(value):
            raise ValueError(f"quantile is of finite numbers, not {number!r}")
        if value == 0:
            counts.zeros += 1
            return counts
        side = counts.above if value > 0 else counts.below
        interval = math.ceil(math.log(abs(value)) / self._log_factor)
        side[interval] = side.get(interval, 0) + 1
        _bound(side)
        return counts

    def at(self, counts: Counts, quantiles: Sequence[float]) -> list[float] | None:
        """The quantiles; None without numbers."""
        intervals = [
            *((-self._middle(number), counts.below[number]) for number in sorted(counts.below, reverse=True)),
            *([(0.0, counts.zeros)] if counts.zeros else []),
            *((self._middle(number), counts.above[number]) for number in sorted(counts.above)),
        ]
        if not intervals:
            return None
        ends = list(accumulate(count for _, count in intervals))
        return [intervals[bisect_right(ends, math.floor(quantile * (ends[-1] - 1)))][0] for quantile in quantiles]

    def _middle(self, number: int) -> float:
        """The number that is as close as the accuracy demands to all of an interval."""
        return math.exp(min(number * self._log_factor + math.log1p(-self.accuracy), _MAX_LOGARITHM))


def combined(first: Counts, second: Counts) -> Counts:
    """The counts of the numbers of both."""
    first.zeros += second.zeros
    for side, other in ((first.above, second.above), (first.below, second.below)):
        for interval, count in other.items():
            side[interval] = side.get(interval, 0) + count
        _bound(side)
    return first


def _bound(side: dict[int, int]) -> None:
    """Has the numbers closest to 0 share an interval if there are too many intervals."""
    while len(side) > MAX_INTERVALS:
        lowest = min(side)
        count = side.pop(lowest)
        side[min(side)] += count
