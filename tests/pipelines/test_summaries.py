"""Summaries of many values give what a plain loop gives, whatever the order, the micro-batches and the restarts."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipelines.rig import cut

from headrace.pipelines import (
    Aggregation,
    GraphError,
    Message,
    OnError,
    Pipeline,
    Trial,
    distinct,
    quantile,
    session,
    top_n,
)

PROPERTY = settings(max_examples=150, derandomize=True, database=None, deadline=None)
NAN = float("nan")
FLOATS = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
NUMBERS = st.lists(st.none() | st.integers(-(10**12), 10**12) | FLOATS)
KEYS = st.lists(
    st.none() | st.integers(-3, 3) | st.text(max_size=2) | st.binary(max_size=2) | st.floats(-1, 1) | st.booleans()
    | st.tuples(st.integers(0, 2), st.text(max_size=1)),
    max_size=40,
)  # fmt: skip


def accumulated(aggregation: Aggregation[Any, Any, Any], values: list[Any], random: Any, parts: int) -> Any:
    """The result for values in another order, some of which accumulators of their own have taken."""
    mixed = list(values)
    random.shuffle(mixed)
    pieces = [mixed[number::parts] for number in range(parts)]
    made = [reduce(aggregation.update, piece, aggregation.initial()) for piece in pieces]
    return aggregation.output("key", reduce(aggregation.combine, made), None)


def nearest(numbers: list[Any], share: float) -> float:
    there = sorted(float(number) for number in numbers if number is not None)
    return there[math.floor(share * (len(there) - 1))]


@PROPERTY
@given(values=KEYS, random=st.randoms(use_true_random=False), parts=st.integers(1, 3))
def test_different_values_are_counted_and_a_sketch_of_few_is_right(values: list[Any], random: Any, parts: int) -> None:
    expected = len({value for value in values if value is not None})
    assert accumulated(distinct(), values, random, parts) == expected
    assert abs(accumulated(distinct(approximate=True), values, random, parts) - expected) <= 1


@settings(max_examples=15, derandomize=True, database=None, deadline=None)
@given(
    count=st.integers(0, 20_000), start=st.integers(0, 10**9), random=st.randoms(use_true_random=True), parts=st.integers(1, 3)
)
def test_a_sketch_of_many_is_close_and_depends_neither_on_order_nor_repetition(
    count: int, start: int, random: Any, parts: int
) -> None:
    values = list(range(start, start + count))
    once = accumulated(distinct(approximate=True), values, random, 1)
    assert abs(once - count) <= max(1, 5 * 0.01625 * count)
    assert accumulated(distinct(approximate=True), values + values[::3], random, parts) == once


def test_a_sketch_stays_small() -> None:
    aggregation: Aggregation[int, Any, int] = distinct(approximate=True)
    sketch = reduce(aggregation.update, range(50_000), aggregation.initial())
    assert len(sketch) == 4096


@PROPERTY
@given(
    numbers=NUMBERS,
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    accuracy=st.sampled_from([0.0001, 0.01, 0.2, 0.5]),
    random=st.randoms(use_true_random=False),
    parts=st.integers(1, 3),
)
def test_a_quantile_is_within_its_accuracy(
    numbers: list[Any], shares: list[float], accuracy: float, random: Any, parts: int
) -> None:
    found = accumulated(quantile(shares, accuracy=accuracy), numbers, random, parts)
    if all(number is None for number in numbers):
        assert found is None
        return
    for share, each in zip(shares, found, strict=True):
        exact = nearest(numbers, share)
        assert abs(each - exact) <= accuracy * abs(exact) * (1 + 1e-9)
    assert accumulated(quantile(shares[0], accuracy=accuracy), numbers, random, parts) == found[0]


def test_a_quantile_keeps_a_bounded_number_of_intervals_of_which_those_close_to_zero_are_joined() -> None:
    aggregation: Aggregation[int, Any, Any] = quantile([0.0, 0.9], accuracy=0.0001)
    made = [reduce(aggregation.update, some, aggregation.initial()) for some in (range(1, 20_000), range(19_999, 0, -1))]
    assert made[0] == made[1]
    assert len(made[0].above) == 4096
    found = aggregation.output("key", made[0], None)
    assert found is not None
    assert found[1] == pytest.approx(18_000, rel=0.0002)


@PROPERTY
@given(
    values=st.lists(st.none() | st.integers(-3, 3) | st.sampled_from([NAN, 1.0, True, -0.0, 0.0])),
    n=st.integers(1, 5),
    random=st.randoms(use_true_random=False),
    parts=st.integers(1, 3),
)
def test_the_largest_are_found_whatever_the_order(values: list[Any], n: int, random: Any, parts: int) -> None:
    found = accumulated(top_n(n), values, random, parts)
    there = [value for value in values if value is not None]
    assert [repr(value) for value in found] == [repr(value) for value in accumulated(top_n(n), values, random, 1)]
    expected = sorted(there, key=lambda value: (value != value, value if value == value else 0), reverse=True)[:n]
    assert [str(float(value) + 0.0) for value in found] == [str(float(value) + 0.0) for value in expected]


@dataclass
class Bid:
    bidder: str
    amount: int


@PROPERTY
@given(
    bids=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 4)), max_size=20),
    cuts=st.lists(st.integers(0, 100), max_size=5),
    restarts=st.lists(st.booleans(), min_size=1, max_size=6),
    buckets=st.integers(1, 8),
)
def test_results_follow_each_value_across_micro_batches_restarts_and_buckets(
    bids: list[tuple[str, str, int]], cuts: list[int], restarts: list[bool], buckets: int
) -> None:
    app = Pipeline("bids")
    each = app.source("bids/*", lambda payload: tuple(payload.decode().split())).key_by(lambda bid: bid[0], name="item")
    made = each.map(lambda bid: Bid(bid[1], int(bid[2])), name="bid")
    made.aggregate(top_n(2, lambda bid: (bid.amount, bid.bidder), of=lambda bid: bid.bidder), name="top").map(
        " ".join, name="names"
    ).sink("top")
    made.aggregate(distinct(lambda bid: bid.bidder), name="distinct").map(str, name="count").sink("distinct")
    made.aggregate(distinct(lambda bid: bid.bidder, approximate=True), name="sketch").map(str, name="about").sink("sketch")
    made.aggregate(quantile(1, lambda bid: bid.amount), name="highest").map(lambda x: str(round(x)), name="whole").sink("highest")
    made.window(session("1us")).aggregate(quantile(0.5, lambda bid: bid.amount), name="medians").map(
        lambda x: str(round(x)), name="median"
    ).sink("medians")
    trial = Trial(app, buckets=buckets)
    sent = [Message(" ".join(map(str, bid)).encode(), event_time=n // 3, stream="bids/0") for n, bid in enumerate(bids)]
    for number, batch in enumerate(cut(sent, cuts)):
        trial.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    trial.finish()
    expected: dict[str, list[str]] = {"top": [], "distinct": [], "highest": []}
    for number, (item, _, _) in enumerate(bids):
        before = [(amount, bidder) for other, bidder, amount in bids[: number + 1] if other == item]
        expected["top"].append(" ".join(bidder for _, bidder in sorted(before, reverse=True)[:2]))
        expected["distinct"].append(str(len({bidder for _, bidder in before})))
        expected["highest"].append(str(max(before)[0]))
    expected["sketch"] = expected["distinct"]
    for sink, results in expected.items():
        assert sorted(trial.values(sink)) == sorted(text.encode() for text in results)
    assert len(trial.values("medians")) <= len(bids)


def test_what_cannot_be_summarised_follows_the_policy_of_the_step_and_changes_nothing() -> None:
    app = Pipeline("odd", on_error=OnError.SKIP)
    odd = {"1": 1, "2": 2, "nan": NAN, "inf": math.inf, "text": "2", "list": [1]}
    values = app.source("n/*", lambda payload: odd[payload.decode()]).key_by(lambda _: 0, name="all")
    made: dict[str, Aggregation[Any, Any, Any]] = {
        "distinct": distinct(),
        "sketch": distinct(approximate=True),
        "quantile": quantile(1),
        "top": top_n(9),
    }
    for name, aggregation in made.items():
        values.aggregate(aggregation, name=name).map(str, name=f"{name}-text").sink(name)
    trial = Trial(app)
    trial.send(*(Message(name.encode(), stream="n/0") for name in odd))
    assert {name: trial.counts["skipped", name] for name in ("distinct", "sketch", "quantile", "top")} == {
        "distinct": 2,  # nan and a list are no keys
        "sketch": 2,
        "quantile": 4,
        "top": 2,
    }
    assert trial.values("distinct")[-1] == b"4"
    assert trial.values("top")[-1] == b"[nan, inf, 2, 1]"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: distinct(approximate=1), r"distinct\(...\): approximate must be True or False, not 1"),  # type: ignore[arg-type]
        (lambda: distinct("id"), r"distinct\(...\): of must be a function, not 'id'"),  # type: ignore[arg-type]
        (lambda: top_n(0), r"top_n\(...\): n must be from 1 to 10,000, and is 0"),
        (lambda: top_n(10_001), r"top_n\(...\): n must be from 1 to 10,000, and is 10001"),
        (lambda: top_n("3"), r"top_n\(...\): n must be a whole number, not '3'"),  # type: ignore[call-overload]
        (lambda: top_n(3, "amount"), r"top_n\(...\): by must be a function, not 'amount'"),  # type: ignore[call-overload]
        (lambda: quantile(1.1), r"quantile\(...\): at must be from 0 to 1, and is 1.1"),
        (lambda: quantile([0.5, -1]), r"quantile\(...\): at must be from 0 to 1, and is -1"),
        (lambda: quantile([]), r"quantile\(...\): at is a number from 0 to 1, or a list of some, not \[\]"),
        (lambda: quantile("0.5"), r"quantile\(...\): at is a number from 0 to 1, or a list of some, not '0.5'"),  # type: ignore[arg-type]
        (lambda: quantile(NAN), r"quantile\(...\): at must be from 0 to 1, and is nan"),
        (lambda: quantile(0.5, accuracy=0), r"quantile\(...\): accuracy is a relative error from 0.0001 to 0.5, not 0"),
        (lambda: quantile(0.5, accuracy=True), r"quantile\(...\): accuracy is a relative error from 0.0001 to 0.5, not True"),
    ],
)
def test_each_argument_is_checked_where_it_is_given(make: Any, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        make()
