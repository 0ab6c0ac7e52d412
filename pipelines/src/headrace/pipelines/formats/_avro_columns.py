"""Avro records into columns: with pyruhvro a whole block in one call, else record by record with fastavro."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.pipelines._errors import GraphError
from headrace.pipelines.formats._column_reader import Block, ColumnReader, ObjectReader
from headrace.pipelines.formats.arrays import is_in_calendar
from headrace.pipelines.formats.avro_schemas import parsed, record_reader

if TYPE_CHECKING:
    import pyarrow as pa

END = "headrace_end"
"""A field behind the last one, whose text no record contains: where it is missing, bytes are left behind a record."""
_FAST = {"long", "string", "boolean", "double", "float", "int"}
_MAX_DIGITS = 38
_PANIC = "PanicException"
"""What a fault in Rust raises. It is not an `Exception`, and its class has no public name."""
_FAST_TIMES = {"timestamp-millis", "timestamp-micros"}


@dataclass(frozen=True)
class AvroColumns(ColumnReader):
    """Reads all payloads of a block in one call; if one of them is faulty, record by record."""

    text: str
    """The schema for pyruhvro: with `END`."""
    each: ObjectReader
    """Reads record by record."""
    end: str
    """The text of the last field."""

    @property
    def schema(self) -> "pa.Schema":
        """The columns."""
        return self.each.schema

    def read(self, payloads: Sequence[bytes | None]) -> Block:
        """As `ColumnReader.read`."""
        there = [index for index, payload in enumerate(payloads) if payload is not None] if None in payloads else None
        records = payloads if there is None else [payloads[index] for index in there]
        if records:
            batch = self._at_once(records)
            if batch is not None:
                return Block(batch, range(len(payloads)) if there is None else there)
        return self.each.read(payloads)

    def _at_once(self, payloads: Sequence[Any]) -> "pa.RecordBatch | None":
        """The rows of all payloads; None if one is faulty."""
        import pyarrow as pa
        from pyruhvro import deserialize_array

        end = bytes([2 * len(self.end)]) + self.end.encode()
        try:
            batch = deserialize_array([payload + end for payload in payloads], self.text)
            found = batch.column(batch.num_columns - 1)
            whole = pa.array([self.end], found.type)
            if batch.num_rows != len(payloads) or found.unique() != whole:
                return None
            types = [one.type for one in self.schema]
            arrays = [a if a.type == kind else a.cast(kind) for a, kind in zip(batch.columns[:-1], types, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            batch.validate(full=True)
            if not all(map(is_in_calendar, batch.columns)):
                return None
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            return None  # each record alone shows which one is faulty
        return batch


def avro_columns(name: str, schema: str) -> ColumnReader:
    """Returns what reads records of a schema, each without a container, into a column for each field.

    Args:
        name: The format, for errors.
        schema: The schema, as JSON text.

    Raises:
        GraphError: The schema is not of a record, or a field has a type without an Arrow column.
    """
    import pyarrow as pa

    document = _with_plain_uuids(json.loads(schema))
    whole = parsed(document)
    type_, nullable = _arrow(whole, "", {}, ())
    if not pa.types.is_struct(type_) or nullable:
        raise GraphError(f"{name} has no columns: its schema is not of a record")
    columns = pa.schema([type_.field(index) for index in range(type_.num_fields)])
    if not len(columns):
        raise GraphError(f"{name} has no columns: the record has no fields")
    each = ObjectReader(name, columns, record_reader(name, whole, None, None), _batch_of(columns))
    if find_spec("pyruhvro") is None or END in columns.names or not all(_is_fast(f["type"]) for f in document["fields"]):
        return each
    fields = [*({**field, "type": _widened(field["type"])} for field in document["fields"]), {"name": END, "type": "string"}]
    return AvroColumns(json.dumps({**document, "fields": fields}), each, secrets.token_hex(16))


def _batch_of(columns: "pa.Schema") -> "Callable[[Sequence[Any]], pa.RecordBatch]":
    import pyarrow as pa

    whole = pa.struct(list(columns))
    return lambda records: pa.RecordBatch.from_arrays(pa.array(records, whole).flatten(), schema=columns)


def _arrow(schema: Any, where: str, names: dict[str, Any], above: tuple[str, ...]) -> "tuple[pa.DataType, bool]":
    """Returns the Arrow type of a schema as fastavro parses it, with full names, and whether its values may be null.

    Raises:
        GraphError: There is none.
    """
    import pyarrow as pa

    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise GraphError(f"field {where}: a union of several types has no column")
        return _arrow(others[0], where, names, above)[0], len(schema) > 1
    if isinstance(schema, str):
        if schema in names:
            return _arrow(names[schema], where, names, above)
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        return _arrow(kind, where, names, above)
    if kind in ("record", "enum", "fixed"):
        if schema["name"] in above:
            raise GraphError(f"field {where}: the record {schema['name']} contains itself, so it has no column")
        names[schema["name"]] = schema
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision = schema["precision"]
        if precision > _MAX_DIGITS:
            raise GraphError(f"field {where}: a column has at most {_MAX_DIGITS} digits, not {precision}")
        return pa.decimal128(precision, schema.get("scale", 0)), False
    if kind == "record":
        inner = []
        for field in schema["fields"]:
            type_, nullable = _arrow(field["type"], f"{where}.{field['name']}".lstrip("."), names, (*above, schema["name"]))
            # Where a record inside a record is null, so are its fields, which Arrow casts to no other type then.
            inner.append(pa.field(field["name"], type_, nullable or bool(above)))
        return pa.struct(inner), False
    if kind == "array":
        item, nullable = _arrow(schema["items"], f"{where}[...]", names, above)
        return pa.list_(pa.field("element", item, nullable)), False
    if kind == "map":
        item, nullable = _arrow(schema["values"], f"{where}[...]", names, above)
        return pa.map_(pa.string(), pa.field("value", item, nullable)), False
    times = {
        "timestamp-millis": pa.timestamp("us", "UTC"),
        "timestamp-micros": pa.timestamp("us", "UTC"),
        "local-timestamp-millis": pa.timestamp("us"),
        "local-timestamp-micros": pa.timestamp("us"),
        "time-micros": pa.time64("us"),
    }
    if kind == "long" and logical in times:
        return times[logical], False
    if kind == "int" and logical in ("date", "time-millis"):
        return (pa.date32() if logical == "date" else pa.time64("us")), False
    plain = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "enum": pa.string(),
        "bytes": pa.binary(),
        "fixed": pa.binary(),
    }
    if kind not in plain:
        raise GraphError(f"field {where}: the type {kind} has no column")
    return plain[kind], False


def _with_plain_uuids(schema: Any) -> Any:
    """Returns a schema whose UUIDs are text, since columns represent UUIDs as text."""
    if isinstance(schema, list):
        return [_with_plain_uuids(one) for one in schema]
    if isinstance(schema, Mapping):
        is_uuid = schema.get("logicalType") == "uuid"
        kept = ("type", "items", "values", "fields")
        return {
            name: _with_plain_uuids(value) if name in kept else value
            for name, value in schema.items()
            if not (is_uuid and name == "logicalType")
        }
    return schema


def _is_fast(schema: Any, *, is_column: bool = True) -> bool:
    """Whether pyruhvro reads values of a schema as fastavro does. Every value takes a byte at least, so that none is endless."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        return len(schema) == 2 and len(others) == 1 and _is_fast(others[0], is_column=is_column)
    if isinstance(schema, str):
        return schema in _FAST
    logical = schema.get("logicalType")
    if isinstance(schema["type"], (dict, list)):
        return logical is None and _is_fast(schema["type"], is_column=is_column)
    if logical is not None:
        return is_column and schema["type"] == "long" and logical in _FAST_TIMES
    if schema["type"] == "record":
        return bool(schema["fields"]) and all(_is_fast(field["type"], is_column=False) for field in schema["fields"])
    if schema["type"] == "array":
        return _is_fast(schema["items"], is_column=False)
    return schema["type"] == "enum" or schema["type"] in _FAST


def _widened(schema: Any) -> Any:
    """Returns a schema with `long` for `int`: pyruhvro cuts off what does not fit into 32 bits."""
    if isinstance(schema, list):
        return [_widened(one) for one in schema]
    if isinstance(schema, str):
        return "long" if schema == "int" else schema
    return {name: _widened(value) if name in ("type", "items", "fields") else value for name, value in schema.items()}
