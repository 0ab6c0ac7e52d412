"""The aggregations that are there, on any values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipelines import Aggregation, collect, count, maximum, mean, minimum, total

NUMBERS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8)
EACH = [
    (count, lambda values: len(values)),
    (total, sum),
    (mean, lambda values: sum(values) / len(values)),
    (minimum, min),
    (maximum, max),
    (collect, list),
]


def accumulated(aggregation: Aggregation, values: list[int]) -> object:
    accumulator = aggregation.initial()
    for value in values:
        accumulator = aggregation.update(accumulator, value)
    return accumulator


@pytest.mark.parametrize(("make", "expected"), EACH)
@settings(max_examples=30)
@given(values=NUMBERS, more=NUMBERS)
def test_aggregations(make, expected, values: list[int], more: list[int]) -> None:
    aggregation = make()
    assert aggregation.output("key", accumulated(aggregation, values), None) == expected(values)
    both = aggregation.combine(accumulated(aggregation, values), accumulated(aggregation, more))
    assert aggregation.output("key", both, None) == expected(values + more)


@pytest.mark.parametrize(("make", "expected"), EACH[1:])
@settings(max_examples=30)
@given(values=NUMBERS)
def test_aggregations_of_a_part_of_each_value(make, expected, values: list[int]) -> None:
    aggregation = make(of=lambda pair: pair[1])
    accumulator = accumulated(aggregation, [("x", value) for value in values])
    assert aggregation.output("key", accumulator, None) == expected(values)


def test_an_aggregation_that_cannot_combine() -> None:
    class Last(Aggregation):
        def initial(self):
            return None

        def update(self, accumulator, value):
            return value

        def output(self, key, accumulator, window):
            return accumulator

    with pytest.raises(NotImplementedError, match="Last has no combine"):
        Last().combine(1, 2)
