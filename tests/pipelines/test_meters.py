"""Counters and histograms count each value once, whatever the micro-batches, restarts, buckets and failed attempts."""

from bisect import bisect_left
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import cut

from headrace.pipelines import Flow, GraphError, Message, OnError, Pipeline, Trial, TrialError

PROPERTY = settings(max_examples=60, derandomize=True, database=None, deadline=None)
BOUNDS = (0.5, 1.0, 2.5)


def label(number: int) -> str | None:
    if number % 11 == 10:
        raise ValueError("no label")
    return None if number % 7 == 6 else ["even", "odd", "third", "what"][number % 4]


def size(number: int) -> float | None:
    return None if number % 5 == 4 else number / 10


def metered() -> Pipeline:
    """Counts before the first shuffle, after it and after the second one, beside a branch and at the end of one."""
    app = Pipeline("metered", on_error=OnError.SKIP)
    numbers = app.source("n/*", decode=int).counter("read")
    numbers.filter(lambda n: n % 2 == 0, name="is-even").counter("side")
    labelled = numbers.counter("kinds", by=label, values=["even", "odd", "third"])
    keyed = labelled.key_by(lambda n: n % 4, name="by-rest").histogram("sizes", size, BOUNDS).counter("sum", lambda n: n)
    counted = keyed.stateful(lambda n, seen: seen.append(n) or n, list, name="seen")
    again = counted.key_by(lambda n: n % 3, name="by-third")
    again.histogram("late-sizes", lambda n: n, [10], by=label, values=["odd"]).map(str, name="text").sink("out")
    return app


def is_labelled(number: int) -> bool:
    return number % 11 != 10


def oracle(numbers: list[int]) -> dict[tuple[str, str], Any]:
    """What each series has, of a histogram the counts of the buckets and the sum."""
    found: Counter[tuple[str, str]] = Counter()
    later = [number for number in numbers if is_labelled(number)]
    found["read", ""], found["side", ""] = len(numbers), sum(number % 2 == 0 for number in numbers)
    found["sum", ""] = sum(later)
    kinds = [kind for number in later if (kind := label(number)) is not None]
    found.update(("kinds", kind if kind != "what" else "other") for kind in kinds)
    sizes = [some for number in later if (some := size(number)) is not None]
    late = {"odd": [n for n in later if label(n) == "odd"], "other": [n for n in later if label(n) not in (None, "odd")]}
    return {
        **{("kinds", kind): 0 for kind in ("even", "odd", "third", "other")},
        **found,
        ("sizes", ""): histogram(sizes, BOUNDS),
        **{("late-sizes", kind): histogram(some, (10,)) for kind, some in late.items()},
    }


def histogram(numbers: list[Any], bounds: tuple[float, ...]) -> tuple[list[int], float]:
    counts = Counter(bisect_left(bounds, number) for number in numbers)
    return [counts[place] for place in range(len(bounds) + 1)], float(sum(Fraction(str(number)) for number in numbers))


def of_trial(trial: Trial) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for meter in trial.pipeline.graph.meters:
        for value in meter.labels:
            if meter.bounds is None:
                found[meter.name, value] = trial.counter(meter.name, value)
            else:
                shown = trial.histogram(meter.name, value)
                assert shown.count == sum(shown.buckets.values())
                assert list(shown.buckets) == [*meter.bounds, float("inf")]
                found[meter.name, value] = list(shown.buckets.values()), shown.total
    return found


