"""Counters and histograms that an application declares: steps that count values, and pass them on.

All numbers of a series are whole, sums of a histogram in billionths, so that sums depend on no order. The values of a label are
declared, so that the number of series is bounded.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import add, index
from typing import Any

from headrace.pipelines.arguments import excerpt
from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.steps.step import Step, StepPass, each

OTHER = "other"
"""The value of the label for all values that are not declared."""
NO_LABEL = ""
"""The value of the label of a step without one."""
BILLION = 1_000_000_000
MAX_NUMBER = 10**15
"""The largest number that one value may count for."""

Series = Mapping[str, tuple[int, ...]]
"""By the value of the label: the count; of a histogram, the count of each bucket, and the sum in billionths."""


@dataclass(frozen=True, slots=True)
class Metered:
    """The series of one step, as of a micro-batch.

    Attributes:
        bounds: The upper bounds of the buckets; None for a counter.
        series: The numbers.
    """

    bounds: tuple[float, ...] | None
    series: Series


@dataclass(frozen=True)
class Histogram:
    """A histogram as of the last micro-batch.

    Attributes:
        count: The number of values.
        total: Their sum, exact to a billionth for each value.
        buckets: How many of them are in each bucket, by its upper bound, which is infinite for the last one.
    """

    count: int
    total: float
    buckets: Mapping[float, int]


@dataclass(frozen=True, eq=False)
class Meter(Step):
    """Counts the values that it receives, and passes them on.

    Attributes:
        number: Returns the number that a value counts for, or that goes into a bucket; None for 1.
        by: Returns the value of the label, or None to count nothing; None for no label.
        values: The values that the label may have. All others are OTHER.
        bounds: The upper bounds of the buckets; None for a counter.
    """

    number: Callable[[Any], Any] | None
    by: Callable[[Any], str | None] | None
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] | None = None

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements."""
        if self.number is None and self.by is None:
            if len(elements):
                step_pass.tally(self.name, {NO_LABEL: (len(elements),)})
            return elements
        found, kept = each(self, self._place_of, elements, step_pass)
        pairs = [one for one in found if one is not None]
        if pairs:
            step_pass.tally(self.name, self._sums(pairs) if self.bounds is None else self._buckets(pairs, self.bounds))
        return kept

    def after(self, before: Metered | None, more: Series) -> Metered:
        """Its series after a micro-batch. Values that are no longer declared are OTHER; with other bounds, all begin anew."""
        sums = dict.fromkeys(self.labels, (0,) * self.size)
        for series in (before.series if before is not None and before.bounds == self.bounds else {}, more):
            for value, numbers in series.items():
                place = value if value in sums else (NO_LABEL if self.by is None else OTHER)
                sums[place] = tuple(map(add, sums[place], numbers))
        return Metered(self.bounds, sums)

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of the label in its series."""
        return (NO_LABEL,) if self.by is None else tuple(dict.fromkeys((*self.values, OTHER)))

    @property
    def size(self) -> int:
        """How many numbers each of its series has."""
        return 1 if self.bounds is None else len(self.bounds) + 2

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "counter" if self.bounds is None else "histogram"

    @property
    def calls_function(self) -> bool:
        """Whether it has a function."""
        return self.number is not None or self.by is not None

    def _place_of(self, value: Any) -> tuple[str, int | float] | None:
        """The value of the label and the number of a value; None if it is not counted."""
        place = NO_LABEL
        if self.by is not None:
            label = self.by(value)
            if label is None:
                return None
            if not isinstance(label, str):
                raise TypeError(f"by returned {excerpt(label)}, and the value of a label is text")
            place = label if label in self.values else OTHER
        number = 1 if self.number is None else self.number(value)
        if self.bounds is None:
            return place, _amount(number)
        return None if number is None else (place, _measured(number))

    def _sums(self, pairs: Sequence[tuple[str, Any]]) -> Series:
        sums = dict[str, int]()
        for place, amount in pairs:
            sums[place] = sums.get(place, 0) + amount
        return {place: (total,) for place, total in sums.items()}

    def _buckets(self, pairs: Sequence[tuple[str, Any]], bounds: Sequence[float]) -> Series:
        sums = dict[str, list[int]]()
        for place, number in pairs:
            numbers = sums.get(place)
            if numbers is None:
                numbers = sums[place] = [0] * self.size
            numbers[bisect_left(bounds, number)] += 1
            numbers[-1] += round(number * BILLION)
        return {place: tuple(numbers) for place, numbers in sums.items()}


def added(first: Series | None, second: Series | None) -> Series | None:
    """The sums of two parts of the series of one step."""
    if not first or not second:
        return first or second
    sums = dict(first)
    for value, numbers in second.items():
        sums[value] = tuple(map(add, sums[value], numbers)) if value in sums else numbers
    return sums


def metered(meters: Iterable[Meter], before: Mapping[str, Metered], more: Mapping[str, Series]) -> dict[str, Metered]:
    """The series of all steps after a micro-batch, by the step's name.

    Args:
        meters: The steps.
        before: The series before it.
        more: The series that it adds, by step.
    """
    return {meter.name: meter.after(before.get(meter.name), more.get(meter.name, {})) for meter in meters}


def histogram_of(bounds: Sequence[float], numbers: Sequence[int]) -> Histogram:
    """The histogram of the numbers of a series."""
    counts = numbers[:-1]
    return Histogram(sum(counts), numbers[-1] / BILLION, dict(zip((*bounds, float("inf")), counts, strict=True)))


def _amount(number: Any) -> int:
    """The number that a value adds to a counter."""
    if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 <= (amount := index(number)) <= MAX_NUMBER:
        raise ValueError(f"amount returned {excerpt(number)}, and a counter adds whole numbers from 0 to {MAX_NUMBER:,}")
    return amount


def _measured(number: Any) -> float:
    """The number that goes into a bucket of a histogram."""
    measured = float(number)
    if isinstance(number, (str, bytes, bytearray)) or not isfinite(measured) or abs(measured) > MAX_NUMBER:
        raise ValueError(f"of returned {excerpt(number)}, and a histogram takes numbers from -{MAX_NUMBER:,} to {MAX_NUMBER:,}")
    return measured
