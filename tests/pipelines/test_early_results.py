"""Early results of open windows come by the clock, are the same in a repeat, and change nothing of the results at the end."""

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages

from headrace.pipelines import (
    GraphError,
    Message,
    OnError,
    Pipeline,
    Trial,
    Window,
    count,
    count_window,
    session,
    sliding,
    total,
    tumbling,
)
from headrace.pipelines.runtime import StateClass

PROPERTY = settings(max_examples=50, derandomize=True, database=None, deadline=None)
WIDTH, EVERY = 20, 30
STREAMS = ("n/0", "n/1")
BATCHES = st.lists(
    st.tuples(st.integers(0, 40), st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(0, 60)), max_size=4)), max_size=12
)
RESTARTS = st.lists(st.booleans(), min_size=1, max_size=5)


def described(key: int, found: Any, window: Window) -> str:
    return f"{'early' if window.is_early else 'final'} {key} {window.start} {found}"


def counts(every: int | None = EVERY, windows: Any = None) -> Pipeline:
    app = Pipeline("counts")
    times = app.source("n/*", decode=int).event_time(lambda time: time).key_by(lambda time: time % 3)
    emit = None if every is None else f"{every}us"
    found = times.window(windows or tumbling(f"{WIDTH}us"), emit_every=emit).aggregate(count(), output=described)
    found.sink("out")
    found.stateful(lambda text, state: state.append(text) or len(state), list, name="all").map(str, name="text").sink("numbers")
    return app


def sent_of(batch: list[tuple[str, int]], sequence: int) -> list[Message]:
    return [Message(b"%d" % time, b"k", None, stream, sequence + at + 1) for at, (stream, time) in enumerate(batch)]


@PROPERTY
@given(
    batches=BATCHES,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    worker_bytes=st.sampled_from([10**9, 1]),
)
def test_windows_make_early_results_as_a_loop_over_all_batches_says(
    batches: list[tuple[int, list[tuple[str, int]]]], restarts: list[bool], buckets: int, worker_bytes: int
) -> None:
    now = [1_000]
    trial = Trial(counts(), buckets=buckets, now=lambda: now[0])
    stages = Stages(counts(), buckets, failing=0.2, worker_bytes=worker_bytes, now=now[0])
    trial.open(*STREAMS)
    stages.open(*STREAMS)
    marks, windows, news = dict[str, int](), Counter[tuple[int, int]](), set[tuple[int, int]]()
    expected, before, sequence = list[str](), now[0], 0
    for number, (passed, batch) in enumerate(batches):
        now[0] += passed
        sent = sent_of(batch, sequence)
        sequence += len(batch)
        trial.send(*sent)
        stages.now = now[0]
        stages.send(*sent)
        for stream in STREAMS:
            for time in (time for other, time in batch if other == stream):
                marks[stream] = max(marks.get(stream, 0), time)
                start = time // WIDTH * WIDTH
                if start + WIDTH > marks[stream]:
                    windows[time % 3, start] += 1
                    news.add((time % 3, start))
        watermark = min(marks.values()) if len(marks) == len(STREAMS) else -1
        for key, start in [at for at in windows if at[1] + WIDTH <= watermark]:
            expected.append(f"final {key} {start} {windows.pop((key, start))}")
            news.discard((key, start))
        if now[0] // EVERY > before // EVERY:
            expected += [f"early {key} {start} {windows[key, start]}" for key, start in news]
            news.clear()
        before = now[0]
        if restarts[number % len(restarts)]:
            trial.restart()
        assert sorted(trial.values("out")) == sorted(text.encode() for text in expected)
        assert stages.by_key("out").keys() == {repr(int(text.split()[1])).encode() for text in expected}
        assert sorted(value for _, value in stages.written["out"]) == sorted(trial.values("out"))
        assert sorted(value for _, value in stages.written["numbers"]) == sorted(trial.values("numbers"))


