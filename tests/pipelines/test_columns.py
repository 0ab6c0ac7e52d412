"""Columnar steps receive record batches wherever they may be, and sinks take columns of payloads."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.rig import cut

from headrace.pipelines import Flow, GraphError, KeyStates, Message, OnError, Pipeline, StepError, Trial, tumbling


def shared(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The values, with how many of them are in no record batch of one message."""
    return pa.RecordBatch.from_pydict({"value": batch.column("value"), "share": pa.array(range(batch.num_rows))})


def collected(batch: pa.RecordBatch, states: KeyStates[list[bytes]]) -> None:
    for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
        states[key].append(value)


def parity(message: Message) -> int:
    return int(message.value or b"") % 2


GRAPHS: dict[str, Callable[[Flow[Message]], Flow[Any]]] = {
    "branches of a stream": lambda flow: flow.merge(flow.filter(parity)).key_by(lambda message: 0),
    "a second key_by": lambda flow: flow.key_by(parity, name="first").key_by(lambda message: 0),
    "rows behind a second key_by": lambda flow: flow.key_by(parity, name="first").map_columns(shared).key_by(lambda row: 0),
    "branches with columns": lambda flow: (
        flow.map_columns(shared, name="one").merge(flow.map_columns(shared)).key_by(lambda row: 0)
    ),
}


@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS)
@given(count=st.integers(1, 9), ends=st.lists(st.integers(0, 9), max_size=3), buckets=st.integers(1, 3))
def test_a_columnar_step_receives_columns_whatever_the_order_of_parts(
    build: Callable[[Flow[Message]], Flow[Any]], count: int, ends: list[int], buckets: int
) -> None:
    app = Pipeline("columns")
    keyed: Any = build(app.source("s/*"))
    keyed.stateful_columns(collected, list, name="collected").sink("out")
    trial = Trial(app, buckets=buckets)
    messages = [Message(b"%d" % number, stream="s/0", sequence=number + 1) for number in range(count)]
    for batch in cut(messages, ends):
        trial.send(*batch)
    values = [int(value) for value in trial.states("collected")[0]]
    assert values == sorted(values)
    assert set(values) == set(range(count))


@pytest.mark.parametrize(
    "build",
    [
        lambda app: app.source("s/*", decode=int).map_columns(shared, name="step"),
        lambda app: app.source("s/*").map(bytes).map_columns(shared, name="step"),
        lambda app: app.source("s/*").key_by().stateful(max, list).map_columns(shared, name="step"),
        lambda app: app.source("s/*").merge(app.source("t/*", decode=int)).map_columns(shared, name="step"),
        lambda app: app.source("s/*", decode=int).key_by(str).stateful_columns(collected, list, name="step"),
        lambda app: app.source("s/*").key_by().window(tumbling("1s")).collect(max).map_columns(shared, name="step"),
    ],
)
def test_a_columnar_step_that_cannot_have_columns_is_refused_before_it_runs(build: Callable[[Pipeline], Flow[Any]]) -> None:
    app = Pipeline("columns")
    build(app).sink("out")
    with pytest.raises(GraphError, match="pipeline columns: step step is columnar, so it must follow a source without decode"):
        Trial(app)


@pytest.mark.parametrize("pass_on", ["filter", "set_headers", "late_values", "deduplicate", "event_time", "merge"])
def test_steps_that_pass_values_on_pass_on_columns(pass_on: str) -> None:
    steps: dict[str, Callable[[Flow[Message]], Flow[Message]]] = {
        "filter": lambda flow: flow.filter(parity),
        "set_headers": lambda flow: flow.set_headers(lambda message, headers: [("a", b"b")]),
        "late_values": lambda flow: flow.key_by(parity).window(tumbling("1us")).late_values(),
        "deduplicate": lambda flow: flow.deduplicate(lambda message: message.value, within="1s"),
        "event_time": lambda flow: flow.event_time(lambda message: message.sequence),
        "merge": lambda flow: flow.merge(flow.filter(parity)),
    }
    app = Pipeline("columns")
    steps[pass_on](app.source("s/*")).map_columns(shared, name="step").sink("out")
    trial = Trial(app)
    trial.send(Message(b"1", event_time=9, stream="s/0"), Message(b"3", event_time=1, stream="s/0"))
    assert b"3" in trial.values("out")


def through_a_sink(column: pa.Array, on_error: OnError = OnError.FAIL) -> Trial:
    app = Pipeline("columns", on_error=on_error)
    app.source("s/*").map_columns(lambda batch: pa.RecordBatch.from_pydict({"value": column})).sink("out")
    trial = Trial(app)
    trial.send(*[Message(b"", stream="s/0")] * len(column))
    return trial


@pytest.mark.parametrize(
    "type_",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_a_column_of_bytes_or_text_of_any_type_is_one_of_payloads(type_: pa.DataType) -> None:
    assert through_a_sink(
        pa.array([b"ab", None, b"cd"]).cast(pa.string()).cast(type_)
        if type_ != pa.binary(2)
        else pa.array([b"ab", None, b"cd"], type_)
    ).values("out") == [b"ab", None, b"cd"]
    assert through_a_sink(pa.array(["ab", "cd", "ab"]).dictionary_encode()).values("out") == [b"ab", b"cd", b"ab"]
    assert through_a_sink(pa.nulls(2)).values("out") == [None, None]


@pytest.mark.parametrize("column", [pa.array([1, 2]), pa.array([1.5, 2.5]), pa.array([[b"a"], [b"b"]]), pa.array([True, False])])
def test_a_column_of_something_else_fails_as_a_function_does(column: pa.Array) -> None:
    with pytest.raises(StepError, match=r"step to-out, stream s/0, sequence 1: TypeError: the column value has values of type"):
        through_a_sink(column)
    skipping = through_a_sink(column, OnError.SKIP)
    assert (skipping.values("out"), skipping.counts["skipped", "to-out"]) == ([], 2)


def test_so_does_a_batch_without_a_column_of_payloads() -> None:
    app = Pipeline("columns", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    app.source("s/*").map_columns(lambda batch: batch.drop_columns("value")).sink("out")
    trial = Trial(app)
    trial.send(Message(b"a", stream="s/0"))
    assert "TypeError: the sink needs a column named value, or an encode function" in trial.failed[0]
