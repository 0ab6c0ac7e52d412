"""Blocks of payloads become columns as each payload would alone, whatever stands beside it."""

import io
import json as standard
import math
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipelines import GraphError
from headrace.pipelines.formats import ColumnReader, avro_columns, json, json_columns
from headrace.pipelines.formats._column_reader import ObjectReader

SCHEMA = pa.schema(
    [
        pa.field("whole", pa.int64()),
        pa.field("small", pa.int8()),
        pa.field("number", pa.float64()),
        pa.field("a text", pa.string(), nullable=False),
        pa.field("flag", pa.bool_()),
        pa.field("list", pa.list_(pa.int64())),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("inner", pa.struct([pa.field("whole", pa.int64(), nullable=False), pa.field("é", pa.string())])),
    ]
)
JSON = json_columns(SCHEMA)
TEXTS = st.text(max_size=5) | st.sampled_from(["\ud800", "\x00\n", "😀"])
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS
NAMES = st.sampled_from([*SCHEMA.names, "é", "further"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=3), max_leaves=5
)
FITTING = st.fixed_dictionaries(
    {"a text": st.text(st.characters(codec="utf-8"), max_size=3)},
    optional={
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-128, 127),
        "number": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
        "flag": st.none() | st.booleans(),
        "list": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "map": st.none() | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=2), st.integers(-9, 9), max_size=2),
        "inner": st.none() | st.fixed_dictionaries({"whole": st.integers(0, 9)}, optional={"é": st.none() | st.just("x")}),
        "further": VALUES,
    },
)


def written(fields: list[tuple[str, Any]], ascii: bool, indent: int | None) -> bytes:
    pairs = (f"{standard.dumps(name)}: {standard.dumps(value, ensure_ascii=ascii, indent=indent)}" for name, value in fields)
    return ("{" + ",\n".join(pairs) + "}").encode(errors="surrogatepass")


OBJECTS = st.builds(
    written,
    FITTING.map(lambda row: list(row.items())) | st.lists(st.tuples(NAMES, VALUES), max_size=4),
    st.booleans(),
    st.none() | st.just(1),
)
PAYLOADS = (
    st.none()
    | OBJECTS
    | st.sampled_from([b"", b"null", b" ", b"{}{}", b'{"a text":"', b'"}', b'{"a text":"\xff"}', b"[1]", b"1,2", b"{"])
    | st.builds(lambda text, at: text[: at % (len(text) + 1)], OBJECTS, st.integers(0, 99))
    | st.binary(max_size=4)
)


class Faulty(Exception):
    pass


def refuse(*_: Any) -> Any:
    raise Faulty


def alone(payload: bytes | None) -> Any:
    """The row of a payload by Python's own decoder; None for a null."""
    if payload is None:
        return None
    try:
        text = payload.decode()
        document = standard.loads(text, object_pairs_hook=Pairs, parse_constant=refuse) if text[:1] != "\ufeff" else refuse()
        standard.dumps(document, ensure_ascii=False).encode()  # no text is half a surrogate pair, not even where it is ignored
        return None if document is None else fitting(document, pa.struct(list(SCHEMA)))
    except (ValueError, RecursionError):
        raise Faulty from None


class Pairs(list[tuple[str, Any]]):
    """An object, with each of its fields as often as it is there."""


def fitting(value: Any, kind: pa.DataType) -> Any:
    of = pa.types
    if of.is_integer(kind):
        end = 2 ** (kind.bit_width - 1)
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if type(value) is int and -end <= value < end else refuse()
    if of.is_floating(kind):
        return float(value) if type(value) in (int, float) and math.isfinite(value) else refuse()
    if of.is_string(kind):
        return value if type(value) is str and value.encode() else value if value == "" else refuse()
    if of.is_boolean(kind):
        return value if type(value) is bool else refuse()
    if of.is_map(kind):
        pairs = (
            {fitting(name, kind.key_type): nullable(one, kind.item_field) for name, one in value}
            if type(value) is Pairs
            else None
        )
        return list(pairs.items()) if pairs is not None else refuse()
    if of.is_list(kind):
        return [nullable(one, kind.value_field) for one in value] if type(value) is list else refuse()
    if type(value) is not Pairs:
        refuse()
    fields = {kind.field(index).name: kind.field(index) for index in range(kind.num_fields)}
    row = dict.fromkeys(fields)
    for name, one in value:
        if name in fields:
            row[name] = nullable(one, fields[name])
    return row if all(row[name] is not None or field.nullable for name, field in fields.items()) else refuse()


