"""What functions return that is no value: it fails as if the function had raised, and never reaches a sink or a state."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.pipelines.rig import text

from headrace.pipelines import (
    Aggregation,
    Flow,
    KeyedFlow,
    KeyStates,
    Message,
    OnError,
    Pipeline,
    StepError,
    Trial,
    collect,
    count,
    count_window,
    session,
    tumbling,
)

# Python's own words about what an application did not await, beside the error.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def coroutine() -> bytes:
    return b"later"


def generator() -> Iterator[bytes]:
    yield b"later"


async def async_generator() -> Any:
    yield b"later"


class Later:
    def __await__(self) -> Any:
        yield b"later"


LAZY: dict[str, Callable[[], object]] = {
    "coroutine": coroutine,
    "generator": generator,
    "async generator": async_generator,
    "map": lambda: map(str, []),
    "zip": lambda: zip((), (), strict=True),
    "iterator of a list": lambda: iter([b"later"]),
    "awaitable": Later,
    "future": Future,
    "future of asyncio": lambda: asyncio.Future(loop=SimpleNamespace(get_debug=lambda: False)),  # type: ignore[arg-type]
}

Adds = Callable[[Flow[Any], Callable[[], Any]], Flow[Any]]
"""Adds a step named `step`, whose function returns what another function makes, or ignores it."""


def keyed(flow: Flow[Any]) -> KeyedFlow[Any]:
    return flow.key_by(lambda message: 0, name="by-key")


class Own(Aggregation[Any, Any, Any]):
    def __init__(self, update: Callable[[], Any] = list, output: Callable[[], Any] = list) -> None:
        self._update, self._output = update, output

    def initial(self) -> Any:
        return []

    def update(self, accumulator: Any, value: Any) -> Any:
        return self._update()

    def combine(self, first: Any, second: Any) -> Any:
        return self._update()

    def output(self, key: Any, accumulator: Any, window: Any) -> Any:
        return self._output()


def with_timer(make: Callable[[], Any]) -> Any:
    def function(value: Any, state: Any, context: Any) -> None:
        context.set_timer(after="1us")

    return function


VALUES: dict[str, Adds] = {
    "map": lambda flow, make: flow.map(lambda value: make(), name="step"),
    "map_with_headers": lambda flow, make: flow.map_with_headers(lambda value, headers: make(), name="step"),
    "filter": lambda flow, make: flow.filter(lambda value: make(), name="step"),
    "event_time": lambda flow, make: flow.event_time(lambda value: make(), name="step"),
    "key_by": lambda flow, make: flow.key_by(lambda value: make(), name="step"),
    "flat_map": lambda flow, make: flow.flat_map(lambda value: [make()], name="step"),
    "stateful": lambda flow, make: keyed(flow).stateful(lambda value, state: make(), list, name="step"),
    "with a context": lambda flow, make: keyed(flow).stateful(lambda value, state, context: make(), list, name="step"),
    "on_timer": lambda flow, make: keyed(flow).stateful(
        with_timer(make), list, on_timer=lambda state, context: make(), name="step"
    ),
    "stateful_flat": lambda flow, make: keyed(flow).stateful_flat(lambda value, state: [make()], list, name="step"),
    "stateful_flat with a context": lambda flow, make: keyed(flow).stateful_flat(
        lambda value, state, context: [make()], list, name="step"
    ),
    "update": lambda flow, make: keyed(flow).aggregate(initial=list, update=lambda a, b: make(), name="step"),
    "output": lambda flow, make: keyed(flow).aggregate(count(), output=lambda *_: make(), name="step"),
    "update of an aggregation": lambda flow, make: keyed(flow).aggregate(Own(update=make), name="step"),
    "output of an aggregation": lambda flow, make: keyed(flow).aggregate(Own(output=make), name="step"),
    "update in a window": lambda flow, make: (
        keyed(flow).window(tumbling("1s")).aggregate(initial=list, update=lambda a, b: make(), name="step")
    ),
    "output of a window": lambda flow, make: (
        keyed(flow).window(tumbling("1s")).aggregate(count(), output=lambda *_: make(), name="step")
    ),
    "collect of a window": lambda flow, make: keyed(flow).window(tumbling("1s")).collect(lambda *_: make(), name="step"),
    "output of a count window": lambda flow, make: (
        keyed(flow).window(count_window(1)).aggregate(count(), output=lambda *_: make(), name="step")
    ),
    "id": lambda flow, make: flow.deduplicate(lambda value: make(), within="1s", name="step"),
    "id by key": lambda flow, make: keyed(flow).deduplicate(lambda value: make(), within="1s", name="step"),
    "map_columns": lambda flow, make: flow.map_columns(lambda batch: make(), name="step"),
    "stateful_columns": lambda flow, make: keyed(flow).stateful_columns(lambda batch, states: make(), list, name="step"),
    "set_headers": lambda flow, make: flow.set_headers(lambda value, headers: [make()], name="step"),
}


def run(add: Adds, make: Callable[[], Any], on_error: OnError) -> Trial:
    app = Pipeline("lazy", on_error=on_error, dead_letters="failed")
    add(app.source("s/*", name="messages"), make).sink("out", encode=text, name="writes")
    trial = Trial(app)
    trial.send(Message(b"a", event_time=1, stream="s/0"))
    trial.finish()
    return trial


@pytest.mark.parametrize("lazy", LAZY)
@pytest.mark.parametrize("method", VALUES)
def test_what_is_not_there_yet_is_no_value(method: str, lazy: str) -> None:
    with pytest.raises(StepError, match=r"pipeline lazy, step step(-by-id)?\b.*stream s/0, sequence 1: TypeError: .+"):
        run(VALUES[method], LAZY[lazy], OnError.FAIL)
    trial = run(VALUES[method], LAZY[lazy], OnError.DEAD_LETTER)
    assert trial.values("out") == []
    assert len(trial.failed) == 1


def test_decoders_and_encoders_return_what_is_there() -> None:
    for decode, encode in ((lambda payload: coroutine(), text), (bytes, lambda value: coroutine())):
        app = Pipeline("lazy", on_error=OnError.SKIP)
        app.source("s/*", decode=decode, name="in").sink("out", encode=encode, name="to-out")
        trial = Trial(app)
        trial.send(Message(b"a", stream="s/0"))
        assert trial.values("out") == []
        assert sum(trial.counts.values()) == 1


def test_the_state_is_as_before_a_call_that_returns_no_value() -> None:
    def append(value: int, state: list[int]) -> object:
        state.append(value)
        return generator() if value == 2 else len(state)

    app = Pipeline("lazy", on_error=OnError.SKIP)
    app.source("s/*", decode=int).key_by(lambda value: 0).stateful(append, list, name="step").sink("out", encode=text)
    trial = Trial(app)
    trial.send(*(Message(b"%d" % number, stream="s/0") for number in (1, 2, 3)))
    assert trial.states("step") == {0: [1, 3]}
    assert trial.values("out") == [b"1", b"2"]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("ab", r"returned a str, not a list of results: return \[result\], or list\(result\)"),
        (b"ab", "returned a bytes, not a list"),
        (5, "not iterable"),
    ],
)
def test_one_text_is_not_many_results(returned: object, says: str) -> None:
    adds: list[Adds] = [
        lambda flow, make: flow.flat_map(lambda value: make(), name="step"),
        lambda flow, make: keyed(flow).stateful_flat(lambda value, state: make(), list, name="step"),
        lambda flow, make: keyed(flow).stateful_flat(lambda value, state, context: make(), list, name="step"),
    ]
    for add in adds:
        with pytest.raises(StepError, match=says):
            run(add, lambda: returned, OnError.FAIL)


def test_no_results_are_none_where_there_may_be_none() -> None:
    with pytest.raises(StepError, match=r"returned None, not a list of results: return \[\]"):
        run(lambda flow, make: flow.flat_map(lambda value: make(), name="step"), lambda: None, OnError.FAIL)
    add: Adds = lambda flow, make: keyed(flow).stateful_flat(lambda value, state: make(), list, name="step")  # noqa: E731
    assert run(add, lambda: None, OnError.FAIL).values("out") == []


UPDATES: dict[str, Adds] = {name: adds for name, adds in VALUES.items() if name.startswith("update")}


@pytest.mark.parametrize("method", UPDATES)
def test_an_update_that_returns_none_fails_at_the_first_value(method: str) -> None:
    with pytest.raises(StepError, match="sequence 1: TypeError: update returned None, and must return the accumulator"):
        run(UPDATES[method], lambda: None, OnError.FAIL)


def test_so_does_a_combine() -> None:
    app = Pipeline("sessions")
    visits = app.source("s/*").key_by(lambda message: 0).window(session("10us"), delay="1s")
    visits.aggregate(initial=list, update=lambda a, b: [*a, b.value], combine=lambda a, b: a.extend(b), name="step").sink(
        "out", text
    )
    trial = Trial(app)
    with pytest.raises(StepError, match=r"step step.* sequence 3: TypeError: combine returned None"):
        trial.send(*(Message(b"", event_time=time, stream="s/0") for time in (5, 16, 10)))


def test_accumulators_that_begin_as_none_may_be_none() -> None:
    app = Pipeline("last")
    numbers = app.source("s/*", decode=lambda payload: [int(payload)]).key_by(lambda number: 0)
    numbers.aggregate(initial=lambda: None, update=lambda a, b: b[0] or None, name="step").sink("out", encode=text)
    trial = Trial(app)
    trial.send(*(Message(b"%d" % number, stream="s/0") for number in (1, 0, 2)))
    assert trial.values("out") == [b"1", b"2"]


@pytest.mark.parametrize("of", [dict, lambda value: [1], lambda value: float("nan"), lambda value: object()])
def test_ids_are_keys(of: Callable[[Any], Any]) -> None:
    adds: list[Adds] = [
        lambda flow, make: flow.deduplicate(lambda value: make(), within="1s", name="step"),
        lambda flow, make: keyed(flow).deduplicate(lambda value: make(), within="1s", name="step"),
    ]
    for add in adds:
        with pytest.raises(StepError, match=r"step step.*sequence 1: (Type|Value)Error: "):
            run(add, lambda: of(()), OnError.FAIL)


def test_what_is_neither_true_nor_false_follows_the_policy() -> None:
    add: Adds = lambda flow, make: flow.filter(lambda value: make(), name="step")  # noqa: E731
    assert run(add, lambda: np.array([1]), OnError.FAIL).values("out") != []
    assert run(add, lambda: "", OnError.FAIL).values("out") == []
    with pytest.raises(StepError, match=r"step step, .*ValueError: The truth value"):
        run(add, lambda: np.array([1, 2]), OnError.FAIL)
    assert len(run(add, lambda: np.array([1, 2]), OnError.DEAD_LETTER).failed) == 1


def test_columnar_steps_return_record_batches() -> None:
    for returned in (pa.table({"value": [b"a"]}), [b"a"], {"value": [b"a"]}):
        with pytest.raises(StepError, match=r"step step, .*it must return a pyarrow.RecordBatch, or None for no results"):
            run(
                lambda flow, make: flow.map_columns(lambda batch: make(), name="step"), lambda found=returned: found, OnError.FAIL
            )  # type: ignore[misc]


@pytest.mark.parametrize(
    ("of", "keys"), [(lambda m: m.value, [b"v", b"w"]), (lambda m: int(m.sequence), [1, 2]), (None, [b"k", b""])]
)
def test_columns_have_the_keys_of_the_key_by(of: Callable[[Message], Any] | None, keys: list[object]) -> None:
    seen: list[list[object]] = []

    def keep(batch: pa.RecordBatch, states: KeyStates[list[int]]) -> pa.RecordBatch:
        seen.append(batch.column("key").to_pylist())
        for key in batch.column("key").to_pylist():
            states[key].append(1)
        return batch

    app = Pipeline("columns")
    by_key: KeyedFlow[Any] = app.source("s/*").key_by(of, name="by-key")
    by_key.map_columns(lambda batch: batch, name="same").stateful_columns(keep, list, name="step").sink("out")
    trial = Trial(app)
    trial.send(Message(b"v", b"k", stream="s/0"), Message(b"w", None, stream="s/0"))
    assert seen == [keys]
    assert trial.states("step") == {key: [1] for key in keys}
    assert [written.key for written in trial.written["out"]] == keys


def test_a_columnar_function_can_only_create_the_states_of_its_keys() -> None:
    def asks(key: object) -> None:
        app = Pipeline("columns", on_error=OnError.FAIL)
        flow: KeyedFlow[Any] = app.source("s/*").key_by(lambda message: 1, name="by-key")
        flow.stateful_columns(lambda batch, states: states[key], list, name="step").sink("out")  # type: ignore[index]
        Trial(app).send(Message(b"v", b"k", stream="s/0"))

    with pytest.raises(StepError, match="2 is not a key of this record batch"):
        asks(2)
    with pytest.raises(StepError, match="a key must be bytes, text, a number"):
        asks([1])
    with pytest.raises(StepError, match=r"must return a pyarrow.RecordBatch"):
        asks(np.int64(1))


def test_keys_of_columns_are_of_one_type() -> None:
    app = Pipeline("columns", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    flow: KeyedFlow[Any] = app.source("s/*").key_by(lambda message: (1, message.value), name="by-key")
    flow.stateful_columns(lambda batch, states: batch, list, name="step").sink("out")
    trial = Trial(app)
    trial.send(Message(b"v", b"k", stream="s/0"))
    assert "the keys of a columnar step must be bytes, text or numbers, all of one type, and they are tuple" in trial.failed[0]


def test_collect_and_the_other_aggregations_stay_as_they_are() -> None:
    app = Pipeline("same")
    app.source("s/*", decode=int).key_by(lambda n: 0).aggregate(collect(), name="step").sink("out", encode=text)
    trial = Trial(app)
    trial.send(Message(b"1", stream="s/0"), Message(b"2", stream="s/0"))
    assert trial.states("step") == {0: [1, 2]}
