"""Any pipeline gives what the model says, however its input is cut into micro-batches, buckets, and lives of the application."""

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipelines import model
from tests.pipelines.model import Bad, Chain, Event
from tests.pipelines.rig import by_key, cut

from headrace.pipelines import (
    KeyedFlow,
    Late,
    Message,
    OnError,
    Pipeline,
    Trial,
    count_window,
    session,
    sliding,
    total,
    tumbling,
)

# The same examples in every run. None is kept in a database, since what fails here fails for everybody.
PROPERTY = settings(max_examples=150, derandomize=True, database=None)


class Kind(NamedTuple):
    """A step, and what it is in the model."""

    add: Callable[[KeyedFlow[int]], KeyedFlow[int]]
    make: Callable[[], model.Operator]


class Sent(NamedTuple):
    key: str
    time: int
    number: int


# The functions of the pipelines. They change their state before they raise.


def bad(number: int) -> None:
    if number % 13 == 12:
        raise Bad


def fold(number: int, state: dict[str, int]) -> int | None:
    state["hash"] = (state.get("hash", 0) * 31 + number) % 1009
    bad(number)
    return None if number % 5 == 4 else state["hash"]


def mix(so_far: int, number: int) -> int:
    bad(number)
    return (so_far * 31 + number) % 1009


def append(values: list[int], number: int) -> list[int]:
    values.append(number)
    bad(number)
    return values


def of_window(values: list[int], start: int, end: int) -> int:
    result = (sum(value * (place + 1) for place, value in enumerate(values)) + start + 7 * end) % 1009
    bad(result)
    return result


def take(number: int, state: dict[str, int], context: Any) -> int | None:
    state["hash"] = (state.get("hash", 0) * 31 + number) % 1009
    if number % 3 == 0:
        context.set_timer(at=context.event_time + number % 20 - 4)
    if number % 7 == 1:
        context.cancel_timer(at=context.event_time + 2)
    if number % 11 == 5:
        context.forget()
    bad(number)
    return state["hash"] + context.watermark if number % 4 else None


def ring(state: dict[str, int], context: Any) -> int | None:
    at = context.event_time
    state["hash"] = (state.get("hash", 0) * 31 + at) % 1009
    if at % 3 == 0:
        context.set_timer(at=at + 4)
    if at % 9 == 1:
        context.forget()
    bad(at)
    return state["hash"] if at % 4 else None


# Random steps, with their counterparts in the model


NUMBERS = itertools.count()


def fresh() -> str:
    """A name that no other step has."""
    return f"step-{next(NUMBERS)}"


def us(span: int) -> timedelta:
    return timedelta(microseconds=span)


LATES = {"drop": Late.DROP, "fire": Late.FIRE, "place": Late.PLACE_IN_OLDEST}
SPANS = st.integers(1, 25)


def folds(ttl: int | None) -> Kind:
    lives = None if ttl is None else us(ttl)
    return Kind(lambda flow: flow.stateful(fold, dict, ttl=lives, name=fresh()), lambda: model.Fold(fold, ttl))


def timers(ttl: int | None) -> Kind:
    lives = None if ttl is None else us(ttl)
    return Kind(
        lambda flow: flow.stateful(take, dict, on_timer=ring, ttl=lives, name=fresh()), lambda: model.Timers(take, ring, ttl)
    )


def windows(size: int, every: int, allowed: int, late: str) -> Kind:
    every = min(size, every)

    def add(flow: KeyedFlow[int]) -> KeyedFlow[int]:
        kind = session(us(size)) if not every else tumbling(us(size)) if every == size else sliding(us(size), us(every))
        return flow.window(kind, delay=us(allowed), late=LATES[late]).aggregate(
            initial=list,
            update=append,
            combine=lambda a, b: a + b,
            output=lambda key, values, window: of_window(values, window.start, window.end),  # type: ignore[union-attr]
            name=fresh(),
        )

    return Kind(add, lambda: model.Windows(size, every, allowed, late, bad, of_window))


def once(within: int) -> Kind:
    def id_(number: int) -> int | None:
        return number % 6 or None

    return Kind(lambda flow: flow.deduplicate(id_, within=us(within), name=fresh()), lambda: model.Once(id_, within))


def counted(size: int) -> Kind:
    return Kind(
        lambda flow: flow.window(count_window(size)).aggregate(initial=int, update=mix, name=fresh()),
        lambda: model.Counted(size, mix),
    )


