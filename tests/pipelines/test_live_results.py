"""A result is what it was when it was returned: later changes of a state, of a value or of another result do not reach it."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipelines import (
    Aggregation,
    Context,
    KeyedFlow,
    KeyStates,
    Late,
    Message,
    OnError,
    Pipeline,
    StepError,
    Trial,
    collect,
    count_window,
    maximum,
    session,
    sliding,
    tumbling,
)

NUMBERS = [3, 1, 4, 1, 5]
SUMS = ["[3]", "[3, 1]", "[3, 1, 4]", "[3, 1, 4, 1]", "[3, 1, 4, 1, 5]"]


@dataclass
class State:
    items: list[int] = field(default_factory=list)


class Kept(Aggregation[Any, list[int], Any]):
    def initial(self) -> list[int]:
        return []

    def update(self, accumulator: list[int], value: int) -> list[int]:
        accumulator.append(value)
        return accumulator

    def output(self, key: Any, accumulator: list[int], window: Any) -> Any:
        return {"all": accumulator}


def add(number: int, state: list[int]) -> list[int]:
    state.append(number)
    return state


def add_part(number: int, state: dict[str, Any]) -> Any:
    state.setdefault("parts", []).append(number)
    return number, ("parts", state["parts"])


def add_to_instance(number: int, state: State) -> State:
    state.items.append(number)
    return state


def add_with_context(number: int, state: list[int], context: Context) -> list[int]:
    return add(number, state)


def yields(number: int, state: list[int]) -> Iterator[list[int]]:
    state.append(number)
    yield state
    state.append(0)
    state.pop()


def add_to_array(number: int, state: Any) -> Any:
    state[:] = np.roll(state, -1)
    state[-1] = number
    return state


def add_to_deque(number: int, state: deque[int]) -> deque[int]:
    state.append(number)
    return state


def with_timer(number: int, state: list[int], context: Context) -> None:
    state.append(number)
    context.set_timer(context.event_time)


def sort_output(key: Any, values: list[int], window: None) -> list[int]:
    values.sort()
    return values


RETURNING: dict[str, Callable[[KeyedFlow[int]], KeyedFlow[Any]]] = {
    "collect": lambda flow: flow.aggregate(collect(), name="all"),
    "the output changes what was collected": lambda flow: flow.aggregate(collect(), output=sort_output, name="all"),
    "the output changes the accumulator": lambda flow: flow.aggregate(
        initial=list, update=lambda values, n: [*values, n], output=sort_output, name="all"
    ),
    "functions": lambda flow: flow.aggregate(initial=list, update=lambda values, n: add(n, values), name="all"),
    "own aggregation": lambda flow: flow.aggregate(Kept(), name="all"),
    "own aggregation and output": lambda flow: flow.aggregate(Kept(), output=lambda key, found, _: [found], name="all"),
    "the largest": lambda flow: flow.map(lambda n: [n]).aggregate(maximum(), name="all"),
    "state": lambda flow: flow.stateful(add, list, name="all"),
    "part of a state": lambda flow: flow.stateful(add_part, dict, name="all"),
    "instance": lambda flow: flow.stateful(add_to_instance, State, name="all").map(lambda state: [state.items]),
    "array": lambda flow: flow.stateful(add_to_array, lambda: np.zeros(3), name="all").map(lambda array: array.tolist()),
    "deque": lambda flow: flow.stateful(add_to_deque, lambda: deque(maxlen=2), name="all").map(list),
    "list of states": lambda flow: flow.stateful_flat(lambda n, state: [add(n, state)] * 2, list, name="all"),
    "yielded state": lambda flow: flow.stateful_flat(yields, list, name="all"),
    "context": lambda flow: flow.stateful(add_with_context, list, name="all"),
    "context and many": lambda flow: flow.stateful_flat(lambda n, state, context: [add(n, state), [state]], list, name="all"),
    "time to live": lambda flow: flow.stateful(add, list, ttl="1 hour", name="all"),
    "timer": lambda flow: flow.stateful(with_timer, list, on_timer=lambda state, context: state, name="all"),
    "yielded values": lambda flow: flow.flat_map(grows),
    "one value twice": lambda flow: flow.flat_map(lambda n: [[n]] * 2),
    "sliding windows": lambda flow: (
        flow.map(lambda n: [n]).window(sliding("4s", "2s"), late=Late.FIRE).aggregate(collect(), name="all")
    ),
    "sliding windows with a value as accumulator": lambda flow: (
        flow.map(lambda n: [n]).window(sliding("4s", "1s")).aggregate(initial=lambda: None, update=extended, name="all")
    ),
    "sessions": lambda flow: flow.map(lambda n: [n]).window(session("1s")).aggregate(collect(), name="all"),
    "count windows": lambda flow: flow.map(lambda n: [n]).window(count_window(2)).aggregate(collect(), name="all"),
}


def grows(number: int) -> Iterator[list[int]]:
    found: list[int] = []
    for each in range(3):
        found.append(number + each)
        yield found


def extended(before: list[int] | None, value: list[int]) -> list[int]:
    if before is None:
        return value
    before.extend(value)
    return before


def text(value: Any) -> str:
    return json.dumps(value).replace('"', "")


def spoil(value: Any) -> Any:
    """Changes everything in a value that can change."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for each in list(inside):
        spoil(each)
    if isinstance(value, (dict, list)):
        value.clear()
    return value


