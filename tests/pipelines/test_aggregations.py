"""The aggregations that are there, on any values."""

from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
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


NAN = float("nan")
VALUES = st.lists(
    st.none() | st.integers(-2, 2) | st.sampled_from([NAN, -0.0, 0.0, 1.0, True, Decimal("nan"), Decimal(1), Decimal("1.0")])
    | st.tuples(st.sampled_from([None, NAN, 0, 1, 0.0]), st.integers(0, 1)),
    max_size=6,
)  # fmt: skip


@settings(max_examples=200, derandomize=True, database=None)
@given(values=VALUES, other=st.randoms(use_true_random=False), parts=st.integers(1, 3))
def test_extremes_depend_neither_on_the_order_nor_on_how_values_are_combined(values: list[Any], other: Any, parts: int) -> None:
    numbers = [value for value in values if not isinstance(value, tuple)]
    for some in (numbers, [value for value in values if isinstance(value, tuple) or value is None]):
        for aggregation in (minimum(), maximum()):
            mixed = list(some)
            other.shuffle(mixed)
            pieces = [mixed[number::parts] for number in range(parts)]
            combined = reduce(aggregation.combine, [reduce(aggregation.update, piece, aggregation.initial()) for piece in pieces])
            assert repr(combined) == repr(reduce(aggregation.update, some, aggregation.initial()))


@pytest.mark.parametrize(
    ("values", "smallest", "largest"),
    [
        ([None, 3], "3", "3"),
        ([3, None], "3", "3"),
        ([NAN, 1.0], "1.0", "nan"),
        ([1.0, NAN], "1.0", "nan"),
        ([NAN], "nan", "nan"),
        ([None], "None", "None"),
        ([(NAN, 1), (2, 5), (2, None)], "(2, None)", "(nan, 1)"),
        ([Decimal("nan"), Decimal(2)], "Decimal('2')", "Decimal('NaN')"),
        ([np.float64("nan"), 2], "2", "np.float64(nan)"),
        ([0.0, -0.0], "-0.0", "-0.0"),
    ],
)
def test_none_is_no_value_and_nan_is_larger_than_numbers(values: list[Any], smallest: str, largest: str) -> None:
    found = [reduce(one.update, values, one.initial()) for one in (minimum(), maximum())]
    assert [repr(each) for each in found] == [smallest, largest]
