"""The option `decode`: values become structs, whatever form the messages around them have."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.engine.frames import Message, frame
from tests.engine.test_queries import Rig, new_rig
from tests.pipelines.fake_registry import fake_registry

from headrace.engine import DecodeError, OptionError, codec
from headrace.engine.source.decoding import TypedRows, typed_schema
from headrace.engine.source.options import Options, parse
from headrace.engine.source.schema import SCHEMA
from headrace.engine.wire.gateway_options import Defaults

LINE = {"type": "record", "name": "L", "fields": [{"name": "n", "type": "int"}]}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
    ],
}
WHOLE = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def options(**given: str) -> Options:
    return parse({"stream": "orders/*", **given}, Defaults())


def rows(given: Options, frames: list[list[Message]], schema: StructType) -> list[dict[str, Any]]:
    found = []
    for batch in TypedRows(given, schema)(codec.columns("orders/0", frame(messages)) for messages in frames):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def json_rows(messages: list[Message], **given: str) -> list[dict[str, Any]]:
    parsed = options(decode="json", schema=WHOLE, **given)
    schema = typed_schema(parsed)
    assert isinstance(schema, StructType)
    return rows(parsed, [messages], schema)


def test_a_value_is_a_struct_beside_the_other_columns() -> None:
    messages = [Message(3, b'{"id": 7,\n "more": 1}', b"k", id="i"), Message(5, None), Message(9, b" null "), Message(10, b"{}")]
    found = json_rows(messages)
    assert [(row["sequence"], row["value"]) for row in found] == [(3, {"id": 7}), (5, None), (9, None), (10, {"id": None})]
    assert list(found[0]) == SCHEMA.names
    assert (found[0]["key"], found[0]["message_id"], found[0]["stream"]) == (b"k", "i", "orders/0")


def test_a_faulty_value_ends_the_query_with_its_stream_sequence_and_field() -> None:
    with pytest.raises(DecodeError, match=r"stream orders/0, sequence 5: json: Expected `int \| null`, got `str` - at `\$.id`; "):
        json_rows([Message(3, b'{"id": 1}'), Message(5, b'{"id": "x"}'), Message(6, b"")])


def test_a_faulty_value_is_kept_beside_its_error() -> None:
    found = json_rows([Message(3, b'{"id": 1}'), Message(5, b'{"id": "x"}'), Message(6, None)], onError="null")
    assert [(row["value"], row["error_value"]) for row in found] == [({"id": 1}, None), (None, b'{"id": "x"}'), (None, None)]
    assert [row["error"] for row in found] == [None, "json: Expected `int | null`, got `str` - at `$.id`", None]
    assert list(found[0]) == [*SCHEMA.names, "error", "error_value"]


def test_a_further_field_is_an_error_only_if_the_contract_is_frozen() -> None:
    messages = [Message(1, b'{"id": 1}'), Message(2, b'{"id": 2, "new": 3}')]
    assert [row["value"] for row in json_rows(messages, contract="discard")] == [{"id": 1}, {"id": 2}]
    found = json_rows(messages, contract="FREEZE", onError="null")
    assert [row["value"] for row in found] == [{"id": 1}, None]
    assert found[1]["error"] == "json: Object contains unknown field `new`"
    assert found[1]["error_value"] == b'{"id": 2, "new": 3}'
    with pytest.raises(DecodeError, match="stream orders/0, sequence 2: json: Object contains unknown field `new`"):
        json_rows(messages, contract="freeze")


def avro_payload(record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), record)
    return stream.getvalue()


def test_avro_has_the_columns_of_its_schema() -> None:
    given = options(decode="AVRO", schema=json.dumps(AVRO), onError="null")
    schema = typed_schema(given)
    assert isinstance(schema, StructType)
    assert schema["value"].dataType.simpleString() == "struct<id:bigint,at:timestamp,lines:array<struct<n:int>>>"
    whole = avro_payload({"id": 1, "at": 86_400_000, "lines": [{"n": 2}, {"n": 3}]})
    for payloads in ([whole, whole], [whole, None, whole + b"x", whole]):
        found = rows(given, [[Message(at, payload) for at, payload in enumerate(payloads, 1)]], schema)
        assert [row["value"] and (row["value"]["id"], row["value"]["lines"]) for row in found] == [
            (1, [{"n": 2}, {"n": 3}]) if payload == whole else None for payload in payloads
        ]
        assert [row["error_value"] for row in found] == [whole + b"x" if p == whole + b"x" else None for p in payloads]


def test_avro_of_a_registry_is_read_by_the_id_before_each_record() -> None:
    with fake_registry() as server:
        older = {**AVRO, "fields": [AVRO["fields"][0], AVRO["fields"][2]]}
        wanted = {**AVRO, "fields": [{**field, "default": None} if field["name"] == "at" else field for field in AVRO["fields"]]}
        ids = [server.add("orders-value", schema) for schema in (AVRO, older)]
        given = options(decode="avro", schema=json.dumps(wanted), registry=server.url, onError="null")
        schema = typed_schema(given)
        assert isinstance(schema, StructType)
        record = {"id": 1, "at": 86_400_000, "lines": [{"n": 2}]}
        payloads = [b"\0" + ids[0].to_bytes(4) + avro_payload(record), b"\0" + ids[1].to_bytes(4) + b"\x02\x00", b"\0\0\0\0\x63"]
        found = rows(given, [[Message(at, payload) for at, payload in enumerate(payloads, 1)]], schema)
    assert [row["value"] and (row["value"]["id"], row["value"]["at"] is None) for row in found] == [(1, False), (1, True), None]
    assert "schema 99: 404 Schema not found" in found[2]["error"]


@pytest.mark.parametrize("settings", ["secret", '["secret"]', '{"basic.auth.user.info": "secret", "unknown": "secret"}'])
def test_settings_of_a_registry_that_are_wrong_are_refused_without_showing_them(settings: str) -> None:
    given = options(decode="avro", schema=json.dumps(AVRO), registry="http://r", registryOptions=settings)
    schema = typed_schema(given)
    assert isinstance(schema, StructType)
    with pytest.raises(OptionError, match="option registry") as caught:
        TypedRows(given, schema)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"decode": "xml"}, ["decode", "'xml'", "json or avro"]),
        ({"decode": "json"}, ["option schema is missing", "decode json", "BIGINT"]),
        ({"schema": "id INT"}, ["option schema has no effect", "decode"]),
        ({"onError": "null"}, ["option onError has no effect", "decode"]),
        ({"decode": "json", "schema": WHOLE, "onError": "skip"}, ["onError", "'skip'", "fail or null", "deadLetters"]),
        ({"decode": "json", "schema": WHOLE, "onError": "dead-letter"}, ["onError", "'dead-letter'", "onRefused"]),
        ({"registry": "http://r"}, ["option registry has no effect", "decode"]),
        ({"decode": "json", "schema": WHOLE, "registry": "http://r"}, ["option registry", "avro"]),
        ({"decode": "avro", "schema": json.dumps(AVRO), "registryOptions": "{}"}, ["registryOptions has no effect", "registry"]),
        ({"contract": "freeze"}, ["option contract has no effect", "decode"]),
        (
            {"decode": "json", "schema": WHOLE, "contract": "evolve"},
            ["contract", "'evolve'", "discard or freeze", "Add new"],
        ),
        ({"decode": "json", "schema": WHOLE, "contract": "break"}, ["contract", "'break'", "discard or freeze"]),
        ({"decode": "avro", "schema": json.dumps(AVRO), "contract": "freeze"}, ["option contract", "avro"]),
        ({"decode": "avro", "schema": "{"}, ["option schema", "JSONDecodeError"]),
        ({"decode": "avro", "schema": '"long"'}, ["option schema", "not of a record"]),
        ({"decode": "json", "schema": WHOLE.replace('"long"', '"nonsense"')}, ["option schema", "nonsense"]),
    ],
    ids=str,
)
def test_errors_name_option_value_and_remedy(given: dict[str, str], names: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        typed_schema(options(**given))
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("interval day to second", "column id: JSON cannot be read as duration"),
        ("interval year to month", "YearMonthIntervalType"),
        ("char(5)", "CharType"),
        ("variant", "column id: JSON cannot be read as VARIANT"),
        ("time(6)", "column id: JSON cannot be read as time64"),
    ],
)
def test_a_column_that_the_format_lacks_is_refused_before_anything_is_read(kind: str, reason: str) -> None:
    text = WHOLE.replace('"long"', f'"{kind}"')
    schema = typed_schema(options(decode="json", schema=text))
    assert isinstance(schema, StructType)
    with pytest.raises(OptionError, match=f"option schema: .*{reason}"):
        TypedRows(options(decode="json", schema=text), schema)


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path) -> Iterator[Rig]:
    with new_rig(spark, tmp_path) as rig:
        yield rig


DDL = (
    "id BIGINT NOT NULL, `a b` STRUCT<x: ARRAY<DECIMAL(5,2)>, at: TIMESTAMP>, "
    "m MAP<STRING, DATE>, t TIMESTAMP_NTZ COMMENT 'x', z BINARY"
)


@pytest.mark.parametrize("inline", ["0", "1mb"])
def test_a_query_reads_typed_columns(rig: Rig, inline: str) -> None:
    document = {"id": 1, "a b": {"x": [1.25, None], "at": "2026-01-02T03:04:05+01:00"}, "m": {"k": "2026-01-02"}, "z": "aGk="}
    whole = Message(1, json.dumps(document).encode(), headers=(("a", b"1"),))
    rig.gateway.append("orders/0", [whole, Message(2, b"[]"), Message(3, None)])
    rig.start(decode="json", schema=DDL, onError="null", inlineBytes=inline)
    rig.wait_until_committed("orders/0", 3)
    first, second, third = rig.rows
    assert (first.value.id, first.value.z, str(first.value["a b"].x[0]), first.headers[0].value) == (1, b"hi", "1.25", b"1")
    assert first.value["a b"]["at"].timestamp() == 1767319445.0
    assert (second.value, bytes(second.error_value)) == (None, b"[]")
    assert "json: Expected `object | null`, got `array`" in second.error
    assert (third.value, third.error) == (None, None)


def test_a_query_fails_at_a_faulty_value_and_acknowledges_nothing(rig: Rig) -> None:
    rig.gateway.append("orders/0", [Message(1, b"{}")])
    rig.start(decode="json", schema="id BIGINT NOT NULL")
    with pytest.raises(StreamingQueryException, match="stream orders/0, sequence 1: json: Object missing required field `id`"):
        rig.queries.pop().awaitTermination(120)
    assert (rig.rows, rig.gateway.committed("orders/0")) == ([], -1)
