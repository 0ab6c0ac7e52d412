"""Converts Arrow record batches to frames, column by column: the reverse of `_decode`."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, StringType, StructType, TimestampType

from headrace.contract.columns import NULL_LENGTH, NULL_TIME
from headrace.engine._errors import SchemaError
from headrace.protocol.v1 import frame_pb2 as pb

MAX_FRAME_ROWS = 65_536
MAX_FRAME_BYTES = 2**20
"""A frame is larger only if a single row is."""

_FIXED_ROW_BYTES = 24
"""The approximate size of the fixed-length columns of a row."""

_BYTES = (BinaryType, StringType)
COLUMNS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "value": (_BYTES, "binary or string"),
    "key": (_BYTES, "binary or string"),
    "event_time": ((TimestampType,), "timestamp"),
    "message_id": ((StringType,), "string"),
    "headers": ((ArrayType,), "array<struct<name: string, value: binary>>"),
    # Further columns of the source, which are not sent to sinks.
    "stream": ((StringType,), "string"),
    "sequence": ((LongType,), "bigint"),
}
"""The columns that sinks accept: their types in Spark, and as text."""
ERROR, ERROR_VALUE = "error", "error_value"
_ERRORS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    ERROR: ((StringType,), "string"),
    ERROR_VALUE: ((BinaryType,), "binary"),
}
"""The columns of a source with `onError` = `null`: why a value could not be decoded, and its bytes."""


class _Column(NamedTuple):
    """Variable-length values: their bytes, concatenated, the length of each, and which ones are null (None if none is)."""

    data: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.bool_] | None

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """The offset of each value, and the end of the last one."""
        return _ends(self.lengths)

    def only(self, mask: npt.NDArray[np.bool_]) -> "_Column":
        """The values that `mask` selects."""
        nulls = None if self.nulls is None else self.nulls[mask]
        return _Column(self.data[np.repeat(mask, self.lengths)], self.lengths[mask], nulls)

    def cut(self, low: int, high: int) -> tuple[bytes, bytes]:
        """The bytes and the packed lengths of the values from `low` (inclusive) to `high` (exclusive), as in a frame."""
        ends = self.ends
        lengths = self.lengths[low:high].astype("<u4")
        if self.nulls is not None:
            lengths[self.nulls[low:high]] = NULL_LENGTH
        return self.data[ends[low] : ends[high]].tobytes(), lengths.tobytes()


class _Headers(NamedTuple):
    """The number of headers of each row, and the headers of all rows."""

    counts: npt.NDArray[np.int64]
    names: _Column
    values: _Column

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size of each row's headers, in bytes."""
        each = self.names.lengths + self.values.lengths + 8
        return np.diff(_ends(each)[_ends(self.counts)])


def check_schema(schema: StructType, *, with_errors: bool = False) -> None:
    """Rejects columns that sinks do not accept.

    Args:
        schema: The columns.
        with_errors: Whether there is a place for rows that could not be decoded, which the columns of `_ERRORS` tell.

    Raises:
        SchemaError: A column is missing, unknown, duplicate, or has the wrong type; the error names it and the remedy.
    """
    if "value" not in schema.names:
        raise SchemaError(
            f"a sink needs a column value (binary or string), and the columns are {', '.join(schema.names) or 'none'}; "
            "for instance .selectExpr('to_json(struct(*)) AS value')"
        )
    accepted = COLUMNS | _ERRORS if with_errors else COLUMNS
    missing = [name for name in _ERRORS if with_errors and name not in schema.names]
    if len(missing) == 1:
        raise SchemaError(f"column {missing[0]} is missing, without which its neighbour says nothing: keep both, or drop both")
    for field in schema:
        if field.name not in accepted:
            raise SchemaError(
                f"column {field.name} is not one that sinks accept ({', '.join(COLUMNS)}); drop it, or include it in value"
            )
        kinds, wanted = accepted[field.name]
        if not isinstance(field.dataType, kinds) or (field.name == "headers" and not _are_headers(field.dataType)):
            raise SchemaError(f"column {field.name} is {field.dataType.simpleString()}; sinks accept {wanted}: cast it")
    if len(set(schema.names)) < len(schema.names):
        raise SchemaError(f"a column appears twice among {', '.join(schema.names)}; drop one")


