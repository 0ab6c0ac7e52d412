"""A part of a benchmark in which nothing happened is an error that names it, not a traceback or a figure."""

import statistics
from collections.abc import Callable, Iterator

import pytest

from headrace.laboratory.bench.figures import Figure, NothingMeasured, measured
from headrace.laboratory.bench.overhead import Run, overhead
from headrace.laboratory.bench.rig import acknowledged_rate
from headrace.laboratory.bench.sources import quantile_ms


def of_no_message() -> Iterator[Figure]:
    return overhead("console_overhead", "ten clients", lambda observed: Run(0.0, 0.0), lambda line: None, quick=True)


def of_no_time() -> Iterator[Figure]:
    yield Figure("rate", sum([1]) / sum([]), "messages/s")


def of_no_latency() -> Iterator[Figure]:
    yield Figure("p50", statistics.median([]), "ms")


def of_no_acknowledgement() -> Iterator[Figure]:
    yield Figure("rate", acknowledged_rate([]), "messages/s")


def of_one_acknowledgement() -> Iterator[Figure]:
    yield Figure("rate", acknowledged_rate([(1.0, 10)]), "messages/s")


def of_no_quantile() -> Iterator[Figure]:
    yield Figure("p99", quantile_ms([], 0.99), "ms")


def without_a_number() -> Iterator[Figure]:
    yield Figure("fine", 1.0, "ms")
    yield Figure("p99", float("nan"), "ms")


PARTS = [
    of_no_message,
    of_no_time,
    of_no_latency,
    of_no_acknowledgement,
    of_one_acknowledgement,
    of_no_quantile,
    without_a_number,
]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_measured_nothing_is_an_error_that_names_it(part: Callable[[], Iterator[Figure]]) -> None:
    with pytest.raises(NothingMeasured, match="console_overhead has measured nothing"):
        measured("console_overhead", part)


def test_figures_that_were_measured_are_returned() -> None:
    assert measured("part", lambda: iter([Figure("rate", 2.0, "messages/s")])) == [Figure("rate", 2.0, "messages/s")]