@PROPERTY
@given(
    batches=BATCHES,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    windows=st.sampled_from([tumbling("20us"), sliding("20us", every="5us"), session("7us")]),
)
def test_the_results_at_the_end_are_the_same_as_without_early_ones_though_the_function_changes_what_it_gets(
    batches: list[tuple[int, list[tuple[str, int]]]], restarts: list[bool], buckets: int, windows: Any
) -> None:
    def changing(key: int, values: Any, window: Window) -> str:
        values.sort()
        values.append(len(values))
        return described(key, values, window)

    def lists(every: int | None) -> Pipeline:
        app = Pipeline("lists")
        times = app.source("n/*", decode=int).event_time(lambda time: time).key_by(lambda time: time % 3)
        times.window(windows, emit_every=None if every is None else f"{every}us").collect(changing).sink("out")
        return app

    now = [0]
    early = Trial(lists(EVERY), buckets=buckets, now=lambda: now[0])
    plain = Trial(lists(None))
    for trial in (early, plain):
        trial.open(*STREAMS)
    sequence = 0
    for number, (passed, batch) in enumerate(batches):
        now[0] += passed
        sent = sent_of(batch, sequence)
        sequence += len(batch)
        early.send(*sent)
        plain.send(*sent)
        if restarts[number % len(restarts)]:
            early.restart()
    early.finish()
    plain.finish()
    final = defaultdict[Any, list[bytes]](list)
    for written in early.written["out"]:
        final[written.key] += [written.value] if written.value.startswith(b"final") else []
    for key, values in final.items():
        assert values == [written.value for written in plain.written["out"] if written.key == key]
    assert sum(map(len, final.values())) == len(plain.values("out"))
    assert early.states("window") == {}


def test_a_window_that_did_not_change_makes_no_further_result_and_one_that_closes_makes_its_last() -> None:
    now = [0]
    trial = Trial(counts(), now=lambda: now[0])

    def at(time: int, *times: int) -> list[bytes]:
        before = len(trial.values("out"))
        now[0] = time
        trial.send(*(Message(b"%d" % time, stream="n/0") for time in times))
        return trial.values("out")[before:]

    assert at(10, 3) == []
    assert at(29) == []
    assert at(30) == [b"early 0 0 1"]
    assert at(60) == []
    assert at(61, 6) == []
    assert at(90, 25) == [b"final 0 0 2", b"early 1 20 1"]
    assert at(80) == at(91) == []
    assert at(1_000) == []


def test_windows_of_a_version_without_early_results_are_taken_over_both_ways() -> None:
    now = [0]
    trial = Trial(counts(None), now=lambda: now[0])
    trial.send(Message(b"3", stream="n/0"))
    trial.restart(counts())
    trial.send(Message(b"4", stream="n/0"))
    now[0] = 45
    trial.send()
    assert trial.values("out") == [b"early 1 0 1"]
    trial.send(Message(b"5", stream="n/0"))
    trial.restart(counts(None))
    now[0] = 95
    trial.send(Message(b"40", stream="n/0"))
    assert sorted(trial.values("out")[1:]) == [b"final 0 0 1", b"final 1 0 1", b"final 2 0 1"]


def test_states_of_windows_without_early_results_are_stored_as_they_were() -> None:
    def packed(every: int | None) -> bytes:
        trial = Trial(counts(every))
        trial.send(Message(b"3", stream="n/0"))
        (step,) = (step for step in trial.pipeline.graph.keyed if step.name == "window")
        assert isinstance(step.state_class, StateClass)
        return step.state_class.pack(list(trial._states[0]["window"].values()))

    assert len(packed(None)) < len(packed(EVERY))


def test_a_function_that_raises_for_an_early_result_follows_the_policy_and_leaves_the_window_open() -> None:
    def raising(key: int, found: int, window: Window) -> str:
        if window.is_early:
            raise ValueError("not yet")
        return str(found)

    now = [0]
    app = Pipeline("raises", on_error=OnError.SKIP)
    times = app.source("n/*", decode=int).event_time(lambda time: time).key_by(lambda time: 0)
    times.window(tumbling("20us"), emit_every="30us").aggregate(total(), output=raising, name="sums").sink("out")
    trial = Trial(app, now=lambda: now[0])
    trial.send(Message(b"3", stream="n/0"))
    now[0] = 30
    trial.send()
    assert trial.counts["skipped", "sums"] == 1
    trial.finish()
    assert trial.values("out") == [b"3"]


def test_a_step_behind_early_results_that_depends_on_event_time_is_refused() -> None:
    app = Pipeline("app")
    early = (
        app.source("n/*", decode=int).key_by(lambda n: n).window(tumbling("1s"), emit_every="1s").aggregate(count(), name="first")
    )
    early.map(str, name="text").sink("out")
    again = early.key_by(lambda n: 0, name="again").window(tumbling("1m"))
    again.aggregate(count(), name="second").map(str, name="more").sink("out")
    with pytest.raises(GraphError, match=r"pipeline app: step second depends on event time, .* early results of step first"):
        Trial(app)


def test_windows_that_count_values_have_no_early_results() -> None:
    flow = Pipeline("app").source("n/*", decode=int).key_by(lambda n: n)
    with pytest.raises(GraphError, match=r"pipeline app, window\(...\): a window that counts values has no early results"):
        flow.window(count_window(3), emit_every="1s")  # type: ignore
