"""Timers by the clock fire once, in the order of their times, as a loop over all micro-batches says."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages

from headrace.pipelines import Context, GraphError, Message, OnError, Pipeline, StepError, Trial, total, tumbling
from headrace.pipelines.elements.elements import Elements, States
from headrace.pipelines.elements.message import Origin
from headrace.pipelines.execution.passes import Pass
from headrace.pipelines.time.present import Present
from headrace.pipelines.time.time import END

PROPERTY = settings(max_examples=60, derandomize=True, database=None, deadline=None)
STREAMS = ("n/0", "n/1")


class Sent(NamedTuple):
    """A message: a key, what its function does with timers by the clock, and with which number."""

    key: int
    does: str
    number: int

    @property
    def message(self) -> bytes:
        return f"{self.key} {self.does} {self.number}".encode()


def act(value: list[str], state: dict[str, int], context: Context) -> str | None:
    _, does, text = value
    number = int(text)
    state["values"] = state.get("values", 0) + 1
    if does == "at":
        context.set_timer(at_clock=number)
    elif does == "after":
        context.set_timer(after_clock=f"{number}us")
    elif does == "cancel":
        context.cancel_clock_timers()
    elif does == "forget":
        context.forget()
    elif does == "raise":
        context.set_timer(at_clock=number)
        state["values"] = 0
        raise ValueError("as wanted")
    return None


def ring(state: dict[str, int], context: Context) -> str:
    assert context.clock is not None
    state["rings"] = state.get("rings", 0) + 1
    if context.clock % 5 == 0:
        state["rings"] = -1
        raise ValueError("every fifth one")
    if context.clock % 3 == 0:
        context.set_timer(after_clock="7us")
    return f"{context.key} at {context.clock}: {state['values']}, {state['rings']}"


def rings() -> Pipeline:
    app = Pipeline("rings", on_error=OnError.SKIP)
    values = app.source("n/*", decode=lambda payload: payload.decode().split()).key_by(lambda value: int(value[0]))
    values.stateful(act, dict, on_timer=ring, clock_every="1s").sink("out")
    return app


ACTIONS = st.builds(
    Sent,
    st.integers(0, 3),
    st.sampled_from(["at", "at", "after", "after", "cancel", "forget", "raise", "none"]),
    st.integers(0, 60),
)
BATCHES = st.lists(st.tuples(st.integers(0, 30), st.lists(ACTIONS, max_size=4)), max_size=12)


@PROPERTY
@given(
    batches=BATCHES,
    restarts=st.lists(st.booleans(), min_size=1, max_size=5),
    buckets=st.integers(1, 8),
    worker_bytes=st.sampled_from([10**9, 1]),
)
def test_timers_fire_as_a_loop_over_all_micro_batches_says(
    batches: list[tuple[int, list[Sent]]], restarts: list[bool], buckets: int, worker_bytes: int
) -> None:
    now = [0]
    trial = Trial(rings(), buckets=buckets, now=lambda: now[0])
    stages = Stages(rings(), buckets, failing=0.2, worker_bytes=worker_bytes, now=0)
    timers: defaultdict[int, set[int]] = defaultdict(set)
    states: dict[int, dict[str, int]] = {}
    expected, sequence = list[str](), 0
    for number, (passed, batch) in enumerate(batches):
        now[0] += passed
        sent = [Message(each.message, b"k", None, "n/0", sequence + at + 1) for at, each in enumerate(batch)]
        sequence += len(batch)
        trial.send(*sent)
        stages.now = now[0]
        stages.send(*sent)
        for key, does, at in batch:
            if does == "raise":
                continue
            state = states.setdefault(key, {"values": 0})
            state["values"] += 1
            if does in ("at", "after"):
                timers[key].add(at if does == "at" else now[0] + at)
            elif does in ("cancel", "forget"):
                timers[key].clear()
            if does == "forget":
                del states[key]
        for key in timers:
            for at in sorted(at for at in timers[key] if at <= now[0]):
                timers[key].remove(at)
                if at % 5:
                    states[key]["rings"] = states[key].get("rings", 0) + 1
                    expected.append(f"{key} at {at}: {states[key]['values']}, {states[key]['rings']}")
                    timers[key] |= {now[0] + 7} if at % 3 == 0 else set()
        if restarts[number % len(restarts)]:
            trial.restart()
        assert sorted(trial.values("out")) == sorted(text.encode() for text in expected)
        assert sorted(value for _, value in stages.written["out"]) == sorted(trial.values("out"))
        assert trial.states("act") == states == stages.shown("act", stages.states()["act"])


def app_of(function: Any, on_timer: Any, **arguments: Any) -> Pipeline:
    app = Pipeline("app")
    keyed = app.source("n/*").key_by(lambda message: message.key)
    keyed.stateful(function, dict, on_timer=on_timer, name="watch", **arguments).sink(
        "out", encode=lambda value: repr(value).encode()
    )
    return app


def test_the_result_of_a_timer_has_the_event_time_that_was_reached_and_comes_into_a_window_that_is_open() -> None:
    now = [0]
    app = Pipeline("app")
    keyed = app.source("n/*").key_by(lambda message: message.key)
    rung = keyed.stateful(
        lambda message, state, context: context.set_timer(at_clock=50),
        dict,
        on_timer=lambda state, context: (context.event_time, context.clock, context.watermark),
        clock_every="1s",
        name="watch",
    )
    rung.window(tumbling("100us")).aggregate(total(lambda one: one[0]), name="sums").map(str, name="text").sink("out")
    trial = Trial(app, now=lambda: now[0])
    trial.send(Message(b"", b"a", 120, "n/0"), Message(b"", b"b", 140, "n/1"))
    now[0] = 50
    trial.send()
    trial.send(Message(b"", b"c", 200, "n/0"), Message(b"", b"c", 200, "n/1"))
    assert sorted(trial.values("out")) == [b"120", b"140"]


@pytest.mark.parametrize("on_error", OnError)
def test_a_timer_rings_while_a_stream_is_awaited_and_what_follows_has_the_event_time_of_the_values(on_error: OnError) -> None:
    now = [0]
    app = Pipeline("app", on_error=on_error, dead_letters="failed" if on_error is OnError.DEAD_LETTER else None)
    keyed = app.source("n/*").key_by(lambda message: message.key)
    rung = keyed.stateful(
        lambda message, state, context: context.set_timer(at_clock=50),
        dict,
        on_timer=lambda state, context: context.event_time,
        clock_every="1s",
        name="watch",
    )
    rung.stateful(lambda time, state, context: time, dict, ttl="1 hour", name="kept").map(str, name="text").sink("out")
    rung.window(tumbling("100us")).aggregate(total(), name="sums").map(str, name="sum").sink("sums")
    trial, stages = Trial(app, now=lambda: now[0]), Stages(app, now=0)
    trial.open("n/0", "n/1")
    stages.open("n/0", "n/1")
    for at, times in ((0, (120,)), (50, ()), (60, (320,))):
        now[0] = stages.now = at
        sent = [Message(b"", b"a", time, "n/0", time) for time in times]
        trial.send(*sent)
        stages.send(*sent)
    assert trial.values("out") == [value for _, value in stages.written["out"]] == [b"120", b"320"]
    assert (trial.failed, +trial.counts) == ([], +stages.counts)
    trial.end("n/1")
    assert trial.values("sums") == [b"120"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_micro_batch_that_ends_event_time_fires_timers_by_the_clock_that_are_due_and_gives_the_others_a_time(
    restarts: bool,
) -> None:
    now = [0]

    def watch(message: Message, state: dict[str, int], context: Context) -> None:
        if message.value:
            context.set_timer(at_clock=100)
            context.set_timer(after_clock="50us")

    app = app_of(watch, lambda state, context: (context.clock, context.event_time), clock_every="1s")
    trial, stages = Trial(app, now=lambda: now[0]), Stages(app)
    for at, value, rung in ((10, b"set", []), (59, b"", []), (70, b"", [(60, 70)]), (130, b"", [(100, 130)]), (500, b"", [])):
        now[0] = stages.now = at
        sent = Message(value, b"a", at, "n/0", at)
        before = len(trial.values("out"))
        trial.send(sent)
        stages.send(sent)
        trial.finish()
        stages.end("n/0", all_=True)
        if restarts:
            trial.restart()
        assert trial.values("out")[before:] == [repr(pair).encode() for pair in rung]
        assert trial.values("out") == [value for _, value in stages.written["out"]]


def test_all_runs_that_are_one_micro_batch_that_ends_event_time_fire_what_is_due() -> None:
    app = app_of(
        lambda message, state, context: context.set_timer(after_clock="50us") or context.set_timer(at_clock=5),
        lambda state, context: (context.clock, context.event_time),
        clock_every="1s",
    )
    graph, states = app.graph, States()
    key_by = next(number for number, found in enumerate(graph.steps) if found.label == "key_by")
    found = list[Any]()
    for now in (10, 59, 60):
        passed, times = Pass(graph, defaultdict(States, watch=states)), np.full(1, now)
        if now == 10:
            origin = Origin("n/0", np.array([1]), [b""], [b""], times)
            passed.enter(key_by, Elements([Message(b"")], origin, None, ["a"], times, times))
        passed.fire_due(1, END, Present(None, now))
        found.append([value for _, elements in passed.written for value in elements.values])
    assert found == [[b"(5, 10)"], [], [b"(60, 10)"]]


def test_timers_by_both_times_do_not_touch_each_other() -> None:
    now = [0]

    def watch(message: Message, state: dict[str, int], context: Context) -> None:
        context.set_timer(after="10us")
        context.set_timer(at_clock=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))

    def rang(state: dict[str, int], context: Context) -> Any:
        return context.event_time, context.clock

    trial = Trial(app_of(watch, rang, clock_every="1s"), now=lambda: now[0])
    trial.send(Message(b"", b"a", 0, "n/0"))
    now[0] = 999_999
    trial.send(Message(b"", b"b", 10, "n/0"))
    assert trial.values("out") == [b"(10, None)"]
    now[0] = 1_000_000
    trial.send()
    assert trial.values("out")[1:] == [b"(10, 1000000)"] * 2
    trial.send(Message(b"", b"c", 11, "n/0"))
    assert trial.values("out")[3:] == [b"(11, 1000000)"]
    trial.finish()
    assert trial.values("out")[4:] == [b"(20, None)", b"(21, None)"]
    assert set(trial.states("watch")) == {b"a", b"b", b"c"}


def test_a_timer_that_is_set_anew_with_each_value_fires_once_the_values_stop() -> None:
    now = [0]

    def watch(message: Message, state: dict[str, int], context: Context) -> None:
        context.cancel_clock_timers()
        context.set_timer(after_clock="30us")

    trial = Trial(app_of(watch, lambda state, context: context.clock, clock_every="1s"), now=lambda: now[0])
    for time in (0, 20, 40):
        now[0] = time
        trial.send(Message(b"", b"a", None, "n/0"))
    for time, rung in ((69, []), (70, [b"70"]), (200, [b"70"])):
        now[0] = time
        trial.send()
        assert trial.values("out") == rung


def test_states_of_a_version_without_such_timers_are_taken_over_and_those_that_are_set_wait_for_a_version_that_has_them() -> None:
    now = [0]

    def plain(message: Message, state: dict[str, int], context: Context) -> None:
        state["n"] = state.get("n", 0) + 1

    def sets(message: Message, state: dict[str, int], context: Context) -> None:
        plain(message, state, context)
        context.set_timer(at_clock=5)

    def rang(state: dict[str, int], context: Context) -> int:
        return state["n"]

    trial = Trial(app_of(plain, rang), now=lambda: now[0])
    trial.send(Message(b"", b"a", None, "n/0"))
    trial.restart(app_of(sets, rang, clock_every="1s"))
    trial.send(Message(b"", b"a", None, "n/0"))
    trial.restart(app_of(plain, rang))
    now[0] = 9
    trial.send(Message(b"", b"a", None, "n/0"))
    assert trial.values("out") == []
    trial.restart(app_of(sets, rang, clock_every="1s"))
    trial.send()
    assert trial.values("out") == [b"3"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"at_clock": -1}, "time by the clock -1 is outside the years 1970 to 9999"),
        ({"at_clock": 1.5}, "TypeError: a time by the clock is a datetime with a time zone or a whole number, not 1.5"),
        ({"at_clock": True}, "TypeError: a time by the clock is a datetime"),
        ({"at_clock": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"at_clock": 10**18}, "time by the clock 1000000000000000000 is outside the years 1970 to 9999"),
        ({"after_clock": timedelta.max}, "is longer than time by the clock, which ends with the year 9999"),
        ({"after_clock": "-1s"}, "UnitError"),
        ({"after_clock": 5}, "a duration is a timedelta"),
        ({"after_clock": "soon"}, "UnitError"),
        ({"at_clock": 1, "after_clock": "1s"}, "pass either at_clock= or after_clock="),
        ({"at": 1, "after_clock": "1s"}, "pass only one of a time, after=, at_clock= and after_clock="),
        ({}, "pass either a time or after="),
    ],
)
def test_what_a_timer_is_given_is_checked(arguments: dict[str, Any], error: str) -> None:
    app = app_of(lambda message, state, context: context.set_timer(**arguments), lambda state, context: 1, clock_every="1s")
    with pytest.raises(StepError, match="pipeline app, step watch") as raised:
        Trial(app).send(Message(b"", b"a", None, "n/0"))
    assert error in str(raised.value)


@pytest.mark.parametrize("span", [timedelta.max, timedelta(days=2_900_000)])
def test_a_timer_that_is_too_late_is_refused_where_the_clock_is_known(span: timedelta) -> None:
    def rang(state: dict[str, int], context: Context) -> None:
        context.set_timer(after_clock=span)

    app = app_of(lambda message, state, context: context.set_timer(at_clock=5), rang, clock_every="1s")
    with pytest.raises(StepError, match=r"pipeline app, step watch.*is longer than time by the clock"):
        Trial(app, now=lambda: 10**16).send(Message(b"", b"a", None, "n/0"))


def test_without_clock_every_there_are_no_such_timers_and_without_on_timer_it_is_refused() -> None:
    for call in (lambda context: context.set_timer(at_clock=1), lambda context: context.cancel_clock_timers()):
        app = app_of(lambda message, state, context, call=call: call(context), lambda state, context: 1)
        with pytest.raises(StepError, match="the step has no clock_every, which timers by the clock need"):
            Trial(app).send(Message(b"", b"a", None, "n/0"))
    with pytest.raises(GraphError, match="pipeline app, step watch: clock_every has no effect without on_timer"):
        app_of(lambda message, state, context: None, None, clock_every="1s")


@pytest.mark.parametrize("fails", [False, True])
def test_the_index_by_the_clock_stays_as_large_as_the_number_of_keys_however_often_timers_are_set_anew(fails: bool) -> None:
    def watch(message: Message, state: dict[str, int], context: Context) -> None:
        context.cancel_clock_timers()
        if context.sequence % 7 < 5:
            context.set_timer(after_clock="1h")
        elif context.sequence % 7 == 5:
            context.set_timer(at_clock=context.sequence + 10**9)
        if fails and context.sequence % 11 == 0:
            raise ValueError("as wanted")

    graph = app_of(watch, lambda state, context: 1, clock_every="1s", on_error=OnError.SKIP).graph
    (step,), states, keys = graph.keyed, States(), ["a", "b", "c", "a"]
    key_by = next(number for number, found in enumerate(graph.steps) if found.label == "key_by")
    for now in range(200):
        passed, times = Pass(graph, defaultdict(States, watch=states)), np.full(4, now)
        origin = Origin("n/0", np.arange(4 * now, 4 * now + 4), [b""] * 4, [b""] * 4, times)
        passed.enter(key_by, Elements([Message(b"")] * 4, origin, None, keys, times, times))
        passed.fire_due(1, now, Present(None, now))
        listed = [key for keys in states.by_clock._keys.values() for key in keys]
        assert len(listed) <= (2 if now <= 150 else 4) * len(set(keys))
        assert set(listed) >= {key for key, timed in states.items() if timed.by_clock}
        if now == 150:  # the states come from elsewhere, and are listed once more
            states.update(zip(states, step.state_class.unpack(step.state_class.pack(list(states.values()))), strict=True))
            states.renewed(states)
