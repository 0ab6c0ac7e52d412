"""Blocks of framed Avro become columns as each record would alone, whatever schemas its neighbours were written with."""

import datetime
import io
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.fake_registry import FakeRegistry, fake_registry

from headrace.pipelines import FormatError, GraphError, Message, OnError, Pipeline, Trial
from headrace.pipelines.formats import Registry, avro
from headrace.pipelines.formats._column_reader import ColumnReader
from headrace.pipelines.formats.registry_columns import Projection, RegistryColumns

AT = {"type": "long", "logicalType": "timestamp-millis"}
LINES = {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}}
JAVA_TEXT = {"type": "string", "avro.java.string": "String"}


def record(*fields: tuple[str, Any, Any], name: str = "shop.Order") -> dict[str, Any]:
    """A schema of fields, each with its type and its default; without a default if that is Ellipsis."""
    with_defaults = ({"name": f, "type": t} if d is ... else {"name": f, "type": t, "default": d} for f, t, d in fields)
    return {"type": "record", "name": name, "fields": list(with_defaults)}


WANTED = record(
    ("id", "long", ...),
    ("article", "string", "none"),
    ("note", ["null", "string"], None),
    ("at", ["null", AT], None),
    ("lines", LINES, []),
    ("weight", "double", 1.5),
)
FIELDS = WANTED["fields"]
WRITERS = {
    "the same": WANTED,
    "fewer and others": record(("gone", "string", ...), ("id", "long", ...), ("lines", LINES, ...)),
    "of Java": record(("id", "long", ...), ("article", JAVA_TEXT, ...), ("lines", LINES, ...)),
    "in another order": {**WANTED, "fields": FIELDS[::-1]},
    "narrower": record(("id", "int", ...), ("weight", "float", ...), ("lines", LINES, ...)),
    "documented": {**WANTED, "doc": "orders", "fields": [{**field, "doc": "one"} for field in FIELDS]},
    "of another name": {**WANTED, "name": "shop.Other"},
    "without an id": record(("article", "string", ...)),
    "with a name for a type": record(
        ("lines", LINES, ...), ("id", "long", ...), ("others", {"type": "array", "items": "Line"}, ...)
    ),
    "with a time as number": record(("id", "long", ...), ("at", "long", ...)),
    "with a time in microseconds": record(("id", "long", ...), ("at", {**AT, "logicalType": "timestamp-micros"}, ...)),
    "with a UUID": record(("id", "long", ...), ("article", {"type": "string", "logicalType": "uuid"}, ...)),
}
NUMBERS = {name: number for number, name in enumerate(WRITERS, 1)}
TIMES = st.integers(0, 10**12).map(
    lambda ms: datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms)
)
LINE = st.fixed_dictionaries({"n": st.integers(-9, 9)})
VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(-9, 9),
        "article": st.sampled_from(["", "tea"]),
        "note": st.none() | st.just("cold"),
        "at": st.none() | TIMES,
        "lines": st.lists(LINE, max_size=2),
        "others": st.lists(LINE, max_size=1),
        "weight": st.sampled_from([0.5, -2.0]),
        "gone": st.just("x"),
    }
)


