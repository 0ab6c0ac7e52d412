"""Streams that have gone quiet: what waits for them, and what does not once they are idle."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipelines.rig import SECOND, cut, decode, lines, messages, pipeline, text

from headrace.pipelines import Context, Flow, GraphError, KeyedFlow, Late, Message, Pipeline, Trial, Window, collect, tumbling
from headrace.pipelines.runtime import EventTime, merged


def show(key: object, result: object, window: Window | None) -> str:
    return f"{window.start // SECOND}: {result}" if window else ""


def read(app: Pipeline, streams: str, idle_after: str | None) -> Flow[int]:
    values = app.source(streams, decode=decode, idle_after=idle_after)
    return values.event_time(lambda value: (value.second or 0) * SECOND)


def by_key(flow: Flow[int]) -> KeyedFlow[int]:
    return KeyedFlow.map(flow.key_by(), lambda value: value.number)


def windows(idle_after: str | None, late: Late = Late.DROP) -> Pipeline:
    app = pipeline()
    by_key(read(app, "s/*", idle_after)).window(tumbling("10s"), late=late).aggregate(collect(), output=show).sink("out")
    return app


def sent(app: Pipeline, *batches: tuple[str, str], buckets: int = 1) -> Trial:
    """A trial that got a micro-batch for each text and stream."""
    trial = Trial(app, buckets=buckets)
    for words, stream in batches:
        trial.send(*messages(words, stream))
    return trial


QUIET = [("a@1=1", "s/0"), ("b@2=2", "s/1"), ("a@12=3", "s/0"), ("a@31=4", "s/0")]
"""Stream s/1 says nothing after its first value, and event time advances by 29 seconds without it."""


def test_without_a_word_a_quiet_stream_is_waited_for() -> None:
    assert lines(sent(windows(None), *QUIET, ("a@99999=5", "s/0"))) == []


@pytest.mark.parametrize("buckets", [1, 3])
def test_windows_close_once_the_quiet_stream_is_idle(buckets: int) -> None:
    app = windows("29s")
    assert lines(sent(app, *QUIET[:-1], buckets=buckets)) == []
    trial = sent(windows("29s"), *QUIET, buckets=buckets)
    assert sorted(lines(trial)) == ["b'a' 0: [1]", "b'a' 10: [3]", "b'b' 0: [2]"]
    assert lines(sent(windows("30s"), *QUIET)) == []


@pytest.mark.parametrize(
    ("late", "given"),
    [(Late.DROP, []), (Late.FIRE, ["b'b' 0: [6]"]), (Late.PLACE_IN_OLDEST, [])],
)
def test_what_an_idle_stream_brings_later_is_late_where_event_time_has_passed_it(late: Late, given: list[str]) -> None:
    trial = sent(windows("29s", late), *QUIET)
    before = len(lines(trial))
    trial.send(*messages("b@9=6 b@33=7", "s/1"))
    assert lines(trial)[before:] == given
    trial.send(*messages("a@40=8", "s/0"), *messages("b@40=9", "s/1"))
    placed = [6, 7] if late is Late.PLACE_IN_OLDEST else [7]
    assert sorted(lines(trial)[before + len(given) :]) == ["b'a' 30: [4]", f"b'b' 30: {placed}"]


def test_a_stream_that_came_back_is_waited_for_again() -> None:
    trial = sent(windows("29s"), *QUIET, ("b@33=6", "s/1"), ("a@45=7", "s/0"))
    assert trial.states("window").keys() == {b"a", b"b"}
    assert not [line for line in lines(trial) if " 30: " in line]


def test_a_stream_that_lags_behind_is_not_idle_while_it_says_something() -> None:
    trial = Trial(windows("5s"))
    for second in range(0, 100, 10):
        trial.send(*messages(f"a@{10 * second}=1", "s/0"), *messages(f"b@{second // 10}={second}", "s/1"))
    assert lines(trial) == []
    assert list(trial.states("window")[b"b"].values()) == [list(range(0, 100, 10))]


def test_event_time_stands_still_while_all_streams_are_quiet() -> None:
    trial = sent(windows("1s"), ("a@1=1", "s/0"), ("b@2=2", "s/1"))
    trial.send()
    assert lines(trial) == []


def test_each_source_says_after_how_long_its_streams_are_idle() -> None:
    app = pipeline()
    slow, fast = read(app, "slow/*", None), read(app, "fast/*", "5s")
    by_key(fast.merge(slow)).window(tumbling("10s")).aggregate(collect(), output=show).sink("out")
    trial = sent(app, ("a@1=1", "fast/0"), ("b@1=1", "slow/0"), ("b@21=2", "slow/0"))
    assert sorted(lines(trial)) == ["b'a' 0: [1]", "b'b' 0: [1]"]
    trial.send(*messages("a@99=3", "fast/0"))
    assert len(lines(trial)) == 2


def test_timers_and_later_windows_do_not_wait_for_an_idle_stream_either() -> None:
    def note(number: int, state: list[int], context: Context) -> None:
        context.set_timer(after="3s")
        state.append(number)

    def ring(state: list[int], context: Context) -> str:
        return f"{context.key} {context.event_time and context.event_time // SECOND}"

    app = pipeline()
    numbers = by_key(read(app, "s/*", "10s"))
    numbers.stateful(note, list[int], on_timer=ring).sink("rung")
    tens = numbers.window(tumbling("10s")).aggregate(collect())
    tens.key_by(lambda _: "all", name="all").window(tumbling("20s")).aggregate(collect(), output=show, name="twenties").sink(
        "out", text
    )
    trial = sent(app, ("a@1=1", "s/0"), ("b@2=2", "s/1"), ("a@11=3", "s/0"), ("a@25=4", "s/0"))
    assert sorted(trial.values("rung")) == [b"b'a' 14", b"b'a' 4", b"b'b' 5"]
    trial.send(*messages("a@45=5", "s/0"))
    assert lines(trial) == ["all 0: [[1], [3], [2]]", "all 20: [[4]]"]


def test_a_restart_changes_nothing() -> None:
    app = windows("29s")
    whole, parts = Trial(app), Trial(app, buckets=2)
    for words, stream in [*QUIET, ("b@9=6 b@33=7", "s/1"), ("a@70=8", "s/0")]:
        whole.send(*messages(words, stream))
        parts.send(*messages(words, stream))
        parts.restart()
    assert sorted(lines(parts)) == sorted(lines(whole))
    assert parts.states("window") == whole.states("window")


def test_a_pipeline_that_is_stopped_can_say_it_later() -> None:
    trial = sent(windows(None), *QUIET)
    trial.restart(windows("29s"))
    trial.send(*messages("a@59=5", "s/0"))
    assert lines(trial) == []
    trial.send(*messages("a@60=5", "s/0"))
    assert "b'b' 0: [2]" in lines(trial)


STREAMS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.integers(0, 60)), max_size=30)


@settings(max_examples=100, derandomize=True, database=None)
@given(some=STREAMS, ends=st.lists(st.integers(0, 30), max_size=6), seconds=st.integers(1, 60))
def test_values_are_late_or_in_a_window_and_no_window_closes_twice(
    some: Sequence[tuple[int, str, int]], ends: list[int], seconds: int
) -> None:
    made = [(f"s/{number}", f"{key}@{second}={place + 1}") for place, (number, key, second) in enumerate(some)]
    begun = [message for number in range(3) for message in messages("z@0", f"s/{number}")]
    sent = [message for stream, words in made for message in messages(words, stream)]
    trial, again = Trial(windows(f"{seconds}s")), Trial(windows(f"{seconds}s"), buckets=3)
    for batch in [begun, *cut(sent, ends)]:
        trial.send(*batch)
        again.send(*batch)
    assert sorted(lines(trial)) == sorted(lines(again)), "the same micro-batches give the same"
    trial.finish()
    closed = [line.split(": ")[0] for line in lines(trial)]
    assert len(closed) == len(set(closed))


@settings(max_examples=50, derandomize=True, database=None)
@given(some=STREAMS, ends=st.lists(st.integers(0, 30), max_size=6))
def test_streams_that_are_never_idle_give_what_they_give_without_a_word(
    some: Sequence[tuple[int, str, int]], ends: list[int]
) -> None:
    sent: list[Message] = []
    for place, (number, key, second) in enumerate(some):
        sent += messages(f"{key}@{second}={place + 1}", f"s/{number}")
    patient, plain = Trial(windows("61s")), Trial(windows(None))
    for batch in cut(sent, ends):
        patient.send(*batch)
        plain.send(*batch)
    assert patient.written == plain.written


def test_what_is_known_of_idle_streams_outlives_another_division_of_the_keys() -> None:
    graph = windows("29s").graph
    key_by = next(number for number in range(len(graph.steps)) if number in graph.roots[number])
    event_time = EventTime(graph)
    for second, streams in [(1, ("s/0", "s/1")), (40, ("s/0",))]:
        event_time.begin((key_by, stream) for stream in streams)
        for stream in streams:
            event_time[key_by].advance(stream, second * SECOND)
        event_time.end()
    kept = event_time.to_keep()
    assert merged(merged({}, kept), kept) == kept
    assert EventTime(graph, kept).lowest() == event_time.lowest() == {frozenset({key_by}): 40 * SECOND}
    assert EventTime(windows(None).graph, kept).lowest() == {frozenset({key_by}): SECOND}


def test_a_span_that_is_none_is_refused() -> None:
    with pytest.raises(GraphError, match=r"source s/\*: idle_after must be positive"):
        windows("0s")
