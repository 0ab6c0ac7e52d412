"""Values that are aggregated before the shuffle, too, have the same results as without it."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import cut

from headrace.pipelines import (
    Aggregation,
    GraphError,
    KeyedFlow,
    Late,
    Message,
    OnError,
    Pipeline,
    Trial,
    Window,
    collect,
    count,
    count_window,
    distinct,
    maximum,
    mean,
    minimum,
    quantile,
    session,
    sliding,
    top_n,
    total,
    tumbling,
)
from headrace.pipelines.windows.combining import ROUNDED, Partial
from headrace.pipelines.windows.step import TimeWindows

PROPERTY = settings(max_examples=12, derandomize=True, database=None, deadline=None)
AGGREGATIONS: dict[str, Aggregation[Any, Any, Any]] = {
    "count": count(),
    "total": total(lambda value: value[2]),
    "mean": mean(lambda value: value[2]),
    "minimum": minimum(lambda value: value[2]),
    "maximum": maximum(lambda value: value[2]),
    "distinct": distinct(lambda value: value[2]),
    "sketch": distinct(lambda value: value[2], approximate=True),
    "quantile": quantile([0.5, 0.9], lambda value: value[2]),
    "top_n": top_n(2, lambda value: value[2], of=lambda value: value[2]),
    "halves": total(lambda value: Fraction(value[2]) / 2),
}
Value = tuple[str, int, float]


def decode(payload: bytes) -> Value:
    key, second, number = payload.decode().split()
    return key, int(second), float(number) if "." in number else int(number)


def shown(key: str, result: Any, window: Window | None) -> str:
    assert window is not None
    return f"{key} {window.start // 10**6} {result}"


def looked(key: str, result: Any, window: Window | None) -> str:
    assert window is not None
    return f"{key} {window.start // 10**6} {result!r}"


def keyed(app: Pipeline | None = None) -> KeyedFlow[Value]:
    app = app or Pipeline("hot")
    values = app.source("n/*", decode=decode).event_time(lambda value: value[1] * 10**6, name="times")
    return values.key_by(lambda value: value[0], name="by-key")


def pipeline(name: str, windows: Any, late: Late, delay: str, before_shuffle: bool) -> Pipeline:
    app = Pipeline("hot")
    windowed = keyed(app).window(windows, delay=delay, late=late)
    results = windowed.aggregate(AGGREGATIONS[name], output=shown, before_shuffle=before_shuffle, name="window")
    results.key_by(lambda text: "all", name="again").stateful(
        lambda text, seen: seen.append(text) or text, list, name="seen"
    ).sink("out")
    return app


SECONDS = st.integers(0, 7) | st.integers(0, 60)
values = st.tuples(st.sampled_from("aaab"), SECONDS, st.integers(-3, 9), st.integers(0, 1))
WITH_FLOATS = st.tuples(st.sampled_from("aaab"), SECONDS, st.sampled_from([0.1, 9.99, 17, 20]), st.integers(0, 1))


@pytest.mark.parametrize("name", AGGREGATIONS)
@PROPERTY
@given(
    windows=st.sampled_from([tumbling("5 s"), tumbling("1 s"), sliding("6 s", every="2 s")]),
    late=st.sampled_from([Late.DROP, Late.PLACE_IN_OLDEST]),
    delay=st.sampled_from(["0 s", "2 s", "10 s"]),
    drawn=st.lists(values, max_size=60) | st.lists(WITH_FLOATS, max_size=60),
    is_sorted=st.booleans(),
    cuts=st.lists(st.integers(0, 100), max_size=4),
    restarts=st.lists(st.booleans(), min_size=1, max_size=5),
    buckets=st.integers(1, 8),
)
def test_results_are_those_without_it_whatever_the_micro_batches_restarts_and_buckets(
    name: str,
    windows: Any,
    late: Late,
    delay: str,
    drawn: list[tuple[str, int, float, int]],
    is_sorted: bool,
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
) -> None:
    rows = sorted(drawn, key=lambda row: row[1]) if is_sorted else drawn

    def run(before_shuffle: bool) -> tuple[list[Any], int, Any]:
        app = pipeline(name, windows, late, delay, before_shuffle)
        trial, stages = Trial(app, buckets=buckets), Stages(app, buckets, failing=0.2, seed=len(drawn))
        last = {0: 0, 1: 0}
        sent = []
        for key, second, number, stream in rows:
            last[stream] += 1
            sent.append(Message(f"{key} {second} {number}".encode(), None, None, f"n/{stream}", last[stream]))
        trial.open("n/0", "n/1")
        stages.open("n/0", "n/1")
        for at, batch in enumerate(cut(sent, cuts)):
            trial.send(*batch)
            stages.send(*batch)
            if restarts[at % len(restarts)]:
                trial.restart()
        trial.finish()
        stages.end(all_=True)
        late_values = trial.counts["late", "window"]
        assert sorted(trial.values("out")) == sorted(value for _, value in stages.written["out"])
        assert stages.counts["late", "window"] == late_values
        return trial.values("out"), late_values, trial.states("seen")

    without = run(False)
    try:
        found = run(True)
    except Exception as error:
        reason = str(error)
    else:
        assert found == without
        added = [] if without[1] else [number for _, _, number, _ in drawn]
        assert name not in ("total", "mean") or float not in map(type, added)
        return
    assert name in ("total", "mean")
    assert ROUNDED in reason
    assert float in (type(number) for _, _, number, _ in drawn)


@dataclass(frozen=True, order=True)
class Ranked:
    rank: int
    note: str = field(compare=False)


NAN = float("nan")
LOOKS: dict[str, Sequence[Any]] = {
    "numbers": (1, 1.0, True, Decimal("1"), Decimal("1.00"), 0, 0.0, -0.0, False, NAN, Decimal("NaN"), None),
    "tuples": ((1, "a"), (1.0, "a"), (True, "a"), (1, "b"), (0.0, "b"), (-0.0, "b"), (NAN, "a"), None),
    "ranks": (Ranked(1, "a"), Ranked(1, "b"), Ranked(1, "c"), Ranked(2, "a"), Ranked(2, "b"), None),
}
"""Values that look different, some of which are equal."""


def rank(value: Any) -> Any:
    """What a value is compared by: of equal ones, it is the same."""
    if isinstance(value, tuple):
        return tuple(map(rank, value))
    if isinstance(value, Ranked):
        return value.rank
    return value if isinstance(value, str) else (value != value, 0 if value != value else value)


def look(value: Any) -> tuple[str, str]:
    """What tells equal values apart."""
    return type(value).__name__, repr(value)


def smallest(values: Sequence[Any]) -> Any:
    return min((one for one in values if one is not None), key=lambda one: (rank(one), look(one)), default=None)


def largest(values: Sequence[Any]) -> Any:
    there = [one for one in values if one is not None]
    return min((one for one in there if rank(one) == max(map(rank, there))), key=look, default=None)


def two_largest(values: Sequence[Any]) -> list[Any]:
    there = (one for one in values if one is not None)
    return sorted(there, key=lambda one: (rank(one), look(one)), reverse=True)[:2]


ORACLES: dict[str, tuple[Callable[..., Aggregation[Any, Any, Any]], Callable[[Sequence[Any]], Any]]] = {
    "minimum": (lambda of: minimum(of), smallest),
    "maximum": (lambda of: maximum(of), largest),
    "top_n": (lambda of: top_n(2, of, of=of), two_largest),
}


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("name", ORACLES)
@PROPERTY
@given(
    windows=st.sampled_from([tumbling("20 s"), sliding("20 s", every="5 s")]),
    drawn=st.lists(st.tuples(st.sampled_from("aab"), st.integers(0, 30), st.integers(0, 11), st.integers(0, 1)), max_size=40),
    cuts=st.lists(st.integers(0, 100), max_size=4),
    restarts=st.lists(st.booleans(), min_size=1, max_size=5),
    buckets=st.integers(1, 8),
)
def test_of_equal_values_that_look_different_the_same_ones_are_found_whatever_the_micro_batches(
    name: str,
    looks: str,
    windows: Any,
    drawn: list[tuple[str, int, int, int]],
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
) -> None:
    values, (make, oracle) = LOOKS[looks], ORACLES[name]
    app = Pipeline("hot")
    windowed = keyed(app).window(windows, delay="1 h")
    found = windowed.aggregate(
        make(lambda value: values[value[2] % len(values)]), output=looked, before_shuffle=True, name="window"
    )
    found.sink("out")
    trial, stages = Trial(app, buckets=buckets), Stages(app, buckets, failing=0.2, seed=len(drawn))
    sent = [
        Message(f"{key} {second} {number}".encode(), None, None, f"n/{stream}", sequence)
        for sequence, (key, second, number, stream) in enumerate(drawn, 1)
    ]
    for at, batch in enumerate(cut(sent, cuts)):
        trial.send(*batch)
        stages.send(*batch)
        if restarts[at % len(restarts)]:
            trial.restart()
    trial.finish()
    stages.end(all_=True)
    members: defaultdict[tuple[str, int], list[Any]] = defaultdict(list)
    for key, second, number, _ in drawn:
        for start in range(second - second % (windows.every // 10**6), second - 20, -windows.every // 10**6):
            members[key, start].append(values[number % len(values)])
    expected = (f"{key} {start} {oracle(some)!r}".encode() for (key, start), some in members.items())
    assert sorted(trial.values("out")) == sorted(expected)
    assert sorted(value for _, value in stages.written["out"]) == sorted(trial.values("out"))


@pytest.mark.parametrize("aggregation", [total(lambda value: value[2]), mean(lambda value: value[2])])
@pytest.mark.parametrize("number", ["0.1", "9.99", "3.0"])
@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3], [3]])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_rounded_sum_fails_whatever_the_micro_batches(
    aggregation: Aggregation[Any, Any, Any], number: str, cuts: list[int], is_first: bool
) -> None:
    app = Pipeline("hot")
    keyed(app).window(tumbling("10 s")).aggregate(aggregation, before_shuffle=True, name="window").map(str, name="text").sink(
        "out"
    )
    trial, whole = Trial(app), ["17", "20", "18"]
    numbers = [number, *whole] if is_first else [*whole, number]
    messages = [Message(f"a {n} {value}".encode(), stream="n/0") for n, value in enumerate(numbers)]

    def send() -> None:
        for start, end in itertools.pairwise([0, *cuts, 4]):
            trial.send(*messages[start:end])

    failing = f"stream n/0, sequence {1 if is_first else 4}: ValueError: .*before_shuffle adds whole numbers and fractions only"
    with pytest.raises(Exception, match=failing):
        send()


def pieces(aggregation: Aggregation[Any, Any, Any], *messages: str) -> list[Any]:
    """The values that reach the step."""
    app = Pipeline("hot")
    keyed(app).window(tumbling("10 s")).aggregate(aggregation, before_shuffle=True, name="window").map(str, name="text").sink(
        "out"
    )
    seen: list[Any] = []
    (step,) = (step for step in app.graph.steps if isinstance(step, TimeWindows))
    apply = step.apply
    object.__setattr__(step, "apply", lambda elements, step_pass: seen.extend(elements.values) or apply(elements, step_pass))
    trial = Trial(app)
    trial.send(*(Message(message.encode(), stream="n/0") for message in messages))
    trial.finish()
    return seen


def test_values_of_a_key_in_one_window_are_one_element() -> None:
    found = pieces(total(lambda value: value[2]), "a 1 1", "b 2 5", "a 3 2", "a 12 7", "a 4 4")
    assert found == [("b", 2, 5), Partial(3, 2), ("a", 12, 7), ("a", 4, 4)], "the last one is late"


def test_fractions_are_combined() -> None:
    found = pieces(total(lambda value: Fraction(value[2], 10)), "a 1 1", "a 2 2", "a 3 3")
    assert found == [Partial(Fraction(6, 10), 3)]


def test_many_keys_with_few_values_are_left_alone() -> None:
    found = pieces(count(), *(f"k{n} 1 {n}" for n in range(50)), "k0 1 0")
    assert len(found) == 51


def test_a_value_that_fails_is_named_as_without_it() -> None:
    errors = []
    for before_shuffle in (False, True):
        app = Pipeline("hot")
        keyed(app).window(tumbling("10 s")).aggregate(
            total(lambda v: 1 // v[2]), before_shuffle=before_shuffle, name="window"
        ).map(str, name="text").sink("out")
        trial = Trial(app)
        with pytest.raises(Exception, match=r"step window, key 'a', stream n/0, sequence 2: ZeroDivisionError") as raised:
            trial.send(*(Message(f"a 1 {n}".encode(), stream="n/0") for n in (1, 0, 1)))
        errors.append(str(raised.value))
    assert errors[0] == errors[1]


class NoCombine(Aggregation[Any, int, int]):
    def initial(self) -> int:
        return 0

    def update(self, accumulator: int, value: Any) -> int:
        return accumulator + 1

    def output(self, key: Any, accumulator: int, window: Window | None) -> int:
        return accumulator


def test_what_would_change_results_is_refused() -> None:
    hour = tumbling("1 h")
    for windowed, text in (
        (keyed().window(session("1 h")), "which values a session takes depends on the marks and sessions before them"),
        (keyed().window(count_window(3)), "a window that counts values may end between two that were combined"),
        (keyed().window(count_window(3, ttl="1 h")), "a window that counts values may end between two that were combined"),
        (keyed().window(count_window(3, clock_ttl="1 h")), "a window that counts values may end between two"),
        (keyed().window(sliding("5 s", every="2 s")), "a multiple of every"),
        (keyed().window(hour, late=Late.FIRE), "each late value has a result of its own"),
        (keyed().map(lambda value: value).window(hour), "must follow the first key_by"),
        (keyed().map(lambda value: value).key_by(lambda value: 0, name="b").window(hour), "must follow the first key_by"),
        (keyed(Pipeline("hot", on_error=OnError.SKIP)).window(hour), r"pass on_error=OnError.FAIL"),
        (keyed(Pipeline("hot", max_keys=3)).window(hour), "remove max_keys"),
    ):
        with pytest.raises(GraphError, match="pipeline hot, step window: before_shuffle: ") as raised:
            windowed.aggregate(count(), before_shuffle=True, name="window")
        assert text in str(raised.value)
    for changed in ({}, {"output": lambda key, found, window: found}):
        with pytest.raises(GraphError, match=r"before_shuffle: collect\(\) shows the order"):
            keyed().window(hour).aggregate(collect(), before_shuffle=True, name="window", **changed)
    with pytest.raises(GraphError, match="the aggregation needs combine"):
        keyed().window(hour).aggregate(NoCombine(), before_shuffle=True, name="window")
    app = Pipeline("hot")
    flow = keyed(app)
    flow.map(str, name="text").sink("raw")
    flow.window(hour).aggregate(count(), before_shuffle=True, name="window").map(str, name="other").sink("out")
    with pytest.raises(GraphError, match="step window combines values before the shuffle, so nothing else can follow"):
        Trial(app)
