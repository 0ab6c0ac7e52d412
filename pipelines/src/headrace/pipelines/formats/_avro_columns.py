"""Avro records into columns: with pyruhvro a whole block in one call, else record by record with fastavro."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pipelines._errors import GraphError
from headrace.pipelines.formats._column_reader import Block, ColumnReader, ObjectReader
from headrace.pipelines.formats.avro_blocks import AtOnce, at_once
from headrace.pipelines.formats.avro_schemas import parsed, record_reader
from headrace.pipelines.formats.class_columns import ClassColumns

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_DIGITS = 38


@dataclass(frozen=True)
class AvroColumns(ColumnReader):
    """Reads all payloads of a block in one call; if one of them is faulty, record by record.

    Attributes:
        block: Reads all at once.
        each: Reads record by record.
        of_class: The columns of a class; None for the ones of the schema.
    """

    block: AtOnce
    each: ColumnReader
    of_class: ClassColumns | None = None

    @property
    def schema(self) -> "pa.Schema":
        """The columns."""
        return self.each.schema

    def read(self, payloads: Sequence[bytes | None]) -> Block:
        """As `ColumnReader.read`."""
        there = [index for index, payload in enumerate(payloads) if payload is not None] if None in payloads else None
        records: Any = payloads if there is None else [payloads[index] for index in there]
        if records:
            batch = self.rows(records)
            if batch is not None:
                return Block(batch, range(len(payloads)) if there is None else there)
        return self.each.read(payloads)

    def rows(self, payloads: Sequence[bytes]) -> "pa.RecordBatch | None":
        """Returns the rows of payloads, read at once; None if each must be read alone."""
        batch = self.block.read(payloads)
        return batch if batch is None or self.of_class is None else self.of_class.of(batch)


def avro_columns(name: str, schema: str) -> ColumnReader:
    """Returns what reads records of a schema, each without a container, into a column for each field.

    Args:
        name: The format, for errors.
        schema: The schema, as JSON text.

    Raises:
        GraphError: The schema is not of a record, or a field has a type without an Arrow column.
    """
    document = with_plain_uuids(json.loads(schema))
    whole = parsed(document)
    columns = record_columns(name, whole)
    each = ObjectReader(name, columns, record_reader(name, whole, None, None), batch_of(columns))
    block = at_once(document, columns)
    return each if block is None else AvroColumns(block, each)


def avro_columns_of_class(schema: str, columns: ClassColumns, each: ColumnReader) -> AvroColumns | None:
    """Returns what reads records of a schema into the columns of a class in one call; None if only `each` can.

    Args:
        schema: The schema, as JSON text.
        columns: The columns.
        each: Reads record by record.
    """
    document = json.loads(schema)
    try:
        block = at_once(document, record_columns("avro", parsed(document)))
    except GraphError:
        return None
    return None if block is None else AvroColumns(block, each, columns)


def record_columns(name: str, schema: Any) -> "pa.Schema":
    """Returns the columns of a record.

    Args:
        name: The format, for errors.
        schema: Its schema, as fastavro uses it.

    Raises:
        GraphError: The schema is not of a record, or a field has a type without an Arrow column.
    """
    import pyarrow as pa

    type_, nullable = _arrow(schema, "", {}, ())
    if not pa.types.is_struct(type_) or nullable:
        raise GraphError(f"{name} has no columns: its schema is not of a record")
    columns = pa.schema([type_.field(index) for index in range(type_.num_fields)])
    if not len(columns):
        raise GraphError(f"{name} has no columns: the record has no fields")
    return columns


def batch_of(columns: "pa.Schema") -> "Callable[[Sequence[Any]], pa.RecordBatch]":
    """Returns the function that makes columns of dicts. It may raise any exception if a value does not fit."""
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


def with_plain_uuids(schema: Any) -> Any:
    """Returns a schema whose UUIDs are text, since columns represent UUIDs as text."""
    if isinstance(schema, list):
        return [with_plain_uuids(one) for one in schema]
    if isinstance(schema, Mapping):
        is_uuid = schema.get("logicalType") == "uuid"
        kept = ("type", "items", "values", "fields")
        return {
            name: with_plain_uuids(value) if name in kept else value
            for name, value in schema.items()
            if not (is_uuid and name == "logicalType")
        }
    return schema