RUNNING = Kind(lambda flow: flow.aggregate(initial=int, update=mix, name=fresh()), lambda: model.Running(mix))
KINDS = st.one_of(
    st.builds(folds, st.none() | SPANS),
    st.builds(timers, st.none() | SPANS),
    st.builds(windows, SPANS, st.integers(0, 25), st.integers(0, 15), st.sampled_from(sorted(LATES))),
    st.builds(once, SPANS),
    st.builds(counted, st.integers(1, 4)),
    st.just(RUNNING),
)


def _times(steps: list[tuple[str, int, int, int]]) -> list[Sent]:
    """Values whose times advance, but for some that are late, and one in the end that makes all due that waits."""
    now, found = 0, []
    for key, on, behind, number in steps:
        now += on
        found.append(Sent(key, now - behind, number))
    return [*found, Sent("z", now + 1000, 1)]


STREAMS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 9),
        st.one_of(st.just(0), st.integers(0, 40)),
        st.integers(0, 60),
    ),
    max_size=40,
).map(_times)
CUTS = st.lists(st.integers(0, 100), max_size=8)


def second_key(number: int) -> str:
    return f"key {number % 2}"


def built(kinds: list[Kind], again: list[Kind] | None) -> Pipeline:
    app = Pipeline("random", on_error=OnError.SKIP)
    values = app.source("s/*", decode=lambda payload: tuple(map(int, payload.split()))).event_time(lambda value: value[0])
    flow: KeyedFlow[int] = KeyedFlow.map(values.merge().key_by(), lambda value: value[1])
    for kind in kinds:
        flow = kind.add(flow)
    if again is not None:
        flow = flow.key_by(second_key)
        for kind in again:
            flow = kind.add(flow)
    flow.sink("out", encode=lambda number: str(number).encode())
    return app


def messages(sent: list[Sent], stream: str = "s/0") -> list[Message]:
    return [Message(f"{time} {number}".encode(), key.encode(), None, stream) for key, time, number in sent]


def expected(sent: list[Sent], kinds: list[Kind], again: list[Kind] | None) -> list[Event]:
    """The model's results."""
    first = Chain([kind.make() for kind in kinds])
    second = None if again is None else Chain([kind.make() for kind in again], first.lag)
    found, mark = list[Event](), -model.FAR

    def behind(events: list[Event], mark: int) -> list[Event]:
        if second is None:
            return events
        results = []
        for event in model.in_order(events):
            results += second.take(event._replace(key=second_key(event.value)))
        return results + second.advance(mark)

    for sequence, (key, time, number) in enumerate(sent, 1):
        mark = max(mark, time)
        found += behind(first.take(Event(key.encode(), number, time, mark, sequence)), mark)
    return found


def outcome(trial: Trial) -> dict[object, list[object]]:
    return by_key((written.key, int(written.value)) for written in trial.written["out"])


def states(trial: Trial) -> dict[str, Any]:
    return {step.name: trial.states(step.name) for step in trial.pipeline.graph.keyed}


@PROPERTY
@given(
    sent=STREAMS,
    kinds=st.lists(KINDS, min_size=1, max_size=3),
    again=st.none() | st.lists(KINDS, min_size=1, max_size=2),
    cuts=CUTS,
    restarts=st.lists(st.booleans(), min_size=10, max_size=10),
    buckets=st.integers(1, 4),
)
def test_a_pipeline_gives_what_the_model_says(
    sent: list[Sent], kinds: list[Kind], again: list[Kind] | None, cuts: list[int], restarts: list[bool], buckets: int
) -> None:
    app = built(kinds, again)
    whole, parts = Trial(app), Trial(app, buckets=buckets)
    whole.send(*messages(sent))
    for batch, restart in zip(cut(messages(sent), cuts), restarts, strict=False):
        parts.send(*batch)
        if restart:
            parts.restart()
    model_says = by_key((event.key, event.value) for event in expected(sent, kinds, again))
    assert outcome(whole) == model_says
    assert outcome(parts) == model_says
    assert states(parts) == states(whole)
    whole.finish()
    parts.finish()
    assert outcome(parts) == outcome(whole)
    assert states(parts) == states(whole)


