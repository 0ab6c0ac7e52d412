"""One bad clock does not make everything later late; what is late is counted, and there to be looked at."""

from datetime import timedelta

import pytest
from tests.pipelines.rig import SECOND, lines, message, messages, pipeline, read, text

from headrace.pipelines import GraphError, Late, OnError, Pipeline, Trial, count_window, session, sliding, total, tumbling

NOW = 1000 * SECOND
FUTURE = 4_000_000_000


def skewed(max_ahead: str | None) -> Pipeline:
    app = pipeline()
    values = app.source("s/*", decode=lambda payload: payload, max_ahead=max_ahead).map(bytes.decode)
    timed = values.event_time(lambda line: int(line.split("@")[1].split("=")[0]) * SECOND)
    flow = timed.key_by(lambda line: line[0], name="by").map(lambda line: int(line.split("=")[1]))
    flow.window(tumbling("10s")).aggregate(total(), name="sums").sink("out", encode=text)
    return app


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_time_far_ahead_of_the_present_brings_nothing_to_its_end(at_once: bool, restarts: bool) -> None:
    trial = Trial(skewed("1 hour"), now=lambda: NOW)
    sent = messages(f"a@1=1 x@{FUTURE}=9 a@2=2 a@3600=4 a@11=8 a@3601=16")
    for batch in [sent] if at_once else [[one] for one in sent]:
        trial.send(*batch)
        if restarts:
            trial.restart()
    assert lines(trial) == ["a 3"]
    assert trial.counts == {("ahead", "by"): 1, ("late", "sums"): 1}
    assert {window.start for windows in trial.states("sums").values() for window in windows} == {3600 * SECOND, FUTURE * SECOND}


def test_without_a_bound_every_time_counts() -> None:
    trial = Trial(skewed(None), now=lambda: NOW)
    trial.send(*messages(f"a@1=1 x@{FUTURE}=9 a@2=2"))
    assert lines(trial) == ["a 1"]
    assert trial.counts == {("late", "sums"): 1}


def test_times_that_lie_long_ago_are_none_the_worse() -> None:
    trial = Trial(skewed("0 s"))
    trial.send(*messages("a@1=1 a@11=2 a@21=4"))
    assert lines(trial) == ["a 1", "a 2"]
    assert trial.counts == {}


@pytest.mark.parametrize("late", Late)
@pytest.mark.parametrize(
    ("windows", "found"),
    [(tumbling("10s"), ["a 4", "b 8", "b 16"]), (sliding("10s", every="5s"), ["a 4", "b 8"])],
)
def test_late_values_are_counted_and_go_beside_the_results(late: Late, windows: object, found: list[str]) -> None:
    """A value at 18 s is late for the window until 20 s, and not for the one until 25 s."""
    app = pipeline()
    keyed = read(app).key_by(lambda value: value.key).map(lambda value: value.number)
    gathered = keyed.window(windows, delay="1s", late=late)  # type: ignore[call-overload]
    gathered.aggregate(total(), name="sums").sink("out", encode=text)
    gathered.late_values().sink("late", encode=text)
    trial = Trial(app)
    trial.send(*messages("a@9=1 a@25=2 a@4=4 b@13=8 b@18=16 a@24=32"))
    assert lines(trial, "late") == found
    assert trial.counts == {("late", "sums"): len(found)}


def test_late_values_of_windows_whose_closing_depends_on_others_are_refused() -> None:
    for windows in (session("1s"), count_window(2)):
        with pytest.raises(GraphError, match=r"late_values\(\) requires tumbling or sliding windows"):
            read(pipeline()).key_by(lambda value: value.key).window(windows).late_values()  # type: ignore[call-overload]


def test_what_is_skipped_is_counted_by_step() -> None:
    app = pipeline(OnError.SKIP)
    read(app).map(lambda value: 1 // value.number, name="divide").sink("out", encode=text)
    trial = Trial(app)
    trial.send(*messages("a@=1 a@=0"), message("b@=0", "s/1"))
    trial.send(*messages("a@=x"), *messages("a@=0"))
    assert trial.counts == {("skipped", "divide"): 3, ("skipped", "s/*"): 1}


def test_a_bound_is_a_time_span() -> None:
    assert Pipeline("x").source("s/*", max_ahead=timedelta(hours=1)) is not None
    with pytest.raises(GraphError, match=r"source s/\*: max_ahead"):
        Pipeline("x").source("s/*", max_ahead="soon")
