"""While streams are quiet, event time follows the clock: the last results of an evening come out, each once."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages

from headrace.pipelines import GraphError, Message, Pipeline, Trial, total, tumbling

PROPERTY = settings(max_examples=80, derandomize=True, database=None, deadline=None)
WIDTH, FLUSH = 10, 25
STREAMS = ("n/0", "n/1", "n/2")


def sums(flush: int | None = FLUSH) -> Pipeline:
    app = Pipeline("sums", idle_flush=None if flush is None else f"{flush}us")
    numbers = app.source("n/*", decode=int).event_time(lambda time: time)
    windows = numbers.key_by(lambda time: time % 2).window(tumbling(f"{WIDTH}us"))
    windows.aggregate(total(lambda time: 1), output=lambda key, count, window: f"{key} {window.start} {count}").sink("sums")
    return app


def joined() -> Pipeline:
    app = Pipeline("joined", idle_flush=f"{FLUSH}us")
    table = app.table("t/*", decode=bytes.decode)
    rows = app.source("n/*").join(table, on=lambda order: order.key, how="left", retention="0s", name="rows")
    rows.map(lambda pair: f"{pair[0].event_time} {pair[1]}", name="text").sink("rows")
    return app


BATCHES = st.lists(
    st.tuples(st.integers(0, 40), st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(0, 60)), max_size=4)), max_size=12
)


@PROPERTY
@given(batches=BATCHES, restarts=st.lists(st.booleans(), min_size=1, max_size=5), buckets=st.integers(1, 8))
def test_windows_close_as_a_loop_over_all_batches_says(
    batches: list[tuple[int, list[tuple[str, int]]]], restarts: list[bool], buckets: int
) -> None:
    now = [0]
    trial = Trial(sums(), buckets=buckets, now=lambda: now[0])
    stages = Stages(sums(), buckets, failing=0.2)
    marks, windows, late = dict[str, int](), Counter[tuple[int, int]](), 0
    expected, heard, furthest, sequence = list[str](), 0, 0, 0
    trial.open(*STREAMS)
    stages.clock = 0
    stages.open(*STREAMS)
    for number, (passed, batch) in enumerate(batches):
        now[0] += passed
        sent = [Message(b"%d" % time, b"k", None, stream, sequence + at + 1) for at, (stream, time) in enumerate(batch)]
        sequence += len(batch)
        trial.send(*sent)
        stages.clock = now[0]
        stages.send(*sent)
        for stream in dict.fromkeys(stream for stream, _ in batch):
            for time in (time for other, time in batch if other == stream):
                marks[stream] = max(marks.get(stream, 0), time)
                start = time // WIDTH * WIDTH
                if start + WIDTH <= marks[stream]:
                    late += 1
                else:
                    windows[time % 2, start] += 1
        if batch:
            heard, furthest = now[0], max(marks.values())
        elif marks and now[0] - heard >= FLUSH:
            marks = {stream: max(marks.get(stream, 0), furthest + now[0] - heard - FLUSH) for stream in STREAMS}
        watermark = min(marks.values()) if len(marks) == len(STREAMS) else -1
        for key, start in sorted(at for at in windows if at[1] + WIDTH <= watermark):
            expected.append(f"{key} {start} {windows.pop((key, start))}")
        if restarts[number % len(restarts)]:
            trial.restart()
        assert sorted(trial.values("sums")) == sorted(text.encode() for text in expected)
        assert sorted(value for _, value in stages.written["sums"]) == sorted(trial.values("sums"))
    assert trial.counts["late", "window"] == late


def test_an_order_meets_its_row_though_both_streams_are_quiet_from_then_on() -> None:
    now = [0]
    trial = Trial(joined(), now=lambda: now[0])
    trial.open("n/0", "t/0")
    trial.send(Message(b"Ann", b"7", 100, "t/0"), Message(b"tea", b"7", 120, "n/0"))
    for time, results in ((FLUSH - 1, []), (FLUSH, []), (FLUSH + 1, [b"120 Ann"]), (99, [b"120 Ann"])):
        now[0] = time
        trial.send()
        assert trial.values("rows") == results
    trial.send(Message(b"cup", b"7", 120 + 99 - FLUSH, "n/0"))
    assert trial.counts["late", "rows"] == 0
    trial.send(Message(b"pot", b"7", 120 + 98 - FLUSH, "n/0"))
    assert trial.counts["late", "rows"] == 1


def test_a_stream_that_goes_on_keeps_the_others_waiting_and_time_that_runs_backwards_changes_nothing() -> None:
    now = [0]
    trial = Trial(sums(), now=lambda: now[0])
    trial.open(*STREAMS[:2])
    trial.send(Message(b"1", stream="n/0"), Message(b"2", stream="n/1"))
    for time in range(0, 200, 20):
        now[0] = time
        trial.send(Message(b"%d" % (time + 3), stream="n/0"))
    assert trial.values("sums") == []
    now[0] = 10
    trial.send()
    assert trial.values("sums") == []
    now[0] = 180 + FLUSH
    trial.send()
    assert {b"0 0 1", b"1 0 2"} <= {*trial.values("sums")}


def test_event_time_that_awaits_streams_or_has_ended_does_not_go_on() -> None:
    now = [0]
    app = Pipeline("waits", idle_flush="1us")
    numbers = app.source("n/*", decode=int, await_streams=2).event_time(lambda time: time).key_by(lambda _: 0)
    numbers.window(tumbling("10us")).aggregate(total(), name="sums").map(str, name="text").sink("sums")
    trial = Trial(app, now=lambda: now[0])
    trial.send(Message(b"1", stream="n/0"))
    now[0] = 1_000
    trial.send()
    assert trial.values("sums") == []
    trial.open("n/1")
    now[0] = 1_009
    trial.send()
    assert trial.values("sums") == []
    now[0] = 1_010
    trial.send()
    assert trial.values("sums") == [b"1"]
    trial.send(Message(b"30", stream="n/0"), Message(b"30", stream="n/1"))
    trial.end("n/0", "n/1")
    now[0] = 9_000
    trial.send()
    assert trial.values("sums") == [b"1"]


def test_states_from_before_it_was_given_are_taken_over() -> None:
    now = [0]
    trial = Trial(sums(None), now=lambda: now[0])
    trial.send(Message(b"1", stream="n/0"))
    trial.restart(sums())
    for time in (50, 50 + FLUSH + 8, 50 + FLUSH + 9):
        assert trial.values("sums") == []
        now[0] = time
        trial.send()
    assert trial.values("sums") == [b"1 0 1"]


def test_it_is_refused_where_nothing_waits_for_event_time() -> None:
    app = Pipeline("plain", idle_flush="1s")
    app.source("n/*").sink("out")
    with pytest.raises(GraphError, match="pipeline plain: idle_flush has no effect: no step waits for event time"):
        Trial(app)


def test_streams_of_different_steps_are_quiet_apart() -> None:
    now = [0]
    app = Pipeline("two", idle_flush=f"{FLUSH}us")
    for name in "ab":
        numbers = app.source(f"{name}/*", decode=int, name=name).event_time(lambda time: time, name=f"{name}-time")
        windows = numbers.key_by(lambda _: 0, name=f"{name}-key").window(tumbling("10us"))
        windows.aggregate(total(), name=f"{name}-sums").map(str, name=f"{name}-text").sink(name)
    trial = Trial(app, now=lambda: now[0])
    found = defaultdict[str, list[bytes]](list)
    for time in range(0, 60, 10):
        now[0] = time
        trial.send(*([Message(b"1", stream="a/0"), Message(b"1", stream="b/0")] if not time else [Message(b"2", stream="a/0")]))
        found["b"] = trial.values("b")
    assert found["b"] == [b"1"]
    assert trial.values("a") == []
