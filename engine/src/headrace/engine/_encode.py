"""Turns Arrow record batches into frames, without touching a row: the reverse of `_decode`."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, StringType, StructType, TimestampType

from headrace.engine._errors import SchemaError
from headrace.protocol.v1 import frame_pb2 as pb

MAX_FRAME_ROWS = 65_536
MAX_FRAME_BYTES = 2**20
"""A frame holds more only where a single row does."""

_NULL_LENGTH = 0xFFFFFFFF
_NULL_TIME = -(2**63)
_FIXED_ROW_BYTES = 24
"""What a row takes in a frame besides its bytes of any length, about."""

_BYTES = (BinaryType, StringType)
COLUMNS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "value": (_BYTES, "binary or string"),
    "key": (_BYTES, "binary or string"),
    "event_time": ((TimestampType,), "timestamp"),
    "message_id": ((StringType,), "string"),
    "headers": ((ArrayType,), "array<struct<name: string, value: binary>>"),
    # What the source gives besides. A sink is not told of them.
    "stream": ((StringType,), "string"),
    "sequence": ((LongType,), "bigint"),
}
"""The columns that a sink takes, with their types, for Spark and for people."""


class _Column(NamedTuple):
    """Values of any length: the bytes of all of them, joined, the length of each, and which are null, if any are."""

    data: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.bool_] | None

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where each value begins, and the last one ends."""
        return _ends(self.lengths)

    def only(self, kept: npt.NDArray[np.bool_]) -> "_Column":
        """Some of the values."""
        nulls = None if self.nulls is None else self.nulls[kept]
        return _Column(self.data[np.repeat(kept, self.lengths)], self.lengths[kept], nulls)

    def cut(self, low: int, high: int) -> tuple[bytes, bytes]:
        """The bytes and the packed lengths of the values from `low` up to `high`, as a frame has them."""
        ends = self.ends
        lengths = self.lengths[low:high].astype("<u4")
        if self.nulls is not None:
            lengths[self.nulls[low:high]] = _NULL_LENGTH
        return self.data[ends[low] : ends[high]].tobytes(), lengths.tobytes()


class _Headers(NamedTuple):
    """How many headers each row has, and all of them."""

    counts: npt.NDArray[np.int64]
    names: _Column
    values: _Column

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each row's headers."""
        each = self.names.lengths + self.values.lengths + 8
        return np.diff(_ends(each)[_ends(self.counts)])


def check_schema(schema: StructType) -> None:
    """Refuses columns that no sink takes.

    Raises:
        SchemaError: a column is missing, is not known or has another type; it names the column and what to do.
    """
    if "value" not in schema.names:
        raise SchemaError(
            f"a sink needs a column value (binary or string), and the columns are {', '.join(schema.names) or 'none'}; "
            "for instance .selectExpr('to_json(struct(*)) AS value')"
        )
    for field in schema:
        if field.name not in COLUMNS:
            raise SchemaError(
                f"column {field.name} is none that a sink takes: {', '.join(COLUMNS)}; drop it, or make it a part of value"
            )
        kinds, wanted = COLUMNS[field.name]
        if not isinstance(field.dataType, kinds) or (field.name == "headers" and not _are_headers(field.dataType)):
            raise SchemaError(f"column {field.name} is {field.dataType.simpleString()}, and a sink takes {wanted}; cast it")
    if len(set(schema.names)) < len(schema.names):
        raise SchemaError(f"a column appears twice among {', '.join(schema.names)}; drop one")


def frames(batch: pa.RecordBatch, first: int) -> Iterator[pb.Frame]:
    """The rows of a record batch, in frames of limited size; `first` is the place of its first row in the part.

    Raises:
        SchemaError: a header is null or has no name, or a column has another type than `check_schema` let through.
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
    """Where rows of these sizes are cut into frames."""
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
    """A column of a batch; None where it is missing, or null in every row, unless it is the value."""
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
        raise SchemaError(f"column {name} comes as {array.type}, and a sink takes binary or string")
    _, _, data = array.buffers()
    offsets = _offsets(array)
    joined = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    if nulls is not None and lengths[nulls].any():
        # Arrow lets bytes lie under a null; a frame does not.
        joined, lengths = joined[np.repeat(~nulls, lengths)], np.where(nulls, 0, lengths)
    return _Column(joined, lengths, nulls)


def _offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """Where the values of an array begin in its buffer, and the last one ends; the array may be a slice."""
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
        raise SchemaError(f"column event_time comes as {array.type}, and a sink takes microseconds")
    times = np.frombuffer(array.buffers()[1], "<i8", len(array), array.offset * 8)
    nulls = _nulls(array)
    return times if nulls is None else np.where(nulls, np.int64(_NULL_TIME), times)


def _headers(batch: pa.RecordBatch) -> _Headers | None:
    """The headers of a batch; None where no row has any."""
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
        raise SchemaError("column headers holds a header that is null, or whose name is; leave such headers out")
    return _Headers(counts, names, values) if counts.any() else None


def _nulls_of(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls = _nulls(array)
    return np.zeros(len(array), dtype=np.bool_) if nulls is None else nulls
