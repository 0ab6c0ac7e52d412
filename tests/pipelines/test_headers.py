"""Headers through applications: which steps pass them on, read them and set them."""

from typing import Any

import pyarrow as pa
import pytest
from tests.engine.stages import Stages

from headrace.pipelines import (
    Context,
    Headers,
    KeyStates,
    Late,
    Message,
    OnError,
    Pipeline,
    StepError,
    Trial,
    count,
    count_window,
    session,
    tumbling,
)

SECOND = 1_000_000


def message(value: bytes, sequence: int, *headers: tuple[str, bytes | None], key: bytes | None = b"k", **more: Any) -> Message:
    return Message(value, key, stream="s/0", sequence=sequence, headers=Headers(headers), **more)


def received(app: Pipeline, *messages: Message, sink: str = "out") -> dict[bytes, Headers]:
    """The headers of each payload that the sink gets: in a trial, and from the stages that Spark runs."""
    trial, stages = Trial(app, buckets=2), Stages(app)
    trial.send(*messages)
    trial.finish()
    stages.send(*messages)
    stages.end(all_=True)
    found = {written.value: written.headers for written in trial.written[sink]}
    there = dict.fromkeys((value for _, value in stages.written[sink]), Headers())
    there |= {value: Headers(headers) for value, headers in stages.headers[sink]}
    assert there == found
    return found


TWO = [message(b"a", 1, ("n", b"1"), ("n", None)), message(b"b", 2), message(b"c", 3, ("m", b"3"))]
THEIRS = {b"a": (("n", b"1"), ("n", None)), b"b": (), b"c": (("m", b"3"),)}


def test_the_sink_gets_the_headers_of_the_source() -> None:
    app = Pipeline("straight")
    app.source("s/*", decode=bytes.decode).sink("out")
    assert received(app, *TWO) == THEIRS


def test_steps_without_state_pass_headers_on() -> None:
    app = Pipeline("stateless")
    flow = app.source("s/*", decode=bytes.decode).filter(lambda value: value != "b").map(str.upper)
    flow.flat_map(lambda value: [value, value + "2"]).sink("out")
    one, three = THEIRS[b"a"], THEIRS[b"c"]
    assert received(app, *TWO) == {b"A": one, b"A2": one, b"C": three, b"C2": three}


@pytest.mark.parametrize("own", [True, False])
def test_headers_pass_a_shuffle_and_a_stateful_step(own: bool) -> None:
    app = Pipeline("stateful")
    source = app.source("s/*", decode=bytes.decode)
    keyed = source.key_by() if own else source.key_by(lambda value: value)
    keyed.stateful(lambda value, seen: seen.append(value) or value, list, name="seen").sink("out")
    assert received(app, *TWO) == THEIRS


def test_headers_pass_two_shuffles_and_deduplication() -> None:
    app = Pipeline("twice")
    again = app.source("s/*", decode=bytes.decode).key_by(lambda value: value).map(lambda value: value * 2)
    distinct = again.key_by(lambda value: value[0]).deduplicate(lambda value: value, within="1 hour", name="once")
    distinct.sink("out")
    timed = [message(m.value or b"", m.sequence, *m.headers, event_time=m.sequence * SECOND) for m in TWO]
    assert received(app, *timed) == {value * 2: headers for value, headers in THEIRS.items()}


def test_merged_branches_keep_the_headers_of_each() -> None:
    app = Pipeline("branches")
    source = app.source("s/*", decode=bytes.decode)
    marked = source.set_headers(lambda value, headers: headers.with_header("branch", b"1"))
    joined = marked.map(lambda value: value + "1").merge(source.map(lambda value: value + "2"))
    joined.key_by(lambda value: value).stateful(lambda value, seen: value, list, name="same").sink("out")
    expected = {value + b"2": headers for value, headers in THEIRS.items()}
    expected |= {value + b"1": (*headers, ("branch", b"1")) for value, headers in THEIRS.items()}
    assert received(app, *TWO) == expected


def test_a_message_has_the_headers_of_the_source() -> None:
    app = Pipeline("messages")
    app.source("s/*").filter(lambda m: m.headers.get("n", b"") is None).map(lambda m: repr(tuple(m.headers))).sink("out")
    assert list(received(app, *TWO)) == [repr(THEIRS[b"a"]).encode()]


def test_a_message_has_its_headers_after_a_shuffle() -> None:
    app = Pipeline("messages")
    shown = app.source("s/*").key_by().stateful(lambda m, seen: repr(tuple(m.headers)), list, name="shown")
    shown.key_by(lambda text: text).aggregate(count(), output=lambda key, number, _: f"{key} {number}").sink("out")
    expected = {f"{headers!r} 1".encode(): () for headers in THEIRS.values()}
    assert received(app, *TWO) == expected