@PROPERTY
@given(
    numbers=st.lists(st.integers(0, 60), max_size=40),
    cuts=st.lists(st.integers(0, 100), max_size=5),
    restarts=st.lists(st.booleans(), min_size=1, max_size=6),
    buckets=st.integers(1, 8),
)
def test_each_value_counts_once_whatever_the_micro_batches_restarts_and_buckets(
    numbers: list[int], cuts: list[int], restarts: list[bool], buckets: int
) -> None:
    trial, stages = Trial(metered(), buckets=buckets), Stages(metered(), buckets, failing=0.2)
    for number, batch in enumerate(cut([Message(b"%d" % n, None, None, f"n/{n % 3}") for n in numbers], cuts)):
        trial.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    last: Counter[str] = Counter()
    sent = []
    for n in numbers:
        last[f"n/{n % 3}"] += 1
        sent.append(Message(b"%d" % n, None, None, f"n/{n % 3}", last[f"n/{n % 3}"]))
    for batch in cut(sent, cuts):
        stages.send(*batch)
    assert of_trial(trial) == oracle(numbers)
    of_tasks = {step: done.series for step, done in stages.done.measures.items() if done.series}
    trial.restart()
    whole = {meter.name: meter.after(None, of_tasks.get(meter.name, {})) for meter in trial.pipeline.graph.meters}
    assert whole == trial._metered


def flow() -> Flow[int]:
    return Pipeline("p").source("n/*", decode=int)


def test_a_value_that_is_no_longer_declared_counts_as_other_and_other_bounds_begin_anew() -> None:
    def app(values: list[str], bounds: list[float]) -> Pipeline:
        made = Pipeline("p")
        numbers = made.source("n/*", decode=int)
        numbers.counter("kinds", by=lambda n: "ab"[n % 2], values=values).histogram("sizes", lambda n: n, bounds).map(str).sink(
            "out"
        )
        return made

    trial = Trial(app(["a", "b"], [1, 2]))
    trial.send(*(Message(b"%d" % n, stream="n/0") for n in range(5)))
    trial.restart(app(["b"], [1, 2]))
    assert (trial.counter("kinds", "b"), trial.counter("kinds", "other"), trial.histogram("sizes").count) == (2, 3, 5)
    trial.send(Message(b"0", stream="n/0"), Message(b"1", stream="n/0"))
    trial.restart(app(["a", "b"], [1, 3]))
    assert [trial.counter("kinds", value) for value in ("a", "b", "other")] == [0, 3, 4]
    assert trial.histogram("sizes").count == 0


LABELS = st.permutations(["de", "fr", "other", "it"]).flatmap(lambda all_: st.integers(1, 4).map(lambda n: all_[:n]))


@given(before=LABELS, after=LABELS)
def test_other_has_all_that_is_no_longer_declared_wherever_it_is_declared(before: list[str], after: list[str]) -> None:
    def meter(values: list[str]) -> Any:
        app = Pipeline("p")
        app.source("n/*", decode=str).counter("kinds", by=str, values=values)
        return app.graph.meters[0]

    old = meter(before).after(None, {value: (10**at,) for at, value in enumerate(before)})
    found = meter(after).after(old, {}).series
    wanted = dict.fromkeys([*after, "other"], 0)
    for at, value in enumerate(before):
        wanted[value if value in after else "other"] += 10**at
    assert found == {value: (count,) for value, count in wanted.items()}


@pytest.mark.parametrize("amount", [-1, 0.5, True, "1", None, 10**16])
def test_a_counter_adds_whole_numbers_only(amount: Any) -> None:
    app = Pipeline("p", on_error=OnError.SKIP)
    app.source("n/*", decode=int).counter("sum", lambda n: amount if n else 3).map(str, name="text").sink("out")
    trial = Trial(app)
    trial.send(*(Message(b"%d" % n, stream="n/0") for n in (0, 1)))
    assert trial.counter("sum") == 3
    assert trial.counts["skipped", "sum"] == 1
    assert trial.values("out") == [b"0"], "a value that cannot be counted goes where the policy says"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "1", 1e300])
def test_a_histogram_takes_finite_numbers_only(number: Any) -> None:
    app = Pipeline("p", on_error=OnError.SKIP)
    app.source("n/*", decode=int).histogram("sizes", lambda n: number if n else -2, [-3, 0])
    trial = Trial(app)
    trial.send(*(Message(b"%d" % n, stream="n/0") for n in (0, 1)))
    found = trial.histogram("sizes")
    assert (found.count, found.total, list(found.buckets.values())) == (1, -2.0, [0, 1, 0])
    assert trial.counts["skipped", "sizes"] == 1


