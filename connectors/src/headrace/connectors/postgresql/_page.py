"""Converts table rows to batches. The server packs the columns, so that no Python code runs for each row."""

import json
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import sql

from headrace.connectors.postgresql._table import Column, Table
from headrace.sdk import NULL, Batch, Headers, InvalidMessage, Packed

MAX_ROWS = 8192
"""The number of rows of a frame of the SDK, so that a page becomes one frame."""

_MAX_BYTES = 512 * 1024

_FROM_1970_TO_2000 = 946_684_800_000_000
_NULL_TIME = -(2**63)
_INFINITY = 2**63 - 1
TIMES = ("timestamp with time zone", "timestamp without time zone", "date")
"""The types of a column that can have event times."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The mapping of the columns of a table to messages.

    Attributes:
        sequence: The column that has the sequence.
        value: The column that is the value; None if it is a JSON object of columns.
        members: The columns of that object.
        key: The column that has the key.
        headers: The column that has the headers.
        event_time: The column that has the event time.
        partition: The column that has the partition.
        where: A condition.
    """

    sequence: Column
    value: Column | None
    members: Sequence[Column] = ()
    key: Column | None = None
    headers: Column | None = None
    event_time: Column | None = None
    partition: Column | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive rows, in columns.

    Attributes:
        sequences: Their sequences.
        values: Their values.
        keys: Their keys; None if there is no such column.
        event_times: Their event times, likewise.
        headers: Their headers as JSON, likewise.
    """

    sequences: "array[int]"
    values: Packed
    keys: Packed | None
    event_times: "array[int] | list[int] | None"
    headers: Sequence[str | None] | None

    @property
    def next_rows(self) -> int:
        """The number of rows to request for the next page, if they are as large as these."""
        size = len(self.values.data) + (len(self.keys.data) if self.keys else 0)
        return min(MAX_ROWS, len(self.sequences) * _MAX_BYTES // max(size, 1) + 1)

    def first(self, count: int) -> "Page":
        """Returns the first rows only."""
        if count == len(self.sequences):
            return self
        return Page(
            self.sequences[:count],
            _first(self.values, count),
            None if self.keys is None else _first(self.keys, count),
            None if self.event_times is None else self.event_times[:count],
            None if self.headers is None else self.headers[:count],
        )

    def batch(self) -> Batch:
        """Returns the page as a batch of the SDK.

        Raises:
            InvalidMessage: The headers of a row are invalid.
        """
        first, last = self.sequences[0], self.sequences[-1]
        dense = last - first + 1 == len(self.sequences)
        headers = None if self.headers is None else [_headers(*row) for row in zip(self.headers, self.sequences, strict=True)]
        return Batch(
            self.values,
            keys=self.keys,
            event_times=self.event_times,
            headers=headers,
            sequences=range(first, last + 1) if dense else self.sequences.tolist(),
        )


def page_query(table: Table, layout: Layout) -> sql.Composed:
    """Returns a statement for the rows after one number and up to another, as one row of packed columns.

    Its parameters are the partition, if the layout has such a column, the two numbers, and the maximum number of rows.
    """
    number = layout.sequence.identifier
    conditions = [sql.SQL("{} > %s AND {} <= %s").format(number, number)]
    if layout.partition is not None:
        conditions.insert(0, sql.SQL("{} = %s").format(layout.partition.identifier))
    if layout.where is not None:
        # The user writes this condition, and has the rights of this connection anyway.
        conditions.append(sql.SQL("({})").format(sql.SQL(_literal(layout.where))))
    columns = {
        "number": sql.SQL("{}::bigint").format(number),
        "value": _value(layout),
        "key": _as_bytes(layout.key),
        "event_time": sql.SQL("NULL::timestamptz") if layout.event_time is None else _cast(layout.event_time, "timestamptz"),
        "headers": sql.SQL("NULL::text") if layout.headers is None else _cast(layout.headers, "text"),
    }
    return sql.SQL(_PAGE).format(
        columns=sql.SQL(", ").join(sql.SQL("{} AS {}").format(what, sql.Identifier(name)) for name, what in columns.items()),
        table=table.identifier,
        number=number,
        conditions=sql.SQL(" AND ").join(conditions),
        max_bytes=sql.Literal(_MAX_BYTES),
        keys=sql.SQL("NULL, NULL" if layout.key is None else _PACKED_KEYS),
        event_times=sql.SQL("NULL" if layout.event_time is None else _PACKED_TIMES),
        headers=sql.SQL("NULL" if layout.headers is None else "array_agg(headers)"),
    )


def read_page(row: tuple[Any, ...]) -> Page | None:
    """Returns the result of the statement; None if there were no rows."""
    numbers, values, value_lengths, keys, key_lengths, event_times, headers = row
    if numbers is None:
        return None
    return Page(
        _unpacked("q", numbers),
        Packed(values or b"", _unpacked("I", value_lengths)),
        None if key_lengths is None else Packed(keys or b"", _unpacked("I", key_lengths)),
        None if event_times is None else _times(_unpacked("q", event_times)),
        headers,
    )


_PACKED_KEYS = "string_agg(key, ''), string_agg(coalesce(int4send(octet_length(key)), '\\xffffffff'), '')"
_PACKED_TIMES = "string_agg(coalesce(timestamptz_send(event_time), '\\x8000000000000000'), '')"
# The rows, and so the aggregates, are in the order of the window.
_PAGE = """
    SELECT string_agg(int8send(number), ''), string_agg(value, ''),
           string_agg(coalesce(int4send(octet_length(value)), '\\xffffffff'), ''), {keys}, {event_times}, {headers}
    FROM (
        SELECT *, sum(size) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) AS bytes
        FROM (
            SELECT *, coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) AS size
            FROM (SELECT {columns} FROM {table} AS message WHERE {conditions} ORDER BY {number} LIMIT %s) AS found
        ) AS measured
    ) AS summed
    WHERE bytes - size < {max_bytes}