def test_steps_read_headers() -> None:
    app = Pipeline("reading")
    read = app.source("s/*", decode=bytes.decode).map_with_headers(lambda value, headers: value if headers else None)
    keyed = read.key_by(lambda value: value).map_with_headers(lambda value, headers: f"{value} {len(headers)}")
    keyed.sink("out")
    assert received(app, *TWO) == {b"a 2": THEIRS[b"a"], b"c 1": THEIRS[b"c"]}


def test_steps_set_headers() -> None:
    app = Pipeline("setting")
    flow = app.source("s/*", decode=bytes.decode).set_headers(lambda value, headers: headers.without("n").with_header("v", b"x"))
    flow.filter(lambda value: value != "b").key_by(lambda value: value).set_headers(
        lambda value, headers: [*headers, ("key", value.encode())]
    ).sink("out")
    assert received(app, *TWO) == {b"a": (("v", b"x"), ("key", b"a")), b"c": (("m", b"3"), ("v", b"x"), ("key", b"c"))}


def test_set_headers_can_remove_all() -> None:
    app = Pipeline("removing")
    app.source("s/*", decode=bytes.decode).key_by().set_headers(lambda value, headers: ()).sink("out")
    assert received(app, *TWO) == dict.fromkeys(THEIRS, ())


@pytest.mark.parametrize("wrong", [[("n", "text")], [(b"n", b"v")], [("n",)], ["n"], [("\ud800", b"")], 3])
def test_wrong_headers_name_the_step(wrong: Any) -> None:
    app = Pipeline("wrong")
    app.source("s/*", decode=bytes.decode).set_headers(lambda value, headers: wrong, name="setting").sink("out")
    with pytest.raises(StepError, match="pipeline wrong, step setting, stream s/0, sequence 1: "):
        Trial(app).send(*TWO)


def test_what_fails_in_set_headers_keeps_the_others_in_place() -> None:
    app = Pipeline("skipping", on_error=OnError.SKIP)
    flow = app.source("s/*", decode=bytes.decode).set_headers(lambda value, headers: [("n", headers[0][1])], name="first")
    flow.sink("out")
    assert received(app, *TWO) == {b"a": (("n", b"1"),), b"c": (("n", b"3"),)}


def test_a_context_has_the_headers_and_timers_have_none() -> None:
    def on_value(value: str, seen: list[str], context: Context) -> str:
        context.set_timer(after="5 seconds")
        return f"{value} {len(context.headers)}"

    def on_timer(seen: list[str], context: Context) -> str:
        return f"timer {len(context.headers)}"

    app = Pipeline("context")
    timed = app.source("s/*", decode=bytes.decode).key_by(lambda value: "all")
    timed.stateful(on_value, list, on_timer=on_timer, name="timed").map(str.upper).sink("out")
    sent = [message(m.value or b"", m.sequence, *m.headers, event_time=m.sequence * 10 * SECOND) for m in TWO]
    expected = {f"{value.decode()} {len(headers)}".upper().encode(): headers for value, headers in THEIRS.items()}
    assert received(app, *sent) == {**expected, b"TIMER 0": ()}


@pytest.mark.parametrize("windows", [tumbling("10 seconds"), session("10 seconds"), count_window(3)])
def test_windows_have_no_headers_unless_they_are_set(windows: Any) -> None:
    app = Pipeline("windows")
    counted = app.source("s/*", decode=bytes.decode).key_by(lambda value: "all").window(windows).aggregate(count(), name="n")
    counted.map(lambda number: f"{number}").sink("out")
    counted.map(lambda number: f"{number} set").set_headers(lambda _, headers: [*headers, ("n", b"3")]).sink("out")
    sent = [message(m.value or b"", m.sequence, *m.headers, event_time=m.sequence * SECOND) for m in TWO]
    assert received(app, *sent) == {b"3": (), b"3 set": (("n", b"3"),)}


def test_running_aggregates_have_no_headers() -> None:
    app = Pipeline("running")
    app.source("s/*", decode=bytes.decode).key_by(lambda value: "all").aggregate(count(), name="n").map(str).sink("out")
    assert received(app, *TWO) == dict.fromkeys((b"1", b"2", b"3"), ())


