"""A captured table has the rows that the database has, whatever else its stream carries."""

import json as plain_json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.rig import cut
from tests.pipelines.test_joins import CUTS, PROPERTY, RESTARTS

from headrace.pipelines import GraphError, Headers, Message, OnError, Pipeline, StepError, Trial, primary_key
from headrace.pipelines.formats import json

MARKER = Headers([("connect.marker", None)])
TABLES = {"public.customers": ("id",), "audit.customers": ("id",), "public.stock": ("shop", "item")}
"""The columns of the primary keys."""


@dataclass
class Row:
    version: int


def change(key: Any, row: Any, topic: str = "shop.public.customers", time: int = 0) -> Message:
    """The message of a change."""
    value = None if row is None else plain_json.dumps(row).encode()
    header = Headers([("debezium.op", b"d" if row is None else b"u"), ("connect.topic", topic.encode())])
    return Message(value, None if key is None else plain_json.dumps(key).encode(), time, "shop/0", headers=header)


CHANGES = st.lists(
    st.one_of(
        st.none(),
        st.tuples(st.sampled_from([*TABLES]), st.integers(1, 3), st.sampled_from("ab"), st.booleans()),
    ),
    max_size=40,
)
"""A marker; or a table, the parts of a key, and whether the row is deleted."""


@PROPERTY
@given(changes=CHANGES, cuts=CUTS, restarts=RESTARTS, buckets=st.integers(1, 8))
def test_each_table_of_a_stream_has_the_rows_that_a_dict_has_after_all_changes(
    changes: list[tuple[str, int, str, bool] | None], cuts: list[int], restarts: list[bool], buckets: int
) -> None:
    app = Pipeline("app")
    orders = app.source("orders/*", decode=bytes.decode)
    kinds = {"public.customers": int, "audit.customers": None, "public.stock": tuple[int, str]}
    for name, kind in kinds.items():
        table = app.table("shop/*", decode=json(Row), key=primary_key(name, kind), name=name)
        orders.join(table, on=lambda value: value, as_of=False, name=f"join {name}").map(repr, name=f"text {name}").sink("out")
    oracle: dict[str, dict[Any, int]] = {name: {} for name in TABLES}
    sent = []
    for version, one in enumerate(changes):
        if one is None:
            sent.append(Message(None, None, None, "shop/0", headers=MARKER))
            continue
        name, number, letter, is_deleted = one
        columns = TABLES[name]
        values = (number, letter)[: len(columns)]
        key = values[0] if len(values) == 1 else values
        row = dict(zip(columns, values, strict=True))
        sent.append(change(row, None if is_deleted else {**row, "version": version}, f"shop.{name}", version))
        oracle[name].pop(key, None)
        if not is_deleted:
            oracle[name][key] = version
    trial = Trial(app, buckets=buckets)
    trial.open("orders/0", "shop/0")
    for number, batch in enumerate(cut(sent, cuts)):
        trial.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    trial.end("shop/0", "orders/0")
    trial.finish()
    for name, rows in oracle.items():
        there = {key: state["right"] for key, state in trial.states(f"join {name}").items()}
        assert there == {key: [Row(version)] for key, version in rows.items()}


def tried(
    *sent: Message, table: str = "public.customers", key: Any = int, decode: Any = None, on_error: Any = OnError.FAIL
) -> Trial:
    """A trial of a function that sees the rows of a table."""
    app = Pipeline("app", on_error=on_error)
    rows = app.broadcast("shop/*", decode=decode or json(Row), key=primary_key(table, key), name="rows")
    flow = app.source("l/*").key_by(name="plain").map_with(rows, lambda value, rows: repr({**rows}), retention="1s", name="seen")
    flow.sink("out")
    trial = Trial(app)
    trial.open("l/0", "shop/0")
    trial.send(*sent)
    trial.send(Message(b"", b"k", 1_000_000, "l/0"))
    trial.end("shop/0", "l/0")
    trial.finish()
    return trial


