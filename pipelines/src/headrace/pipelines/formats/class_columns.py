"""Columns of records as columns of a class, and as its objects."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pipelines.formats._columns import columns_of
from headrace.pipelines.formats._format import BlockReader
from headrace.pipelines.formats.plain_fields import PlainField, plain_fields, takes_values

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Callable[[Sequence[bytes]], "pa.RecordBatch | None"]
MIN_ROWS = 32
"""Of fewer records, one call for all takes longer than one for each."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class ClassColumns:
    """The columns of a class whose objects have the values of records unchanged.

    Attributes:
        columns: The columns.
        fields: Its fields, one for each column.
        defaults: The values of fields that records may lack, by the name of the column.
    """

    columns: "pa.Schema"
    fields: Sequence[PlainField]
    defaults: "Mapping[str, pa.Scalar[Any]]"

    def of(self, records: "pa.RecordBatch") -> "pa.RecordBatch | None":
        """Returns the columns of records; None if an object of one of them would be another, or faulty."""
        import pyarrow as pa

        arrays = list[Any]()
        for field, column in zip(self.fields, self.columns, strict=True):
            index = records.schema.get_field_index(field.key)
            if index >= 0:
                array = records.column(index)
                if not _is_kept(array.type, column.type) or (array.null_count and not field.nullable):
                    return None
                arrays.append(array if array.type == column.type else array.cast(column.type))
            elif column.name in self.defaults:
                arrays.append(pa.repeat(self.defaults[column.name], records.num_rows))
            else:
                return None
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


def class_columns(kind: Any) -> ClassColumns | None:
    """Returns the columns of a class whose objects have the values of records unchanged; None of another one."""
    import pyarrow as pa

    fields = plain_fields(kind)
    if not fields:
        return None
    columns, defaults = columns_of(kind).schema, dict[str, Any]()
    for field, column in zip(fields, columns, strict=True):
        with suppress(pa.ArrowException, OverflowError, UnicodeError):  # Libraries do not check defaults.
            if field.has_default:
                defaults[column.name] = pa.scalar(field.default, column.type)
    return ClassColumns(columns, fields, defaults)


def with_columns(kind: Any, columns: ClassColumns, rows: Rows, each: BlockReader[Any]) -> BlockReader[Any]:
    """Returns what reads payloads as objects of a class by their columns, or else as another function.

    Args:
        kind: The class.
        columns: Its columns.
        rows: Returns the rows of payloads, read at once; None if each must be read alone.
        each: The other function.
    """
    if not takes_values(kind, [field.name for field in columns.fields]):
        return each

    def read(payloads: Sequence[Any]) -> list[Any] | None:
        batch = rows(payloads) if len(payloads) >= MIN_ROWS and None not in payloads else None
        return each(payloads) if batch is None else list(map(kind, *map(_values, batch.columns)))

    return read


def _values(column: "pa.Array[Any]") -> list[Any]:
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    numbers = column.cast(pa.int64()).to_pylist()
    return [None if number is None else _EPOCH + datetime.timedelta(microseconds=number) for number in numbers]


def _is_kept(present: "pa.DataType", column: "pa.DataType") -> bool:
    """Whether a value of one type is the same one of another: numbers get wider, but no number becomes a fraction."""
    import pyarrow as pa

    types = pa.types
    return bool(
        present == column
        or (types.is_signed_integer(present) and column == pa.int64())
        or (types.is_floating(present) and column == pa.float64())
    )