def nullable(value: Any, field: "pa.Field[Any]") -> Any:
    return None if value is None and field.nullable else fitting(value, field.type)


def check(reader: ColumnReader, payloads: list[bytes | None], rows: dict[int, Any], faulty: set[int]) -> None:
    block = reader.read(payloads)
    block.batch.validate(full=True)
    assert block.batch.schema == reader.schema
    assert list(block.there) == sorted(rows)
    assert block.batch.to_pylist() == [rows[index] for index in sorted(rows)]
    assert set(block.errors) == faulty


def sorted_out(payloads: list[bytes | None]) -> tuple[dict[int, Any], set[int]]:
    rows, faulty = dict[int, Any](), set[int]()
    for index, payload in enumerate(payloads):
        try:
            row = alone(payload)
            if row is not None:
                rows[index] = row
        except Faulty:
            faulty.add(index)
    return rows, faulty


@given(st.lists(PAYLOADS, max_size=6), st.sampled_from([1, 2, 1024]))
@example([b"{}{}", b'{"a text":"', b'"}'], 1024)
@example([b'{"a text":"x","further":"\xed\xa0\x80"}', b'{"a text":"x","\xff":1}'], 1024)
@example([b'{"a text":"x","further":{"\\ud800":null}}', b'{"a text":"x","further":"\\udc00"}'], 1024)
@example([b'{"a text":"x","whole":9223372036854775808}', b'{"whole":1,"whole":2,"a text":"y"}'], 2)
def test_json_in_columns_is_what_each_value_is_alone(payloads: list[bytes | None], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace.pipelines.formats._column_reader.PIECE", piece)
        check(JSON, payloads, *sorted_out(payloads))


def test_an_error_names_the_field_and_the_limit() -> None:
    errors = JSON.read([b'{"a text":"x","inner":{"whole":"1"}}', b'{"a text":"x","small":128}', b"{}"]).errors
    assert [str(errors[index]) for index in range(3)] == [
        "json: Expected `int`, got `str` - at `$.inner.whole`",
        "json: Expected `int` <= 127 - at `$.small`",
        "json: Object missing required field `a text`",
    ]


FROZEN = json_columns(SCHEMA, freeze=True)


def test_an_error_about_a_very_long_name_is_short() -> None:
    (error,) = FROZEN.read([b'{"a text":"x","%s":1}' % (b"n" * 1_000_000)]).errors.values()
    assert str(error).startswith("json: Object contains unknown field `nnn")
    assert str(error).endswith("n... (1,000,032 characters)")
    assert len(str(error)) < 5_000


def has_further(document: Any, kind: pa.DataType) -> bool:
    """Whether an object, or one in it, has a field that its struct lacks."""
    if not pa.types.is_struct(kind) or type(document) is not Pairs:
        return False
    fields = {kind.field(index).name: kind.field(index).type for index in range(kind.num_fields)}
    return any(name not in fields or has_further(value, fields[name]) for name, value in document)


@given(st.lists(PAYLOADS, max_size=6))
@example([b'{"a text":"x","inner":{"whole":1,"further":2}}', b'{"a text":"x"}'])
def test_a_further_field_is_faulty_if_the_columns_are_frozen(payloads: list[bytes | None]) -> None:
    rows, faulty = sorted_out(payloads)
    for index in list(rows):
        if has_further(standard.loads(payloads[index] or b"", object_pairs_hook=Pairs), pa.struct(list(SCHEMA))):
            del rows[index]
            faulty.add(index)
    check(FROZEN, payloads, rows, faulty)


EXACT = json_columns(
    pa.schema(
        [
            pa.field("price", pa.decimal128(5, 2)),
            pa.field("prices", pa.list_(pa.map_(pa.string(), pa.struct([pa.field("p", pa.decimal128(5, 2))])))),
        ]
    )
)
DECIMALS = (
    st.decimals(allow_nan=False, allow_infinity=False)
    | st.decimals(-1100, 1100, places=3)
    | st.sampled_from(
        ["0E-10000000", "0E+10000000", "1E-99999999", "1E999999999", "9" * 9999, "0." + "0" * 9999, "1E-2", "-0"]
    ).map(Decimal)
)


@given(st.lists(DECIMALS, max_size=4))
@example([Decimal("999.99"), Decimal("0E-10000000"), Decimal("1000")])
def test_a_decimal_is_exact_or_faulty_whatever_its_exponent(numbers: list[Decimal]) -> None:
    payloads: list[bytes | None] = []
    rows, faulty = dict[int, Any](), set[int]()
    for index, number in enumerate(numbers * 2):
        nested = index >= len(numbers)
        text = f'{{"prices":[null,{{"k":{{"p":{number}}}}}]}}' if nested else f'{{"price":{number}}}'
        payloads.append(text.encode())
        if not number or (-9 < number.adjusted() < 3 and number * 100 % 1 == 0):
            price = number.quantize(Decimal("0.01"))
            rows[index] = {"price": None if nested else price, "prices": [None, [("k", {"p": price})]] if nested else None}
        else:
            faulty.add(index)
    check(EXACT, payloads, rows, faulty)
    assert all(
        "at most 5 digits, of which 2 are behind the point - at `$.price" in str(e) for e in EXACT.read(payloads).errors.values()
    )


@dataclass
class Dated:
    at: datetime
    others: list[datetime]


class DatedStruct(msgspec.Struct):
    at: datetime


TIMES = pa.schema([("at", pa.timestamp("us", "UTC")), ("others", pa.list_(pa.timestamp("us", "UTC")))])


@pytest.mark.parametrize(
    "reader", [json_columns(TIMES), json(Dated).columns(), json(DatedStruct).columns()], ids=["schema", "class", "struct"]
)
def test_a_time_outside_the_calendar_in_utc_is_faulty(reader: ColumnReader) -> None:
    texts = ["0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59+00:00"]
    whole = [f'{{"at":"{text}","others":[]}}'.encode() for text in texts]
    block = reader.read(whole)
    assert (list(block.there), sorted(block.errors)) == ([1, 3], [0, 2])
    assert [row["at"].year for row in block.batch.to_pylist()] == [1, 9999]
    if "others" in reader.schema.names:
        block = reader.read([f'{{"at":"2026-01-01T00:00:00Z","others":["{text}"]}}'.encode() for text in texts])
        assert (list(block.there), sorted(block.errors)) == ([1, 3], [0, 2])


def test_a_number_that_is_infinite_in_32_bits_is_faulty() -> None:
    reader = json_columns(pa.schema([("a", pa.float32())]))
    block = reader.read([b'{"a":1e39}', b'{"a":-1e39}', b'{"a":3.4028235e38}', b'{"a":-7}'])
    assert (list(block.there), sorted(block.errors)) == ([2, 3], [0, 1])
    assert all(math.isfinite(row["a"]) for row in block.batch.to_pylist())


AVRO = {
    "type": "record",
    "name": "n.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "text", "type": ["string", "null"]},
        {"name": "number", "type": "double"},
        {"name": "flag", "type": "boolean"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "string"}]}]},
    ],
}
SLOW = {
    "type": "record",
    "name": "Slow",
    "fields": [
        {"name": "bytes", "type": "bytes"},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ],
}
READERS = {name: (schema, avro_columns("avro", standard.dumps(schema))) for name, schema in (("fast", AVRO), ("slow", SLOW))}