def keep(value: Any, state: dict[str, Any]) -> str:
    """Keeps a value as its state, and returns the one before."""
    before = text(state.get("before"))
    state["before"] = value
    return before


THEN: dict[str, Callable[[KeyedFlow[Any]], Any]] = {
    "is written": lambda flow: flow.sink("out", encode=lambda value: text(value).encode()),
    "is kept by another step": lambda flow: flow.stateful(keep, dict, name="kept").sink("out"),
    "is kept behind a shuffle": lambda flow: (
        flow.key_by(lambda value: 0, name="again").stateful(keep, dict, name="kept").sink("out")
    ),
    "is changed": lambda flow: flow.map(lambda value: (text(value), spoil(value))[0]).sink("out"),
    "is changed in a branch": lambda flow: (
        flow.map(spoil).filter(lambda value: False).sink("nowhere"),
        flow.stateful(keep, dict, name="kept").sink("out"),
        flow.map(lambda value: (spoil(value), None)[1]).sink("nowhere"),
        flow.sink("out", encode=lambda value: (text(value), spoil(value))[0].encode()),
    ),
}


def results(
    returning: str, then: str, cuts: list[int], *, restarts: bool = False, buckets: int = 1, on_error: OnError = OnError.FAIL
) -> list[bytes]:
    app = Pipeline("live", on_error=on_error)
    numbers = app.source("numbers/*", decode=int).filter(lambda n: n / n > 0)
    THEN[then](RETURNING[returning](numbers.key_by(lambda n: "k")))
    trial = Trial(app, buckets=buckets)
    messages = [Message(b"%d" % n, event_time=at * 1_000_000, stream="numbers/0") for at, n in enumerate(NUMBERS)]
    for first, last in zip([0, *cuts], [*cuts, len(messages)], strict=True):
        trial.send(*messages[first:last])
        if restarts:
            trial.restart()
    trial.finish()
    return trial.values("out")


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("returning", RETURNING)
def test_results_do_not_depend_on_what_else_has_them(returning: str, then: str) -> None:
    one_by_one = results(returning, then, [1, 2, 3, 4], restarts=True)
    assert one_by_one
    assert sorted(results(returning, then, [])) == sorted(one_by_one)
    assert sorted(results(returning, then, [2], buckets=3)) == sorted(one_by_one)
    assert sorted(results(returning, then, [1, 3], restarts=True)) == sorted(one_by_one)
    assert sorted(results(returning, then, [], on_error=OnError.SKIP)) == sorted(one_by_one)


@pytest.mark.parametrize("returning", ["collect", "functions", "state", "yielded state", "context", "time to live"])
def test_a_result_is_the_state_as_it_was(returning: str) -> None:
    assert [value.decode() for value in results(returning, "is written", [])] == SUMS


def test_the_other_results_are_as_a_person_expects() -> None:
    for returning, expected in {
        "the output changes what was collected": ["[3]", "[1, 3]", "[1, 3, 4]", "[1, 1, 3, 4]", "[1, 1, 3, 4, 5]"],
        "yielded values": [f"[{', '.join(str(n + each) for each in range(last))}]" for n in NUMBERS for last in (1, 2, 3)],
        "timer": SUMS,
        "sliding windows": ["[[3], [1]]", "[[3], [1], [4], [1]]", "[[4], [1], [5]]", "[[5]]"],
        "deque": ["[3]", "[3, 1]", "[1, 4]", "[4, 1]", "[1, 5]"],
    }.items():
        assert [value.decode() for value in results(returning, "is written", [])] == expected