def test_late_values_keep_their_headers_and_late_windows_have_none() -> None:
    app = Pipeline("late")
    windowed = app.source("s/*", decode=bytes.decode).key_by(lambda value: "all").window(tumbling("1 second"), late=Late.FIRE)
    windowed.aggregate(count(), output=lambda key, number, window: f"{window.start // SECOND}", name="n").sink("out")
    windowed.late_values().sink("late")
    sent = [message(b"new", 1, event_time=60 * SECOND), message(b"old", 2, ("n", b"1"), event_time=2 * SECOND)]
    assert received(app, *sent, sink="late") == {b"old": (("n", b"1"),)}
    assert received(app, *sent) == {b"60": (), b"2": ()}


def test_dead_letters_begin_with_the_headers_of_the_message() -> None:
    app = Pipeline("dead", on_error=OnError.DEAD_LETTER, dead_letters="dead")
    source = app.source("s/*", decode=bytes.decode).set_headers(lambda value, headers: [])
    source.key_by(lambda value: value).stateful(lambda value, seen: 1 / 0, list, name="failing").map(str).sink("out")
    stages = Stages(app)
    stages.send(*TWO)
    assert {value: headers[:-5] for value, headers in stages.headers["dead"]} == {k: list(v) for k, v in THEIRS.items()}
    assert all(headers[-5][0] == "headrace-pipeline" for _, headers in stages.headers["dead"])


def test_headers_that_nobody_needs_are_not_shuffled() -> None:
    app = Pipeline("unread")
    app.source("s/*", decode=bytes.decode).key_by(lambda value: value).aggregate(count(), name="n").map(str).sink("out")
    graph = app.graph
    assert [step.name for step, needed in zip(graph.steps, graph.headers_after, strict=True) if needed] == ["n", "map"]


def test_get_finds_the_last_value_of_a_name() -> None:
    headers = Headers([("a", b"1"), ("b", None), ("a", b"2")])
    assert (headers.get("a"), headers.get("b", b"x"), headers.get("c", b"x")) == (b"2", None, b"x")
    assert headers.with_header("a", b"3") == (("b", None), ("a", b"3"))
    assert headers.without("a", "c") == (("b", None),)


def named_and_valued(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that have headers, each twice, with one more header."""
    chosen = [row for row in rows.to_pylist() if row["headers"] for _ in range(2)]
    headers = [[*row["headers"], {"name": "new", "value": b"x"}] for row in chosen]
    return pa.RecordBatch.from_pydict({"value": [row["value"] for row in chosen], "headers": pa.array(headers)})


@pytest.mark.parametrize("again", [False, True])
def test_columnar_steps_read_and_set_headers(again: bool) -> None:
    app = Pipeline("columns")
    flow = app.source("s/*").map_columns(named_and_valued, headers=True)
    if again:
        keyed = flow.key_by(lambda row: row["value"])
        keyed.stateful(lambda row, seen: row["value"], list, name="same").sink("out")
    else:
        flow.sink("out")
    expected = {value: (*headers, ("new", b"x")) for value, headers in THEIRS.items() if headers}
    assert received(app, *TWO) == expected


def test_columnar_steps_see_the_headers_after_a_shuffle_and_pass_them_on() -> None:
    def seen(rows: pa.RecordBatch, states: KeyStates[list[int]]) -> pa.RecordBatch:
        counts = [len(headers) for headers in rows["headers"].to_pylist()]
        return pa.RecordBatch.from_pydict(
            {"value": [b"%s %d" % pair for pair in zip(rows["value"].to_pylist(), counts, strict=True)]}
        )

    app = Pipeline("columns")
    app.source("s/*").key_by().stateful_columns(seen, list, headers=True).map_columns(lambda rows: rows, name="same").sink("out")
    assert received(app, *TWO) == {b"%s %d" % (value, len(headers)): headers for value, headers in THEIRS.items()}


def test_columnar_steps_without_headers_have_the_columns_that_they_had() -> None:
    columns: list[list[str]] = []
    app = Pipeline("columns")
    app.source("s/*").map_columns(lambda rows: columns.append(rows.schema.names) or rows, name="noting").sink("out")
    assert received(app, *TWO) == THEIRS
    assert columns[0] == ["key", "value", "event_time", "sequence"]


@pytest.mark.parametrize("wrong", [[b"x"], [None], [[None]], [[{"name": None, "value": b""}]], [[{"other": "n"}]]], ids=str)
def test_wrong_columns_of_headers_name_the_step(wrong: Any) -> None:
    app = Pipeline("wrong")
    made = pa.RecordBatch.from_pydict({"value": [b"v"], "headers": pa.array(wrong)})
    app.source("s/*").map_columns(lambda rows: made, headers=True, name="making").sink("out")
    with pytest.raises(StepError, match=r"pipeline wrong, step making, .*the column headers"):
        Trial(app).send(TWO[0])