@pytest.mark.parametrize("named", ["public.customers", "shop.public.customers"])
def test_a_broadcast_table_has_the_rows_of_one_captured_table_by_name_or_topic(named: str) -> None:
    trial = tried(
        change({"id": 7}, {"id": 7, "version": 1}),
        change({"id": 7}, {"id": 7, "version": 2}, "shop.public.orders"),
        change({"id": 8}, {"id": 8, "version": 3}),
        change({"id": 8}, None),
        table=named,
    )
    assert trial.values("out") == [b"{7: Row(version=1)}"]


@pytest.mark.parametrize(
    ("sent", "key", "said"),
    [
        (
            change(None, {"version": 1}),
            int,
            "captured table public.customers: the message has no key, so the table needs a primary",
        ),
        (change({"id": "x"}, {"version": 1}), int, r"the key b'\{\"id\": \"x\"\}' is not JSON of int: Expected `int`, got `str`"),
        (change({"a": 1, "b": 2}, {"version": 1}), int, "is not JSON of int: Expected `int`, got `array`"),
        (change({"a": 1}, {"version": 1}), tuple[int, str], "is not JSON of tuple"),
        (change({"schema": {}, "payload": {}}, {"version": 1}), None, r"is not JSON of plain values: it has \{\}"),
        (change({}, {"version": 1}), None, "is not JSON of plain values"),
        (Message(b"", b"not JSON", 0, "shop/0", headers=change(1, 1).headers), None, "is not JSON of plain values"),
        (
            Message(b"", b"7", 0, "shop/0"),
            int,
            "the message has no header connect.topic, which the bridge to Kafka Connect writes",
        ),
        (change({"id": 1}, {"version": "x"}), int, r"json\(.*Row\): Expected `int`"),
    ],
)
def test_a_message_that_is_no_row_fails_with_what_is_wrong_or_is_skipped(sent: Message, key: Any, said: str) -> None:
    with pytest.raises(StepError, match=said):
        tried(sent, key=key)
    trial = tried(sent, key=key, on_error=OnError.SKIP)
    assert trial.values("out") == [b"{}"]


UNSENT = "__debezium_unavailable_value"
IN_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


@dataclass
class Text(Row):
    text: str


@dataclass
class Bytes(Row):
    text: bytes


@dataclass
class Array(Row):
    text: list[str]


@pytest.mark.parametrize(
    ("kind", "value"), [(Text, UNSENT), (Bytes, IN_BASE64), (Text, IN_BASE64), (Array, [UNSENT]), (None, UNSENT)]
)
def test_a_row_that_lacks_a_value_fails_unless_its_class_leaves_it_out(kind: Any, value: Any) -> None:
    sent = change({"id": 7}, {"version": 1, "text": value})
    with pytest.raises(StepError, match="PostgreSQL did not send column text, which is large and did not change: ALTER TABLE"):
        tried(sent, decode=json if kind is None else json(kind))
    assert tried(sent).values("out") == [b"{7: Row(version=1)}"]


def test_a_row_that_only_mentions_the_word_is_a_row() -> None:
    sent = change({"id": 7}, {"version": 1, "text": f"see {UNSENT}"})
    assert tried(sent, decode=json(Text)).values("out") == [f"{{7: Text(version=1, text='see {UNSENT}')}}".encode()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("public.my table",),
            r"table must have 1 to 249 ASCII letters.*'public.my table'; for other characters, Debezium writes _",
        ),
        (("public.customers", list), "key must be int, str, float, bytes or a tuple of these, such as tuple.*list"),
        (("public.customers", tuple[int, ...]), "key must be int"),
        (("public.customers", tuple[int]), "key must be int"),
        (("public.customers", dict[int, str]), "key must be int"),
    ],
)
def test_what_is_no_table_or_key_is_refused_where_it_is_given(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        primary_key(*arguments)
