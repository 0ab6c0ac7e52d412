"""Aggregates and windows of a number of values expire by the clock, as a loop over all micro-batches says."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages

from headrace.pipelines import GraphError, Message, OnError, Pipeline, Trial, collect, count_window, total

PROPERTY = settings(max_examples=60, derandomize=True, database=None, deadline=None)
BATCHES = st.lists(
    st.tuples(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=4)), max_size=12
)


def shown(key: int, values: list[int], window: None) -> str:
    if values[-1] == 5:
        raise ValueError("no result")
    return f"{key}: {values}"


def apps(on_error: OnError = OnError.SKIP) -> Pipeline:
    app = Pipeline("app", on_error=on_error)
    numbers = app.source("n/*", decode=lambda payload: [*map(int, payload.split())]).key_by(lambda pair: pair[0])
    values = numbers.map(lambda pair: pair[1], name="value")
    values.aggregate(collect(), output=shown, clock_ttl="10us", name="running").sink("running")
    values.window(count_window(3, clock_ttl="12us")).aggregate(collect(), output=shown, name="counted").sink("counted")
    return app


@PROPERTY
@given(
    batches=BATCHES,
    restarts=st.lists(st.booleans(), min_size=1, max_size=5),
    buckets=st.integers(1, 8),
    worker_bytes=st.sampled_from([10**9, 1]),
)
def test_what_has_had_no_value_for_some_time_of_the_clock_expires_as_a_loop_says(
    batches: list[tuple[int, list[tuple[int, int]]]], restarts: list[bool], buckets: int, worker_bytes: int
) -> None:
    now, sequence = [0], 0
    trial = Trial(apps(), buckets=buckets, now=lambda: now[0])
    stages = Stages(apps(), buckets, failing=0.2, worker_bytes=worker_bytes, now=0)
    running: dict[int, list[int]] = {}
    counted: dict[int, list[int]] = {}
    seen: dict[int, int] = {}
    seen_windows: dict[int, int] = {}
    expected: defaultdict[str, list[str]] = defaultdict(list)

    def emit(sink: str, key: int, values: list[int]) -> bool:
        if values[-1] != 5:
            expected[sink].append(f"{key}: {values}")
        return values[-1] != 5

    for number, (passed, batch) in enumerate(batches):
        now[0] += passed
        sent = [Message(b"%d %d" % pair, b"k", None, "n/0", sequence + at) for at, pair in enumerate(batch, 1)]
        sequence += len(batch)
        trial.send(*sent)
        stages.now = now[0]
        stages.send(*sent)
        for key, value in batch:
            values = [*running.get(key, []), value]
            if emit("running", key, values):
                running[key] = values
                seen[key] = now[0]
            values = [*counted.get(key, []), value]
            if len(values) < 3:
                counted[key] = values
            elif emit("counted", key, values):
                counted.pop(key)
            seen_windows[key] = now[0] if len(values) < 3 else seen_windows.get(key, 0)
        for key in [key for key in running if seen[key] + 10 <= now[0]]:
            del running[key]
        for key in [key for key in counted if seen_windows[key] + 12 <= now[0]]:
            emit("counted", key, counted.pop(key))
        if restarts[number % len(restarts)]:
            trial.restart()
    for sink in ("running", "counted"):
        assert sorted(value.decode() for value in trial.values(sink)) == sorted(expected[sink])
        assert sorted(value for _, value in stages.written[sink]) == sorted(trial.values(sink))
    assert trial.states("running") == running
    assert trial.states("counted") == {key: (len(values), values) for key, values in counted.items()}
    for step, states in stages.states().items():
        assert stages.shown(step, states) == trial.states(step)
    trial.finish()
    for key, values in counted.items():
        emit("counted", key, values)
    assert sorted(value.decode() for value in trial.values("counted")) == sorted(expected["counted"])
    assert trial.states("counted") == {}


def test_a_time_to_live_by_the_clock_may_be_added_and_removed_and_holds_from_then_on() -> None:
    def app(**lives: Any) -> Pipeline:
        app = Pipeline("app")
        app.source("n/*", decode=int).key_by(lambda n: n % 2).aggregate(total(), name="sum", **lives).map(str).sink("out")
        return app

    now = [0]
    trial = Trial(app(), now=lambda: now[0])
    trial.send(Message(b"2", stream="n/0"), Message(b"3", stream="n/0"))
    trial.restart(app(clock_ttl="10us"))
    now[0] = 100
    trial.send()
    assert trial.states("sum") == {0: 2, 1: 3}
    now[0] = 109
    trial.send(Message(b"4", stream="n/0"))
    now[0] = 110
    trial.send()
    assert trial.states("sum") == {0: 6}
    trial.restart(app())
    now[0] = 500
    trial.send(Message(b"4", stream="n/0"))
    assert trial.states("sum") == {0: 10}


def test_windows_whose_states_would_be_others_are_refused_and_two_kinds_of_time_to_live_too() -> None:
    def app(**lives: Any) -> Pipeline:
        app = Pipeline("app")
        numbers = app.source("n/*", decode=int).key_by(lambda n: n % 2)
        numbers.window(count_window(3, **lives)).aggregate(total(), name="sum").map(str).sink("out")
        return app

    trial = Trial(app())
    trial.send(Message(b"2", stream="n/0"))
    with pytest.raises(Exception, match="step sum is not the step"):
        trial.restart(app(clock_ttl="1 hour"))
    with pytest.raises(GraphError, match=r"count_window\(...\): pass either ttl, by event time, or clock_ttl, by the clock"):
        count_window(3, ttl="1 hour", clock_ttl="1 hour")
    keyed = Pipeline("app").source("n/*", decode=int).key_by(lambda n: 0)
    with pytest.raises(GraphError, match="step sum: pass either ttl, by event time, or clock_ttl, by the clock"):
        keyed.aggregate(total(), ttl="1 hour", clock_ttl="1 hour", name="sum")


def test_the_result_of_an_incomplete_window_has_the_event_time_that_was_reached() -> None:
    app = Pipeline("app")
    numbers = app.source("n/*").key_by()
    sums = numbers.window(count_window(3, clock_ttl="10us")).aggregate(initial=int, update=lambda n, _: n + 1, name="count")
    sums.stateful(lambda n, state, context: f"{n} at {context.event_time}", dict, name="time").sink("out")
    now = [0]
    trial = Trial(app, now=lambda: now[0])
    trial.send(Message(b"", b"k", 1_000, "n/0"), Message(b"", b"j", 3_000, "n/0"))
    now[0] = 10
    trial.send()
    assert trial.values("out") == [b"1 at 3000", b"1 at 3000"]