@PROPERTY
@given(
    streams=st.lists(STREAMS, min_size=2, max_size=3),
    order=st.randoms(use_true_random=False),
    cuts=CUTS,
    buckets=st.integers(1, 3),
    size=SPANS,
    every=SPANS,
    allowed=st.integers(0, 15),
    late=st.sampled_from(sorted(LATES)),
)
def test_windows_of_several_streams_are_the_same_in_any_order_of_the_streams(
    streams: list[list[Sent]], order: Any, cuts: list[int], buckets: int, size: int, every: int, allowed: int, late: str
) -> None:
    """Once all streams have begun: until then nobody knows whom to wait for."""
    every = min(size, every)
    app = Pipeline("streams")
    values = app.source("s/*", decode=lambda payload: tuple(map(int, payload.split()))).event_time(lambda value: value[0])
    sums = (
        values.key_by()
        .window(sliding(us(size), us(every)), delay=us(allowed), late=LATES[late])
        .aggregate(total(lambda value: value[1]), output=lambda key, sum_, window: (window.start, sum_))  # type: ignore[union-attr]
    )
    sums.sink("out", encode=repr_of)
    if late == "drop":
        # A late value that fires is late in the larger windows, too.
        larger = sums.key_by(lambda _: 0).window(tumbling(us(3 * size)))
        larger.aggregate(total(lambda pair: pair[1]), output=lambda key, sum_, window: (window.start, sum_), name="larger").sink(
            "all", repr_of
        )  # type: ignore[union-attr]
    trial = Trial(app, buckets=buckets)
    named = [(f"s/{number}", [Sent("a", -50, 0), *stream]) for number, stream in enumerate(streams)]
    waiting = [messages(sent, stream) for stream, sent in named]
    trial.send(*(some.pop(0) for some in waiting))
    mixed = []
    while any(waiting):
        mixed.append(order.choice([some for some in waiting if some]).pop(0))
    for batch in cut(mixed, cuts):
        trial.send(*batch)
    trial.finish()
    results = of_streams([sent for _, sent in named], size, every, allowed, late)
    assert Counter((w.key, *eval_(w.value)) for w in trial.written["out"]) == Counter(results)
    if late == "drop":
        larger_sums: Counter[int] = Counter()
        for _, start, sum_ in results:
            end = start + size - 1
            larger_sums[end // (3 * size) * 3 * size] += sum_
        assert dict(eval_(w.value) for w in trial.written["all"]) == dict(larger_sums)


def repr_of(pair: tuple[int, int]) -> bytes:
    return f"{pair[0]} {pair[1]}".encode()


def eval_(payload: bytes) -> tuple[int, ...]:
    return tuple(map(int, payload.split()))


def of_streams(streams: list[list[Sent]], size: int, every: int, allowed: int, late: str) -> list[tuple[bytes, int, int]]:
    """Key, start and sum of each window of several streams: each value is late, or not, for its own stream."""
    sums: Counter[tuple[bytes, int]] = Counter()
    alone = []
    for stream in streams:
        mark = -model.FAR
        for key, time, number in stream:
            mark = max(mark, time)
            starts = [start for start in range(time - size + 1, time + 1) if start % every == 0]
            open_ = [start for start in starts if start + size + allowed > mark]
            if not open_ and late == "fire":
                alone.append((key.encode(), max(starts), number))
            elif not open_ and late == "place":
                ends = range(mark - allowed + 1, mark - allowed + 1 + every)
                open_ = [end - size for end in ends if (end - size) % every == 0]
            for start in open_:
                sums[key.encode(), start] += number
    return [(key, start, sum_) for (key, start), sum_ in sums.items()] + alone


@pytest.mark.parametrize("buckets", [1, 3])
@PROPERTY
@given(sent=STREAMS, cuts=CUTS)
def test_branches_that_are_merged_give_the_same_however_they_are_cut(buckets: int, sent: list[Sent], cuts: list[int]) -> None:
    app = Pipeline("branches", on_error=OnError.SKIP)
    values = app.source("s/*", decode=lambda payload: tuple(map(int, payload.split()))).event_time(lambda value: value[0])
    odd, even = values.filter(lambda value: value[1] % 2 == 1), values.filter(lambda value: value[1] % 2 == 0)
    merged = odd.merge(even.map(lambda value: (value[0], -value[1])), values)
    numbers = KeyedFlow.map(merged.key_by(), lambda value: value[1])
    windows(7, 7, 3, "fire").add(folds(None).add(numbers)).sink("out", encode=lambda number: str(number).encode())
    whole, parts = Trial(app), Trial(app, buckets=buckets)
    whole.send(*messages(sent))
    for batch in cut(messages(sent), cuts):
        parts.send(*batch)
    assert states(whole) == states(parts)
    assert outcome(whole) == outcome(parts)