"""


def _literal(text: Any) -> LiteralString:
    """Text of the user as part of a statement with parameters."""
    literal: LiteralString = text.replace("%", "%%")
    return literal


def _value(layout: Layout) -> sql.Composable:
    if layout.value is not None:
        return _as_bytes(layout.value)
    members = sql.SQL(", ").join(sql.SQL("message.{}").format(column.identifier) for column in layout.members)
    return sql.SQL("convert_to((SELECT to_json(members) FROM (SELECT {}) AS members)::text, 'UTF8')").format(members)


def _as_bytes(column: Column | None) -> sql.Composable:
    if column is None:
        return sql.SQL("NULL::bytea")
    if column.base == "bytea":
        return column.identifier
    return sql.SQL("convert_to({}, 'UTF8')").format(_cast(column, "text"))


def _cast(column: Column, type_: LiteralString) -> sql.Composed:
    return sql.SQL("{}::" + type_).format(column.identifier)


def _unpacked(typecode: str, data: bytes) -> "array[int]":
    """Numbers from bytes in network byte order."""
    numbers: array[int] = array(typecode, data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _times(since_2000: "array[int]") -> "array[int] | list[int]":
    """Microseconds since 1970 instead of 2000; infinite times become null."""
    if _NULL_TIME in since_2000 or _INFINITY in since_2000:
        endless = (_NULL_TIME, _INFINITY)
        since_1970 = [_NULL_TIME if time in endless else time + _FROM_1970_TO_2000 for time in since_2000]
    else:
        since_1970 = [time + _FROM_1970_TO_2000 for time in since_2000]
    try:
        return array("q", since_1970)
    except OverflowError:
        # The last thirty years of PostgreSQL's range do not fit; the SDK detects such rows.
        return since_1970


def _first(column: Packed, count: int) -> Packed:
    lengths = column.lengths[:count]
    return Packed(column.data[: sum(lengths) - NULL * lengths.count(NULL)], lengths)


def _headers(text: str | None, number: int) -> Headers | None:
    """Returns the headers of a row."""
    found = None if text is None else json.loads(text)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise InvalidMessage(f"the headers of row {number} are not a JSON object")
    return [(name, _header(value)) for name, value in found.items()]


def _header(value: object) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()