def avro_payload(schema: Any, record: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def avro_alone(schema: Any, reader: ColumnReader, payload: bytes | None) -> Any:
    """The row of a payload by fastavro; None for no payload."""
    if payload is None:
        return None
    stream = io.BytesIO(payload)
    try:
        record = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
        if stream.read(1):
            refuse()
        record = {**record, "uuid": str(record["uuid"])} if "uuid" in record else record
        return pa.array([record], pa.struct(list(reader.schema)))[0].as_py()
    except Exception:
        raise Faulty from None


@st.composite
def avro_payloads(draw: st.DrawFn, schema: Any) -> bytes | None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    text = st.text(st.characters(codec="utf-8"), max_size=3)
    values = {
        "id": st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-(2**31), 2**31 - 1),
        "text": st.none() | text,
        "number": st.floats(allow_nan=False),
        "flag": st.booleans(),
        "at": st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
        "kind": st.sampled_from("AB"),
        "list": st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "inner": st.none() | st.fixed_dictionaries({"x": text}),
        "bytes": st.binary(max_size=3),
        "map": st.dictionaries(text, st.integers(-9, 9), max_size=2),
        "fixed": st.binary(min_size=2, max_size=2),
        "day": st.dates(date(1, 1, 2)),
        "uuid": st.uuids().map(str),
        "price": st.integers(-999999, 999999).map(lambda cents: Decimal(cents) / 100),
    }
    payload = avro_payload(schema, {field["name"]: draw(values[field["name"]]) for field in schema["fields"]})
    at = draw(st.integers(0, len(payload)))
    faults = [payload[:at], payload + b"\x00", payload[:at] + draw(st.binary(min_size=1, max_size=3)) + payload[at:], b"", None]
    return draw(st.sampled_from([payload] * 12 + faults))