def test_a_branch_that_changes_a_value_changes_no_other_branch_and_no_state() -> None:
    app = Pipeline("branches")
    orders = app.source("orders/*", decode=json.loads)
    orders.map(lambda order: order.pop("price") and None).sink("nowhere")
    keyed = orders.key_by(lambda order: order.pop("id"))
    keyed.stateful(lambda order, state: state.append(order), list, name="kept").sink("nowhere")
    keyed.filter(lambda order: bool(order["lines"].clear())).sink("nowhere")
    orders.sink("out", encode=lambda order: json.dumps(order).encode())
    trial = Trial(app)
    order = b'{"id": 1, "price": 2, "lines": [3]}'
    trial.send(Message(order, stream="orders/0"))
    assert trial.values("out") == [order]
    assert trial.states("kept") == {1: [json.loads(order)]}


def test_rows_of_a_columnar_step_are_own_dicts_in_each_branch() -> None:
    app = Pipeline("rows")
    rows = app.source("rows/*").map_columns(lambda batch: batch)
    rows.map(lambda row: row.clear()).sink("nowhere")
    rows.map(lambda row: row["value"]).sink("out")
    trial = Trial(app)
    trial.send(Message(b"a", stream="rows/0"))
    assert trial.values("out") == [b"a"]


def test_columns_do_not_share_memory_with_a_state() -> None:
    def columns(batch: pa.RecordBatch, states: KeyStates[Any]) -> pa.RecordBatch:
        state = states[b"k"]
        state += 1
        return pa.RecordBatch.from_arrays([pa.array(state)], names=["sum"])

    app = Pipeline("columns")
    keyed = app.source("a/*, b/*").key_by()
    keyed.stateful_columns(columns, lambda: np.zeros(1, np.int64), name="sums").map(lambda row: str(row["sum"])).sink("out")
    keyed.stateful_columns(columns, lambda: np.zeros(1, np.int64), name="rows").sink(
        "rows", encode=lambda row: b"%d" % row["sum"]
    )
    trial = Trial(app)
    trial.send(Message(b"", b"k", stream="a/0"), Message(b"", b"k", stream="b/0"))
    assert (trial.values("out"), trial.values("rows")) == ([b"1", b"2"], [b"1", b"2"])


def test_a_function_is_called_once_for_each_value_whatever_others_raise() -> None:
    calls: list[dict[str, int]] = []

    def count(value: dict[str, int]) -> dict[str, int]:
        calls.append(value)
        value["n"] += 1
        if value["n"] == 2:
            raise ValueError
        if value["n"] == 3:
            raise StopIteration
        return value

    app = Pipeline("calls", on_error=OnError.SKIP)
    app.source("n/*", decode=json.loads).map(count).sink("out", encode=lambda value: b"%d" % value["n"])
    trial = Trial(app)
    trial.send(*(Message(b'{"n": %d}' % n, stream="n/0") for n in (5, 1, 6, 2, 7)))
    assert trial.values("out") == [b"6", b"7", b"8"]
    assert len(calls) == 5
    assert trial.counts["skipped", "count"] == 2


@pytest.mark.parametrize("step", ["stateful", "context", "aggregate", "window", "count"])
def test_a_state_that_is_rolled_back_has_the_values_as_they_were(step: str) -> None:
    def take(value: dict[str, int], state: list[Any]) -> Any:
        if value["n"] < 0:
            raise ValueError
        state.append(value)
        for each in state:
            each["n"] += 1
        return state

    def update(state: list[Any], value: dict[str, int]) -> Any:
        return take(value, state)

    app = Pipeline("rollback", on_error=OnError.SKIP)
    keyed = app.source("n/*", decode=json.loads).key_by(lambda value: 0)
    made = {
        "stateful": lambda: keyed.stateful(take, list, name="step"),
        "context": lambda: keyed.stateful(lambda value, state, context: take(value, state), list, name="step"),
        "aggregate": lambda: keyed.aggregate(initial=list, update=update, name="step"),
        "window": lambda: keyed.window(tumbling("1 hour")).aggregate(initial=list, update=update, name="step"),
        "count": lambda: keyed.window(count_window(9)).aggregate(initial=list, update=update, name="step"),
    }[step]()
    made.sink("out", encode=lambda state: json.dumps(state).encode())
    trial = Trial(app)
    trial.send(*(Message(b'{"n": %d}' % n, event_time=0, stream="n/0") for n in (1, 10, -1, 20, -1, -1, 30)))
    state: Any = trial.states("step")[0]
    if step in ("window", "count"):
        state = state[1] if step == "count" else next(iter(state.values()))
    assert state == [{"n": 5}, {"n": 13}, {"n": 22}, {"n": 31}]


