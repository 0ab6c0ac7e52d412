"""Which streams are idle is decided over all streams that reach a step, whatever steps and merges they pass before."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import SECOND, Value, cut, decode, lines

from headrace.pipelines import Flow, Message, Pipeline, Trial, Window, collect, tumbling

FAR = 100_000
PROPERTY = settings(max_examples=40, derandomize=True, database=None, deadline=None)


def show(key: object, numbers: list[int], window: Window | None) -> str:
    return f"{window.start // SECOND}: {sorted(numbers)}" if window else ""


def same(value: Value, state: list[int]) -> Value:
    state[:] = [value.number]
    return value


def once(flow: Flow[Value], name: str) -> Flow[Value]:
    return flow.deduplicate(lambda value: value.number, within="1 day", name=name)


def through_a_state(flow: Flow[Value], name: str) -> Flow[Value]:
    return flow.key_by(lambda value: value.key, name=f"{name}-key").stateful(same, list[int], name=name)


def directly(flow: Flow[Value], name: str) -> Flow[Value]:
    return flow.map(lambda value: value, name=name)


WAYS: list[Callable[[Flow[Value], str], Flow[Value]]] = [once, through_a_state, directly]


@dataclass(frozen=True)
class Shape:
    """A random graph: after how many seconds the streams of each source are idle, and a seed for what comes behind."""

    idle_after: list[int | None]
    seed: int

    def build(self) -> Pipeline:
        draw, app = random.Random(self.seed), Pipeline("shape")
        flows = [self.read(app, number) for number in range(len(self.idle_after))]
        for step in range(4 * len(flows)):
            draw.shuffle(flows)
            if len(flows) > 1 and draw.random() < 0.5:
                flows.append(flows.pop().merge(flows.pop(), name=f"merge-{step}"))
            else:
                flows.append(draw.choice(WAYS)(flows.pop(), f"step-{step}"))
        return self.windows(app, flows)

    def read(self, app: Pipeline, number: int) -> Flow[Value]:
        idle = self.idle_after[number]
        values = app.source(f"s{number}/*", decode=decode, idle_after=None if idle is None else f"{idle}s", name=f"s{number}")
        return values.event_time(lambda value: (value.second or 0) * SECOND, name=f"time-{number}")

    def windows(self, app: Pipeline, flows: list[Flow[Value]]) -> Pipeline:
        numbers = (
            flows[0].merge(*flows[1:], name="all").key_by(lambda value: value.key, name="key").map(lambda value: value.number)
        )
        numbers.window(tumbling("10s")).aggregate(collect(), output=show, name="tens").sink("out")
        return app

    @property
    def streams(self) -> list[str]:
        return [f"s{number}/{part}" for number in range(len(self.idle_after)) for part in range(2)]


Sent = list[tuple[int, str, int]]
SHAPES = st.builds(Shape, st.lists(st.none() | st.integers(5, 40), min_size=2, max_size=4), st.integers(0, 10_000))
SENT = st.lists(st.tuples(st.integers(0, 7), st.sampled_from("ab"), st.integers(0, 100)), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=8)


def messages(shape: Shape, sent: Sent) -> list[Message]:
    last: Counter[str] = Counter()
    found = []
    for place, (number, key, second) in enumerate(sent):
        stream = shape.streams[number % len(shape.streams)]
        last[stream] += 1
        found.append(Message(f"{key}@{second}={place + 1}".encode(), key.encode(), None, stream, last[stream]))
    return found


def closing(shape: Shape, taken: list[Message]) -> list[Message]:
    """A message far ahead of each stream that is never idle, and of one stream at least."""
    last = Counter(message.stream for message in taken)
    named = [stream for stream in shape.streams if shape.idle_after[int(stream[1])] is None] or shape.streams[:1]
    return [Message(f"z@{FAR}={1000 + i}".encode(), b"z", None, stream, last[stream] + 1) for i, stream in enumerate(named)]


def closed(written: list[str]) -> list[str]:
    return [line.split(": ")[0] for line in written]


@PROPERTY
@given(shape=SHAPES, sent=SENT, cuts=CUTS, buckets=st.integers(1, 3), restarts=st.booleans())
def test_no_idle_stream_is_waited_for_and_no_window_closes_twice(
    shape: Shape, sent: Sent, cuts: list[int], buckets: int, restarts: bool
) -> None:
    app = shape.build()
    trial, parts, stages = Trial(app), Trial(app, buckets=buckets), Stages(app, buckets=buckets, seed=shape.seed)
    runs: list[Any] = [trial, parts, stages]
    for run in runs:
        run.open(*shape.streams)
    taken = messages(shape, sent)
    for batch in [*cut(taken, cuts), closing(shape, taken)]:
        for run in runs:
            run.send(*batch)
        if restarts:
            parts.restart()
    assert not {line for line in closed(lines(trial)) if closed(lines(trial)).count(line) > 1}
    still_open = {window.start for states in trial.states("tens").values() for window in states}
    assert still_open <= {FAR * SECOND}, "nothing waits for streams that are idle"
    assert sorted(lines(parts)) == sorted(lines(trial))
    assert sorted(f"{(key or b'').decode()} {value.decode()}" for key, value in stages.written["out"]) == sorted(lines(trial))


@PROPERTY
@given(shape=SHAPES, sent=SENT, cuts=CUTS)
def test_streams_that_are_never_idle_are_waited_for_whatever_way_they_take(shape: Shape, sent: Sent, cuts: list[int]) -> None:
    shape = Shape([None] * len(shape.idle_after), shape.seed)
    app, direct = shape.build(), Pipeline("direct")
    shape.windows(direct, [shape.read(direct, number) for number in range(len(shape.idle_after))])
    trial, plain = Trial(app, buckets=2), Trial(direct)
    for run in (trial, plain):
        run.open(*shape.streams)
        for batch in cut(messages(shape, sent), cuts):
            run.send(*batch)
    assert sorted(lines(trial)) == sorted(lines(plain))


def busy_and_quiet(build: Callable[[Flow[Message], Flow[Message]], Flow[Any]], busy: str | None = None) -> Pipeline:
    app = Pipeline("busy")
    flow = build(app.source("busy/*", idle_after=busy), app.source("quiet/*", idle_after="30 minutes"))
    counts = flow.key_by(lambda message: "k", name="k").window(tumbling("10 minutes"))
    counts.aggregate(collect(), output=lambda key, found, window: window.start, name="n").sink("out", encode=lambda n: b"%d" % n)
    return app


def keep(message: Message, state: list[int]) -> Message:
    return message


def stateful(flow: Flow[Message], name: str) -> Flow[Message]:
    return flow.key_by(lambda message: 1, name=f"{name}-key").stateful(keep, list[int], name=name)


@pytest.mark.parametrize("busy_idle_after", [None, "30 minutes"])
@pytest.mark.parametrize(
    "build",
    [
        lambda busy, quiet: busy.merge(quiet),
        lambda busy, quiet: busy.deduplicate(within="1 day", name="once").merge(quiet),
        lambda busy, quiet: busy.merge(quiet.deduplicate(within="1 day", name="once")),
        lambda busy, quiet: stateful(busy, "one").merge(stateful(quiet, "two")),
        lambda busy, quiet: stateful(stateful(busy, "one").merge(quiet), "two"),
        lambda busy, quiet: busy.merge(stateful(quiet, "one"), quiet),
    ],
)
def test_a_quiet_source_behind_or_beside_a_keyed_step_is_idle(build: Any, busy_idle_after: str | None) -> None:
    minute = 60 * SECOND
    trial = Trial(busy_and_quiet(build, busy_idle_after), buckets=2)
    trial.send(Message(b"q0", b"k", 0, "quiet/0", message_id="q0"), Message(b"b0", b"k", 0, "busy/0", message_id="b0"))
    for at in range(5, 721, 5):
        trial.send(Message(b"", b"k", at * minute, "busy/0", message_id=f"b{at}"))
    assert trial.values("out") == [b"%d" % (start * minute) for start in range(0, 720, 10)]
