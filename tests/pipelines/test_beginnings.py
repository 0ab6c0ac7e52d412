"""Streams hold event time from the micro-batch in which they are opened: results do not depend on how a backlog is read."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import SECOND, cut, decode, keyed, lines, messages, pipeline, read

from headrace.pipelines import Late, Message, OnError, Pipeline, Trial, Window, collect, count, session, tumbling

PROPERTY = settings(max_examples=50, derandomize=True, database=None, deadline=None)


def show(key: object, result: list[int], window: Window | None) -> str:
    return f"{window.start // SECOND}: {sorted(result)}" if window else ""


def tens(late: Late = Late.DROP) -> Pipeline:
    app = pipeline()
    keyed(app).window(tumbling("10s"), late=late).aggregate(collect(), output=show).sink("out")
    return app


BACKLOG = [*messages("a@0=1 a@100=2", "s/0"), *messages("a@0=3 a@100=4", "s/1")]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 3, 0, 1], [0, 2, 1, 3], [2, 0, 3, 1]])
def test_two_streams_with_a_backlog_have_one_result_for_each_window(order: list[int]) -> None:
    trial = Trial(tens())
    trial.send(*(BACKLOG[index] for index in order))
    assert lines(trial) == ["a 0: [1, 3]"]
    trial.finish()
    assert lines(trial) == ["a 0: [1, 3]", "a 100: [2, 4]"]


def test_a_stream_that_was_opened_is_waited_for_before_its_first_message() -> None:
    trial = Trial(tens(), buckets=2)
    trial.open("s/0", "s/1")
    trial.send(*BACKLOG[:2])
    trial.restart()
    assert lines(trial) == []
    trial.send(*BACKLOG[2:])
    assert lines(trial) == ["a 0: [1, 3]"]


def test_a_stream_that_was_opened_and_has_ended_without_messages_delays_nothing() -> None:
    trial = Trial(tens())
    trial.open("s/1")
    trial.send(*BACKLOG[:2])
    assert lines(trial) == []
    trial.end("s/1")
    assert lines(trial) == ["a 0: [1]"]


@pytest.mark.parametrize("first", ["a@=3", "dropped@0"])
def test_messages_that_are_dropped_or_have_no_time_open_their_stream(first: str) -> None:
    app = pipeline(OnError.SKIP)
    values = read(app).filter(lambda value: value.key != "dropped").key_by(lambda value: value.key)
    values.map(lambda value: value.number).window(tumbling("10s")).aggregate(collect(), output=show).sink("out")
    trial = Trial(app)
    trial.send(*messages("a@0=1 a@100=2", "s/0"), *messages(first, "s/1"))
    assert lines(trial) == []
    trial.send(*messages("a@0=3 a@100=4", "s/1"))
    assert lines(trial) == ["a 0: [1, 3]"]


def test_a_stream_without_times_is_idle_where_its_source_says_so() -> None:
    app = Pipeline("idle")
    values = app.source("s/*", decode=bytes.decode, idle_after="30s").filter(lambda value: value != "no").key_by(str)
    values.window(tumbling("10s")).aggregate(count()).sink("out", encode=lambda number: b"%d" % number)
    trial = Trial(app)
    trial.send(Message(b"a", None, 0, "s/0"), Message(b"no", None, 0, "s/1"))
    trial.send(Message(b"a", None, 29 * SECOND, "s/0"))
    assert trial.values("out") == []
    trial.send(Message(b"a", None, 30 * SECOND, "s/0"), Message(b"no", None, 30 * SECOND, "s/1"))
    assert trial.values("out") == [b"1", b"1"]


def test_an_idle_stream_that_comes_back_with_a_new_one_opens_no_closed_window() -> None:
    app = pipeline()
    by_key = app.source("s/*", decode=lambda payload: int(payload), idle_after="20s").event_time(lambda value: value * SECOND)
    counts = by_key.key_by(lambda _: 0, name="k").window(tumbling("10s")).aggregate(count(), output=lambda k, n, w: w.start)
    counts.sink("out", encode=lambda start: b"%d" % (start // SECOND))
    trial = Trial(app)
    trial.send(Message(b"1", stream="s/0"), Message(b"2", stream="s/1"))
    trial.send(Message(b"50", stream="s/0"))
    assert trial.values("out") == [b"0"]
    trial.send(Message(b"3", stream="s/1"), Message(b"60", stream="s/2"))
    trial.finish()
    assert trial.values("out").count(b"0") == 1, "s/1 continues at the watermark that has closed the window"


Sent = list[tuple[str, int]]
STREAMS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), min_size=1, max_size=12), min_size=2, max_size=4
)
CUTS = st.lists(st.integers(0, 60), max_size=8)


def graph(sessions: bool) -> Pipeline:
    """Windows behind one `key_by`, with sessions if wanted, and windows of windows behind another."""
    app = pipeline()
    numbers = keyed(app)
    numbers.window(tumbling("10s"), late=Late.FIRE).aggregate(collect(), output=show, name="tens").sink("tens")
    if sessions:
        numbers.window(session("7s")).aggregate(collect(), output=show, name="sessions").sink("sessions")
    tens = numbers.window(tumbling("5s")).aggregate(count(), name="fives")
    larger = tens.key_by(lambda _: "all", name="all").window(tumbling("20s"))
    larger.aggregate(collect(), output=show, name="twenties").sink("twenties")
    return app


def mixed(streams: Sequence[Sent], draw: random.Random) -> list[Message]:
    """The messages of all streams, in an order in which each stream is in order; numbered from 1 in each stream."""
    waiting = [
        [
            Message(f"{key}@{at}={10 * index + number}".encode(), key.encode(), None, f"s/{number}", index + 1)
            for index, (key, at) in enumerate(sent)
        ]
        for number, sent in enumerate(streams)
    ]
    found = []
    while any(waiting):
        found.append(draw.choice([some for some in waiting if some]).pop(0))
    return found


def outcome(written: dict[str, list[tuple[object, bytes]]]) -> dict[str, Counter[tuple[object, bytes]]]:
    return {sink: Counter(values) for sink, values in written.items() if values}


def of_trial(trial: Trial) -> dict[str, Counter[tuple[object, bytes]]]:
    return outcome({sink: [(_bytes(w.key), w.value) for w in some] for sink, some in trial.written.items()})


def _bytes(key: object) -> object:
    return key.encode() if isinstance(key, str) else key


@PROPERTY
@given(
    streams=STREAMS,
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    cuts=CUTS,
    buckets=st.integers(1, 3),
    restarts=st.booleans(),
    in_order=st.booleans(),
)
def test_results_depend_neither_on_micro_batches_nor_on_the_order_of_the_streams(
    streams: list[Sent], seeds: tuple[int, int], cuts: list[int], buckets: int, restarts: bool, in_order: bool
) -> None:
    """Whether two sessions merge may depend on which stream is ahead, unless all values are in the order of their times."""
    if in_order:
        streams = [sorted(sent, key=itemgetter(1)) for sent in streams]
    names = [f"s/{number}" for number in range(len(streams))]
    whole, parts = Trial(graph(in_order)), Trial(graph(in_order), buckets=buckets)
    whole.send(*mixed(streams, random.Random(seeds[0])))
    parts.open(*names)
    stages = Stages(graph(in_order), buckets=buckets, seed=seeds[1])
    stages.open(*names)
    for batch in cut(mixed(streams, random.Random(seeds[1])), cuts):
        parts.send(*batch)
        stages.send(*batch)
        if restarts:
            parts.restart()
    whole.finish()
    parts.finish()
    stages.end(all_=True)
    assert of_trial(parts) == of_trial(whole)
    written: defaultdict[str, list[tuple[object, bytes]]] = defaultdict(list)
    for sink, some in stages.written.items():
        written[sink] = list(some)
    assert outcome(written) == of_trial(whole)


def awaiting(streams: int | None, time: str | None) -> Pipeline:
    app = pipeline()
    values = app.source("s/*", decode=decode, await_streams=streams, await_time=time, name="s")
    numbers = values.event_time(lambda value: (value.second or 0) * SECOND).key_by(lambda value: value.key, name="k")
    numbers.map(lambda value: value.number).window(tumbling("10s")).aggregate(collect(), output=show).sink("out")
    return app


@pytest.mark.parametrize("restarts", [False, True])
def test_event_time_does_not_begin_before_so_many_streams_are_open(restarts: bool) -> None:
    trial = Trial(awaiting(3, None), buckets=2)
    trial.send(*messages("a@0=1 a@100=2", "s/0"))
    trial.send(*messages("a@0=3 a@100=4", "s/1"))
    trial.end("s/1")
    if restarts:
        trial.restart()
    trial.send(*messages("a@0=5", "s/0"))
    assert lines(trial) == []
    trial.send(*messages("a@0=7 a@100=8", "s/2"))
    assert lines(trial) == ["a 0: [1, 3, 7]"]
    trial.send(*messages("a@200=9", "s/0"), *messages("a@200=9", "s/2"))
    assert lines(trial)[1:] == ["a 100: [2, 4, 8]"], "what s/0 brought again at 0 s was late"


@pytest.mark.parametrize("streams", [None, 2])
def test_event_time_begins_at_the_latest_after_a_time(streams: int | None) -> None:
    now = [5_000]
    trial = Trial(awaiting(streams, "1 minute"), now=lambda: now[0])
    trial.send(*messages("a@0=1 a@100=2", "s/0"))
    now[0] += 60 * SECOND - 1
    trial.restart()
    trial.send(*messages("a@200=3", "s/0"))
    assert lines(trial) == []
    now[0] += 1
    trial.send()
    assert lines(trial) == ["a 0: [1]", "a 100: [2]"]


def test_in_the_stages_of_spark_event_time_begins_in_the_same_way() -> None:
    for elapsed, streams in ((60 * SECOND, 9), (0, 2)):
        stages = Stages(awaiting(streams, "1 minute"), buckets=3)
        stages.send(*numbered(messages("a@0=1 b@100=2 a@100=3", "s/0")))
        assert not stages.written
        stages.open(*(["s/1"] if streams == 2 else []), elapsed=elapsed)
        stages.send(*numbered(messages("a@0=4 a@100=5", "s/1")))
        assert (b"a", b"0: [1]" if elapsed else b"0: [1, 4]") in stages.written["out"]


def test_a_source_that_awaits_no_stream_delays_no_other_branch() -> None:
    app = Pipeline("two")
    for name, streams in (("a", None), ("b", 2)):
        flow = app.source(f"{name}/*", await_streams=streams).key_by(name=f"{name}-key").window(tumbling("10s"))
        flow.aggregate(count(), name=name).sink(name, encode=lambda number: b"%d" % number)
    trial = Trial(app)
    for name in ("a", "b"):
        trial.send(*(Message(b"", b"k", at * SECOND, f"{name}/0") for at in (0, 100)))
    assert (trial.values("a"), trial.values("b")) == ([b"1"], [])


@pytest.mark.parametrize("buckets", [1, 3])
def test_streams_that_begin_behind_the_watermark_are_counted_once(buckets: int) -> None:
    trial, stages = Trial(tens(), buckets=buckets), Stages(tens(), buckets=buckets)
    batches = [
        messages("a@0=1 b@100=2", "s/0"),
        [*messages("a@5=3 a@200=4", "s/1"), *messages("b@101=5", "s/2")],
        messages("c@6=6", "s/1"),
        messages("d@1=7", "s/3"),
    ]
    for batch in batches:
        trial.send(*batch)
        stages.send(*numbered(batch))
        trial.restart()
    assert trial.counts["behind", "by-key"] == stages.counts["behind", "by-key"] == 2, "s/1 and s/3"


LAST: dict[str, int] = defaultdict(int)


def numbered(batch: Sequence[Message]) -> list[Message]:
    found = []
    for message in batch:
        LAST[message.stream] += 1
        found.append(replace(message, sequence=LAST[message.stream]))
    return found
