"""JSON into columns that an Arrow schema describes, by a class that is made of the schema."""

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from headrace.pipelines._errors import GraphError, text_of
from headrace.pipelines.formats._column_reader import ColumnReader, ObjectReader
from headrace.pipelines.formats.json_fits import fit_of
from headrace.pipelines.formats.records import taker

if TYPE_CHECKING:
    import pyarrow as pa


def json_columns(schema: "pa.Schema", *, freeze: bool = False) -> ColumnReader:
    """Returns what reads JSON objects into the columns of a schema.

    A field that is missing or null is null, or an error if its column may not be null. Of a field that is there twice, the last
    one counts. Bytes are text in base64, times are text of RFC 3339.

    Args:
        schema: The columns.
        freeze: Whether a further field is an error; by default, it is ignored.

    Raises:
        GraphError: A column has a type that JSON cannot be read into.
    """
    import pyarrow as pa

    kind, whole = _struct("Row", schema, freeze), pa.struct(list(schema))
    take, decode = _taker(schema), msgspec.json.Decoder(kind | None).decode

    def read(payload: bytes) -> Any:
        # The decoder does not look into the texts of fields that it ignores.
        return decode(payload if payload.isascii() else payload.decode())

    def batch_of(rows: Sequence[Any]) -> "pa.RecordBatch":
        return pa.RecordBatch.from_arrays(pa.array(list(map(take, rows)), whole).flatten(), schema=schema)

    return ObjectReader("json", schema, read, batch_of)


def _taker(schema: "pa.Schema") -> Callable[[Any], Any]:
    """Returns what turns a row into a tuple for pyarrow."""
    import pyarrow as pa

    plain, astuple = taker(Any), msgspec.structs.astuple
    is_nested = any(pa.types.is_nested(field.type) for field in schema)
    fits = [(index, fit) for index, field in enumerate(schema) if (fit := fit_of(field.type, f"$.{field.name}")) is not None]
    if not is_nested and not fits:
        return astuple

    def take(row: Any) -> tuple[Any, ...]:
        values = list(map(plain, astuple(row)) if is_nested else astuple(row))
        for index, fit in fits:
            values[index] = fit(values[index])
        return tuple(values)

    return take


def _struct(name: str, fields: "Sequence[pa.Field[Any]] | pa.Schema", freeze: bool) -> type[msgspec.Struct]:
    """Returns a class with a field for each field of a schema, under other names: a column may have any name."""
    names = {f"f{number}": field.name for number, field in enumerate(fields)}
    if len(set(names.values())) < len(names):
        raise GraphError(f"two columns have the same name: {', '.join(names.values())}")
    if not names:
        raise GraphError("the schema has no columns")
    made: list[Any] = []
    for own, field in zip(names, fields, strict=True):
        kind = _type(field.type, field.name, freeze)
        made.append((own, kind | None, None) if field.nullable else (own, kind))
    try:
        return msgspec.defstruct(name, made, rename=names, kw_only=True, gc=False, forbid_unknown_fields=freeze)
    except ValueError as error:  # a name with a quote, a backslash or a control character
        raise GraphError(f"JSON cannot be read into a column of this name: {text_of(error)}") from error


def _type(type_: "pa.DataType", where: str, freeze: bool) -> Any:
    """Returns the type of the JSON of an Arrow type."""
    import pyarrow as pa

    of = pa.types
    if of.is_signed_integer(type_):
        end = 2 ** (type_.bit_width - 1)
        return Annotated[int, Meta(ge=-end, le=end - 1)]
    if of.is_float32(type_):
        return Annotated[float, Meta(gt=-_FLOAT_END, lt=_FLOAT_END)]
    if of.is_struct(type_):
        fields = [type_.field(index) for index in range(type_.num_fields)]
        if any(b"variant" in (field.metadata or {}) for field in fields):
            raise GraphError(f"column {where}: JSON cannot be read as VARIANT; read it as STRING, and use parse_json")
        return _struct("Struct", fields, freeze)
    if of.is_list(type_):
        item = _type(type_.value_type, f"{where}[...]", freeze)
        return list[item | None if type_.value_field.nullable else item]  # type: ignore[misc]
    if of.is_map(type_) and of.is_string(type_.key_type):
        item = _type(type_.item_type, f"{where}[...]", freeze)
        return dict[str, item | None if type_.item_field.nullable else item]  # type: ignore[misc]
    if of.is_timestamp(type_):
        return Annotated[datetime.datetime, Meta(tz=type_.tz is not None)]
    for holds, kind in _PLAIN:
        if getattr(of, holds)(type_):
            return kind
    raise GraphError(f"column {where}: JSON cannot be read as {type_}")


_FLOAT_END = 2.0**128 - 2.0**103
"""The least number that is infinite in 32 bits."""
_PLAIN: Sequence[tuple[str, Any]] = (
    ("is_boolean", bool),
    ("is_floating", float),
    ("is_string", str),
    ("is_binary", bytes),
    ("is_decimal", decimal.Decimal),
    ("is_date", datetime.date),
)
