"""What type checkers know of flows. `make lint` checks this file, too; running it shows that the programs are valid."""

from typing import assert_type

from headrace.pipelines import (
    Aggregation,
    KeyedFlow,
    Pipeline,
    Window,
    Windowed,
    collect,
    count,
    count_window,
    mean,
    sliding,
    total,
    tumbling,
)


def flow() -> KeyedFlow[int]:
    return Pipeline("typed").source("n/*", decode=int).key_by(str)


def described(key: str, celsius: float, window: Window) -> str:
    return f"{key} {window.start_time:%H:%M} {celsius:.1f}"


def of_count(key: str, result: int, window: None) -> bytes:
    return b"%d" % result


class Longest(Aggregation[int, int, str]):
    def initial(self) -> int:
        return 0

    def update(self, accumulator: int, value: int) -> int:
        return max(accumulator, value)

    def output(self, key: str, accumulator: int, window: Window | None) -> str:
        return f"{key} {accumulator}"


def test_results_of_windows_have_the_type_that_output_gives() -> None:
    minutes = flow().window(tumbling("1 minute"), delay="10s")
    assert_type(minutes, Windowed[int, Window])
    assert_type(minutes.aggregate(mean(of=float), output=described), KeyedFlow[str])
    assert_type(
        minutes.aggregate(count(), output=lambda key, n, window: (n, window.end), name="ends"), KeyedFlow[tuple[int, int]]
    )
    assert_type(minutes.collect(lambda key, values, window: values[0] + window.start, name="starts"), KeyedFlow[int])


def test_without_output_they_have_that_of_the_aggregation() -> None:
    assert_type(flow().window(sliding("1h", every="5m")).aggregate(mean()), KeyedFlow[float])
    assert_type(flow().window(tumbling("1h")).aggregate(Longest()), KeyedFlow[str])
    assert_type(flow().aggregate(count()), KeyedFlow[int])


def test_windows_that_count_have_none() -> None:
    pairs = flow().window(count_window(2))
    assert_type(pairs, Windowed[int, None])
    assert_type(pairs.aggregate(count(), output=of_count), KeyedFlow[bytes])
    assert_type(flow().aggregate(count(), output=of_count), KeyedFlow[bytes])


def test_functions_make_aggregations_with_types_of_their_own() -> None:
    def append(values: list[int], value: int) -> list[int]:
        return [*values, value]

    days = flow().window(tumbling("1 day"))
    assert_type(days.aggregate(initial=list[int], update=append), KeyedFlow[list[int]])
    named = days.aggregate(initial=list[int], update=append, output=lambda key, values, window: f"{len(values)}", name="named")
    assert_type(named, KeyedFlow[str])
    assert_type(flow().aggregate(initial=int, update=int.__add__), KeyedFlow[int])


def test_what_a_result_is_none_for_goes_no_further() -> None:
    def large(key: str, sum_: int, window: Window) -> int | None:
        return sum_ if sum_ > 9 else None

    assert_type(flow().window(tumbling("1s")).aggregate(total(), output=large), KeyedFlow[int])
    assert_type(flow().window(tumbling("1s")).aggregate(collect(), output=lambda key, values, _: len(values)), KeyedFlow[int])