def test_a_columnar_function_that_raises_leaves_the_states_as_they_were() -> None:
    def columns(batch: pa.RecordBatch, states: KeyStates[list[bytes]]) -> None:
        keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
        for key, value in zip(keys, values, strict=True):
            states[key].append(value)
            if value == b"gone":
                del states[b"a"]
        if b"wrong" in values:
            raise ValueError

    app = Pipeline("columns", on_error=OnError.SKIP)
    app.source("n/*").key_by().stateful_columns(columns, list, name="kept").sink("out")
    trial = Trial(app)
    trial.send(Message(b"1", b"a", stream="n/0"))
    trial.send(Message(b"gone", b"a", stream="n/0"), Message(b"2", b"b", stream="n/0"), Message(b"wrong", b"a", stream="n/0"))
    assert trial.states("kept") == {b"a": [b"1"]}
    assert trial.counts["skipped", "kept"] == 3


def test_states_of_a_trial_are_copies() -> None:
    app = Pipeline("copies")
    app.source("n/*", decode=int).key_by(lambda n: 0).stateful(add, list, name="all").sink("out", encode=bytes)
    trial = Trial(app)
    trial.send(Message(b"1", stream="n/0"))
    before = trial.states("all")
    trial.send(Message(b"2", stream="n/0"))
    assert (before, trial.states("all")) == ({0: [1]}, {0: [1, 2]})


def test_what_cannot_be_copied_is_an_error_of_the_step_that_returned_it() -> None:
    class Unique:
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("there is only one")

    for branches in (1, 2):
        app = Pipeline("unique")
        numbers = app.source("n/*", decode=int)
        if branches == 1:
            made = numbers.key_by(lambda n: 0).stateful(lambda n, state: Unique(), list, name="made")
        else:
            made = numbers.key_by(lambda n: 0).map(lambda n: Unique(), name="made")
        for _ in range(branches):
            made.sink("out", encode=lambda unique: b"")
        with pytest.raises(StepError, match=r"step made, .* a value of type Unique cannot be copied .*there is only one.* plain"):
            Trial(app).send(Message(b"1", stream="n/0"))


VALUES = st.recursive(
    st.integers(0, 9), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)
STEPS: dict[str, Callable[[KeyedFlow[Any], str], KeyedFlow[Any]]] = {
    "keep": lambda flow, name: flow.stateful(lambda value, state: (state.append(value), state)[1], list, name=name),
    "last": lambda flow, name: flow.stateful(lambda value, state: [state.get(0), state.update({0: value})][0], dict, name=name),
    "spoil": lambda flow, name: flow.map(lambda value: [spoil(value), 1], name=name),
    "twice": lambda flow, name: flow.flat_map(lambda value: [value, [value]], name=name),
    "collect": lambda flow, name: flow.aggregate(collect(), name=name),
    "largest": lambda flow, name: flow.aggregate(maximum(text), output=lambda k, found, w: [found], name=name),
    "window": lambda flow, name: flow.window(sliding("2s", "1s")).aggregate(collect(), name=name),
    "key": lambda flow, name: flow.key_by(lambda value: len(text(value)) % 2, name=name),
}


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    st.lists(VALUES, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(sorted(STEPS))), min_size=1, max_size=6),
    st.sets(st.integers(1, 4)),
    st.integers(1, 3),
)
def test_any_graph_has_the_same_results_however_messages_are_divided(
    values: list[Any], steps: list[tuple[int, str]], cuts: set[int], buckets: int
) -> None:
    def run(cuts: set[int], buckets: int, restarts: bool) -> dict[str, list[bytes]]:
        app = Pipeline("graph")
        flows: list[Any] = [app.source("n/*", decode=json.loads).key_by(lambda value: 0, name="first")]
        for number, (at, step) in enumerate(steps):
            flows.append(STEPS[step](flows[at % len(flows)], f"{step}-{number}"))
        for number, flow in enumerate(flows):
            flow.sink(f"out-{number}", encode=lambda value: (text(value), spoil(value))[0].encode())
        trial = Trial(app, buckets=buckets)
        for at, value in enumerate(values):
            if at == 0 or at in cuts:
                batch: list[Message] = []
            batch.append(Message(json.dumps(value).encode(), event_time=at * 1_000_000, stream="n/0", sequence=at + 1))
            if at + 1 in cuts or at + 1 == len(values):
                trial.send(*batch)
                if restarts:
                    trial.restart()
        trial.finish()
        return {sink: sorted(trial.values(sink)) for sink in app.graph.sinks}

    assert run(cuts, buckets, restarts=False) == run(set(range(9)), 1, restarts=True)