@pytest.mark.parametrize("name", READERS)
@given(data=st.data(), size=st.integers(0, 5))
def test_avro_in_columns_is_what_each_record_is_alone(name: str, data: st.DataObject, size: int) -> None:
    schema, reader = READERS[name]
    payloads = [data.draw(avro_payloads(schema)) for _ in range(size)]
    rows, faulty = dict[int, Any](), set[int]()
    for index, payload in enumerate(payloads):
        try:
            row = avro_alone(schema, reader, payload)
            if row is not None:
                rows[index] = row
        except Faulty:
            faulty.add(index)
    check(reader, payloads, rows, faulty)


def test_a_block_of_faultless_records_and_tombstones_is_read_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, reader = READERS["fast"]
    whole = {"id": 1, "small": None, "text": None, "number": 0.5, "flag": True, "at": None, "kind": "B", "list": [1, None]}
    payloads: list[bytes | None] = [avro_payload(schema, {**whole, "inner": inner}) for inner in (None, {"x": "y"})]
    monkeypatch.setattr(ObjectReader, "read", refuse)
    check(reader, payloads, dict(enumerate(avro_alone(schema, reader, payload) for payload in payloads)), set())
    check(reader, [None, payloads[0], None], {1: avro_alone(schema, reader, payloads[0])}, set())


def test_records_are_read_one_by_one_where_the_decoder_of_blocks_panics(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, reader = READERS["fast"]
    record = {"id": 1, "small": 2, "text": "é", "number": 0.5, "flag": True, "at": None, "kind": "A", "list": [], "inner": None}
    payload = avro_payload(schema, record)
    panic = type("PanicException", (BaseException,), {})

    def panics(*_: Any) -> Any:
        raise panic

    monkeypatch.setattr("pyruhvro.deserialize_array", panics)
    check(reader, [payload], {0: avro_alone(schema, reader, payload)}, set())


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("long", "not of a record"),
        ({"type": "record", "name": "R", "fields": []}, "no fields"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]},
            "field a: the record R contains itself",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}, "field a: a union of several"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]},
            r"field a\[...\]",
        ),
    ],
    ids=str,
)
def test_an_avro_schema_without_columns_is_refused_with_its_field(schema: Any, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        avro_columns("avro", standard.dumps(schema))


def test_a_column_that_json_cannot_be_read_into_is_refused() -> None:
    with pytest.raises(GraphError, match=r"column a\[...\]: JSON cannot be read as duration"):
        json_columns(pa.schema([("a", pa.list_(pa.duration("s")))]))
    for name in ('a"b', "a\\b", "a\nb"):
        with pytest.raises(GraphError, match="JSON cannot be read into a column of this name"):
            json_columns(pa.schema([("list", pa.list_(pa.struct([(name, pa.int64())])))]))
    with pytest.raises(GraphError, match="two columns have the same name: a, a"):
        json_columns(pa.schema([("a", pa.int64()), ("a", pa.string())]))
