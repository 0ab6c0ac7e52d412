"""The rows of a part of a file, as messages in Arrow's columns."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.contract.columns import NULL_TIME
from headrace.engine._errors import HistoryError
from headrace.engine.history.files import PARQUET, File
from headrace.engine.history.lines import Lines
from headrace.engine.history.request import UNITS, WHOLE_ROW, ColumnNames
from headrace.engine.history.row_columns import Integers, Rows, checked_times, time_column

VALUE = "value"
_ROWS_AT_ONCE = 65_536
_HEADERS = pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())]))


def has_sequences(file: File, names: ColumnNames) -> bool:
    """Whether a file has the stream and the sequence of each message."""
    if not names.stream or not names.sequence:
        return False
    if file.kind != PARQUET:
        return (names.stream, names.sequence) != (ColumnNames.stream, ColumnNames.sequence)
    with file.open() as opened:
        return {names.stream, names.sequence} <= {*_parquet(file, opened).schema_arrow.names, *dict(file.values)}


def check(file: File, names: ColumnNames, *, ordered: bool) -> None:
    """Checks the columns of a file of Parquet; fields of lines are checked as they are read.

    Raises:
        HistoryError: One is missing or has another type.
    """
    if file.kind == PARQUET:
        with file.open() as opened:
            empty = _parquet(file, opened).schema_arrow.empty_table()
            _of_table(file, 0, _with_values(file, empty), names, ordered, whole=True)


def row_groups(file: File) -> list[tuple[int, int]]:
    """The rows, and the size in bytes, of each row group of a Parquet file."""
    with file.open() as opened:
        found = _parquet(file, opened).metadata
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in groups]


def read(file: File, begin: int, end: int, names: ColumnNames, *, ordered: bool, whole: bool = True) -> Iterator[Rows]:
    """Reads a part of a file, some rows at a time.

    Args:
        file: The file.
        begin: Its first row group, or byte.
        end: The row group, or byte, after its last one.
        names: Its columns.
        ordered: Whether streams and sequences are needed.
        whole: Whether the messages are needed.

    Raises:
        HistoryError: The file cannot be read, or a column is missing or has another type.
    """
    if file.kind != PARQUET:
        yield Lines(file, begin, names, ordered, whole).rows(file.text(begin, end))
        return
    first = 0
    with file.open() as opened:
        source = _parquet(file, opened)
        there = source.schema_arrow.names
        wanted = [names.event_time, *((names.stream, names.sequence) if ordered else ())]
        if whole:
            wanted += [names.key, names.message_id, names.headers, names.value or VALUE]
        asked = None if whole and names.value == WHOLE_ROW else [name for name in wanted if name in there]
        groups = list(range(begin, end))
        try:
            for batch in source.iter_batches(_ROWS_AT_ONCE, row_groups=groups, columns=asked, use_threads=False):
                yield _of_table(file, first, _with_values(file, pa.Table.from_batches([batch])), names, ordered, whole)
                first += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"history {file.path}: {error}; replace the damaged file") from None


def _parquet(file: File, opened: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(opened)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"history {file.path}: {error}; replace the damaged file") from None


def _with_values(file: File, table: pa.Table) -> pa.Table:
    """The rows with the columns that divide the table."""
    for name, value in file.values:
        if name not in table.column_names:
            table = table.append_column(name, pa.array([value] * table.num_rows, None if table.num_rows else pa.string()))
    return table


def _of_table(file: File, first: int, table: pa.Table, names: ColumnNames, ordered: bool, whole: bool) -> Rows:
    times = _times(file, table, names, needed=not ordered)
    streams = sequences = None
    if ordered:
        streams = [str(each) for each in _column(file, table, names.stream, "stream").to_pylist()]
        found = _column(file, table, names.sequence, "sequence")
        if not pa.types.is_integer(found.type) or found.null_count:
            raise HistoryError(f"history {file.path}: column {names.sequence} has no whole number in each row")
        sequences = np.asarray(found.cast(pa.int64()).to_numpy(), np.int64)
    if not whole:
        return Rows(first, None, times, streams, sequences)
    if names.value == WHOLE_ROW:
        values = pa.array([_row_text(row) for row in table.to_pylist()], pa.binary())
    else:
        values = _bytes(file, _column(file, table, names.value or VALUE, "value"), names.value or VALUE)
    columns: dict[str, Any] = {"value": values, "event_time": time_column(times)}
    if names.key in table.column_names:
        columns["key"] = _bytes(file, table.column(names.key), names.key)
    if names.message_id in table.column_names:
        columns["message_id"] = table.column(names.message_id).cast(pa.string())
    if names.headers in table.column_names:
        columns["headers"] = _headers(file, table.column(names.headers), names.headers)
    return Rows(first, pa.table(columns), times, streams, sequences)


def _column(file: File, table: pa.Table, name: str, field: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        advice = f", or {field}=* for the whole row as JSON" if field == "value" else ""
        raise HistoryError(
            f"history {file.path}: there is no column {name}; say which column is the {field} of a message{advice}"
        )
    return table.column(name)


def _bytes(file: File, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).cast(pa.binary())
    texts = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary, pa.types.is_null)
    if not any(is_kind(column.type) for is_kind in texts):
        raise HistoryError(f"history {file.path}: column {name} is {column.type}; keys and values are text or bytes")
    return column.cast(pa.binary())


def _headers(file: File, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        return column.cast(_HEADERS)
    except pa.ArrowException:
        raise HistoryError(
            f"history {file.path}: column {name} is {column.type}; headers are a list of structs of a name and a value; give "
            "headers= for messages without headers"
        ) from None


def _times(file: File, table: pa.Table, names: ColumnNames, *, needed: bool) -> Integers:
    if names.event_time not in table.column_names and not needed:
        return np.full(table.num_rows, NULL_TIME, np.int64)
    column = _column(file, table, names.event_time, "event_time")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        found = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        times = found.fill_null(NULL_TIME).to_numpy()
    elif pa.types.is_integer(column.type):
        times = column.cast(pa.int64()).fill_null(NULL_TIME).to_numpy()
        times = _in_microseconds(file, np.asarray(times, np.int64), names.unit)
    else:
        raise HistoryError(f"history {file.path}: column {names.event_time} is {column.type}; event times are timestamps")
    return checked_times(file, np.asarray(times, np.int64))


def _in_microseconds(file: File, times: Integers, unit: str) -> Integers:
    """Whole numbers in a unit as event times; NULL_TIME stays."""
    factor, divisor = UNITS[unit]
    given = times[times != NULL_TIME]
    if (np.abs(given) > np.iinfo(np.int64).max // factor).any():
        raise HistoryError(f"history {file.path}: the event time {int(given.max())} is not in the unit {unit}")
    return np.where(times == NULL_TIME, NULL_TIME, times * factor // divisor)


def _row_text(row: dict[str, Any]) -> bytes:
    return json.dumps(row, default=_plain, separators=(",", ":"), ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    """A value that JSON lacks: times in ISO 8601, bytes and decimals as text."""
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    if isinstance(value, bytes):
        return value.decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