def test_a_label_that_is_no_text_fails() -> None:
    app = Pipeline("p", on_error=OnError.SKIP)
    app.source("n/*", decode=int).counter("kinds", by=lambda n: n, values=["a"])  # type: ignore[arg-type, return-value]
    trial = Trial(app)
    trial.send(Message(b"1", stream="n/0"))
    assert (trial.counter("kinds", "a"), trial.counter("kinds", "other"), trial.counts["skipped", "kinds"]) == (0, 0, 1)


def test_what_is_invalid_is_refused_with_the_name_of_the_step() -> None:
    for wrong, text in (
        (lambda f: f.counter(None), "name is the text that metrics show"),
        (lambda f: f.counter(" a"), "name must be text"),
        (lambda f: f.counter("a", values=["x"]), "pass by, or remove values"),
        (lambda f: f.counter("a", by=str), "values are 1 to 100 different texts"),
        (lambda f: f.counter("a", by=str, values=["x", "x"]), "values are 1 to 100 different texts"),
        (lambda f: f.counter("a", by=str, values=[str(n) for n in range(101)]), "values are 1 to 100 different texts"),
        (lambda f: f.counter("a", by=str, values=["a\nb"]), "step a, values: name must be text"),
        (lambda f: f.counter("a", by=1, values=["x"]), "by must be a function"),
        (lambda f: f.counter("a", 1), "amount must be a function"),
        (lambda f: f.histogram("a", abs, []), "bounds are 1 to 50 numbers"),
        (lambda f: f.histogram("a", abs, [2, 1]), "bounds are 1 to 50 numbers"),
        (lambda f: f.histogram("a", abs, [1, float("nan")]), "bounds are 1 to 50 numbers"),
        (lambda f: f.histogram("a", abs, "12"), "bounds are 1 to 50 numbers"),
        (lambda f: f.counter("a").counter("a"), "two steps named a"),
    ):
        with pytest.raises(GraphError, match="pipeline p") as raised:
            wrong(flow())  # type: ignore[no-untyped-call]
        assert text in str(raised.value)


def test_the_numbers_of_all_counters_are_bounded() -> None:
    app = Pipeline("p")
    numbers = app.source("n/*", decode=int)
    for at in range(2):
        numbers = numbers.histogram(f"h{at}", abs, range(48), by=str, values=[str(n) for n in range(9)])
    assert Trial(app).histogram("h0", "other").count == 0
    further = Pipeline("p")
    numbers = further.source("n/*", decode=int).counter("last")
    for at in range(2):
        numbers = numbers.histogram(f"h{at}", abs, range(48), by=str, values=[str(n) for n in range(9)])
    with pytest.raises(GraphError, match="with step h1, counters and histograms have 1,001 numbers, and may have 1,000"):
        Trial(further)


def test_a_trial_names_the_counters_that_there_are() -> None:
    app = Pipeline("p")
    app.source("n/*", decode=int).counter("read", by=str, values=["1"]).histogram("sizes", abs, [1])
    trial = Trial(app)
    for ask, text in (
        (lambda: trial.counter("raed"), "did you mean 'read'"),
        (lambda: trial.counter("sizes"), "has no counter 'sizes'"),
        (lambda: trial.histogram("read"), "has no histogram 'read'"),
        (lambda: trial.counter("read"), "counter read has no value ''; there are: 1, other"),
    ):
        with pytest.raises(TrialError) as raised:
            ask()
        assert text in str(raised.value)


def test_messages_and_rows_pass_a_counter_as_they_are() -> None:
    app = Pipeline("p")
    read = app.source("n/*").counter("read", lambda message: len(message.value or b""))
    read.map_columns(lambda batch: batch, name="columns").counter(
        "rows", by=lambda row: row["value"].decode(), values=["12"]
    ).sink("out")
    trial = Trial(app)
    trial.send(Message(b"12", b"k", stream="n/0"), Message(b"345", stream="n/0"))
    assert (trial.counter("read"), trial.counter("rows", "12"), trial.counter("rows", "other")) == (5, 1, 1)
    assert trial.values("out") == [b"12", b"345"]