def written(schema: Any, value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def adapted(name: str, value: dict[str, Any]) -> dict[str, Any]:
    if name == "with a time as number":
        return {**value, "at": 5}
    if name == "with a time in microseconds" and value["at"] is None:
        return {**value, "at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}
    return {**value, "article": "00000000-0000-0000-0000-000000000000"} if name == "with a UUID" else value


PAYLOADS = (
    st.none()
    | st.builds(
        lambda name, value, left: b"\0" + NUMBERS[name].to_bytes(4) + written(WRITERS[name], adapted(name, value)) + left,
        st.sampled_from([*WRITERS, "the same", "of Java"]),
        VALUES,
        st.just(b"") | st.just(b"") | st.just(b"x"),
    )
    | st.sampled_from([b"", b"\0\0\0\0", b"\0\0\0\0\x63abc", b"\1\0\0\0\1", b"\0\0\0\0\1", b"\0\0\0\0\1\xff"])
)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        for name, schema in WRITERS.items():
            assert registry.add("orders-value", schema) == NUMBERS[name]
        yield registry


@pytest.fixture(scope="module")
def reader(server: FakeRegistry) -> ColumnReader:
    return avro(WANTED, registry=Registry(server.url)).columns()


def alone(payload: bytes) -> dict[str, Any] | None:
    """The row of a payload by fastavro; None if it is faulty."""
    names = {number: name for name, number in NUMBERS.items()}
    name = names.get(int.from_bytes(payload[1:5]))
    if len(payload) < 5 or payload[0] or name is None or name == "with a time as number":
        return None
    stream = io.BytesIO(payload[5:])
    try:
        writer, wanted = fastavro.parse_schema(WRITERS[name]), fastavro.parse_schema(WANTED)
        found = fastavro.schemaless_reader(stream, writer, wanted)
    except Exception:
        return None
    assert isinstance(found, dict)
    return None if stream.read(1) else {**found, "article": str(found["article"])}


@given(st.lists(PAYLOADS, max_size=12))
def test_rows_are_what_each_record_is_alone(reader: ColumnReader, payloads: list[bytes | None]) -> None:
    block = reader.read(payloads)
    block.batch.validate(full=True)
    rows = {index: row for index, payload in enumerate(payloads) if payload is not None and (row := alone(payload)) is not None}
    assert block.batch.schema == reader.schema
    assert (list(block.there), block.batch.to_pylist()) == (sorted(rows), [rows[index] for index in sorted(rows)])
    assert set(block.errors) == {index for index, payload in enumerate(payloads) if payload is not None} - set(rows)


def test_one_call_reads_records_that_differ_in_whole_fields(reader: ColumnReader) -> None:
    assert isinstance(reader, RegistryColumns)
    reader.read([b"\0" + number.to_bytes(4) for number in NUMBERS.values()])
    fast = {name for name, number in NUMBERS.items() if isinstance(reader.readers[b"\0" + number.to_bytes(4)], Projection)}
    assert fast == {"the same", "fewer and others", "of Java", "in another order", "documented"}


def test_an_error_names_id_subject_and_field(server: FakeRegistry, reader: ColumnReader) -> None:
    number = NUMBERS["with a time as number"]
    as_number = b"\0" + number.to_bytes(4) + written(WRITERS["with a time as number"], {"id": 1, "at": 5})
    errors = reader.read([b"\0\0\0\0\1\2", as_number, b"\0\0\0\0\x63"]).errors
    where = "schema {} of subject orders-value: field {}"
    assert str(errors[0]) == f"avro(registry): {where.format(1, 'article')}: the payload ends there"
    reason = "written with no logical type, and to be read with timestamp"
    assert str(errors[1]) == f"avro(registry): {where.format(number, 'at')}: {reason}"
    assert "schema 99: 404 Schema not found" in str(errors[2])


def test_columns_of_a_registry_reach_columnar_steps_and_dead_letters(server: FakeRegistry) -> None:
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    rows = app.source("orders/*").decode_columns(avro(WANTED, registry=Registry(server.url)))
    rows.map_columns(
        lambda batch: pa.RecordBatch.from_pydict({"value": [b"%d" % pa.compute.sum(batch["id"]).as_py()]}), name="sum"
    ).sink("sums")
    trial = Trial(app)
    value = {"id": 3, "article": "tea", "note": None, "at": None, "lines": [], "weight": 1.0}
    good = b"\0\0\0\0\1" + written(WANTED, value)
    trial.send(*(Message(payload, stream="orders/0") for payload in (good, good + b"x", good)))
    assert (trial.values("sums"), len(trial.failed)) == ([b"6"], 1)
    assert "sequence 2: FormatError: avro(registry): schema 1 of subject orders-value: 1 bytes are left" in trial.failed[0]


def test_columns_of_a_registry_need_a_schema_to_read_as(server: FakeRegistry) -> None:
    for form, reason in (
        (avro(registry=Registry(server.url)), "of Avro the schema to read as"),
        (avro("string", registry=Registry(server.url)), "not of a record"),
    ):
        with pytest.raises(GraphError, match=reason):
            form.columns()
    with pytest.raises(FormatError, match="schema 99"):
        avro(WANTED, registry=Registry(server.url)).decoder()(b"\0\0\0\0\x63")