def frames(batch: pa.RecordBatch, first: int) -> Iterator[pb.Frame]:
    """The rows of a record batch, in frames of limited size.

    Args:
        batch: The rows.
        first: The index of the first row in the part.

    Raises:
        SchemaError: A header is null or has no name, or a column has a type that `check_schema` does not allow.
    """
    values = _column(batch, "value")
    assert values is not None, "check_schema has seen the column"
    keys, ids = _column(batch, "key"), _column(batch, "message_id")
    times, headers = _times(batch), _headers(batch)
    sizes = values.lengths + _FIXED_ROW_BYTES
    for column in (keys, ids):
        if column is not None:
            sizes = sizes + column.lengths
    if headers is not None:
        sizes = sizes + headers.sizes
    for low, high in _cuts(sizes):
        frame = pb.Frame(first_sequence=first + low, count=high - low)
        frame.values, frame.value_lengths = values.cut(low, high)
        if keys is not None:
            frame.keys, frame.key_lengths = keys.cut(low, high)
        if ids is not None:
            frame.message_ids, frame.message_id_lengths = ids.cut(low, high)
        if times is not None:
            frame.event_times = times[low:high].tobytes()
        if headers is not None:
            at = _ends(headers.counts)
            frame.header_counts = headers.counts[low:high].astype("<u4").tobytes()
            frame.header_names, frame.header_name_lengths = headers.names.cut(at[low], at[high])
            frame.header_values, frame.header_value_lengths = headers.values.cut(at[low], at[high])
        yield frame


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType]
    return fields == [("name", StringType), ("value", BinaryType)]


def _cuts(sizes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The row ranges of frames, for rows of these sizes."""
    ends, low = _ends(sizes), 0
    while low < len(sizes):
        fitting = int(np.searchsorted(ends, ends[low] + MAX_FRAME_BYTES, side="right")) - 1
        high = min(max(fitting, low + 1), low + MAX_FRAME_ROWS)
        yield low, high
        low = high


def _ends(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _column(batch: pa.RecordBatch, name: str) -> _Column | None:
    """A column of a batch; None if it is missing or entirely null, except for `value`."""
    at = batch.schema.get_field_index(name)
    if at < 0:
        return None
    array = batch.column(at)
    if name != "value" and array.null_count == len(array):
        return None
    return _variable(name, array)


def _variable(name: str, array: pa.Array) -> _Column:
    nulls = _nulls(array)
    if pa.types.is_null(array.type):
        return _Column(np.zeros(0, np.uint8), np.zeros(len(array), np.int64), nulls)
    if array.type not in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        raise SchemaError(f"column {name} has the Arrow type {array.type}; sinks accept binary or string")
    _, _, data = array.buffers()
    offsets = _offsets(array)
    joined = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    if nulls is not None and lengths[nulls].any():
        # In Arrow, a null may have bytes; in a frame it must not.
        joined, lengths = joined[np.repeat(~nulls, lengths)], np.where(nulls, 0, lengths)
    return _Column(joined, lengths, nulls)


def _offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """The offsets of the values of an array in its buffer, and the end of the last one. The array may be a slice."""
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type) or pa.types.is_large_list(array.type)
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(1, dtype=np.int64)
    kind, width = (np.int64, 8) if large else (np.int32, 4)
    return np.frombuffer(buffer, kind, len(array) + 1, array.offset * width).astype(np.int64)


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    validity = array.buffers()[0]
    if validity is None:
        return np.ones(len(array), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little", count=array.offset + len(array))
    nulls: npt.NDArray[np.bool_] = bits[array.offset :] == 0
    return nulls


def _times(batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
    at = batch.schema.get_field_index("event_time")
    if at < 0 or batch.column(at).null_count == batch.num_rows:
        return None
    array = batch.column(at)
    if not pa.types.is_timestamp(array.type) or array.type.unit != "us":
        raise SchemaError(f"column event_time has the Arrow type {array.type}; sinks accept microseconds")
    times = np.frombuffer(array.buffers()[1], "<i8", len(array), array.offset * 8)
    nulls = _nulls(array)
    return times if nulls is None else np.where(nulls, np.int64(NULL_TIME), times)


def _headers(batch: pa.RecordBatch) -> _Headers | None:
    """The headers of a batch; None if no row has any."""
    at = batch.schema.get_field_index("headers")
    if at < 0 or batch.column(at).null_count == batch.num_rows:
        return None
    lists = batch.column(at)
    offsets = _offsets(lists)
    counts = np.diff(offsets)
    entries = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    names, values = _variable("headers.name", entries.field(0)), _variable("headers.value", entries.field(1))
    there = ~_nulls_of(entries)
    nulls = _nulls(lists)
    if nulls is not None and counts[nulls].any():
        kept = np.repeat(~nulls, counts)
        names, values, there = names.only(kept), values.only(kept), there[kept]
        counts = np.where(nulls, 0, counts)
    if not there.all() or (names.nulls is not None and names.nulls.any()):
        raise SchemaError("column headers contains a header that is null or has no name; remove such headers")
    return _Headers(counts, names, values) if counts.any() else None


def _nulls_of(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls = _nulls(array)
    return np.zeros(len(array), dtype=np.bool_) if nulls is None else nulls
