"""Rows that become dead letters: rows that a sink refuses, and rows whose values the source could not decode."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.engine.codec import ERROR, ERROR_VALUE

_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_AS_THEY_WERE = ("value", "key", "event_time", "message_id")


def dead_letters(rows: pa.RecordBatch, reasons: Sequence[str], sink: str, number: int) -> pa.RecordBatch:
    """The rows of batch `number` that `sink` does not get, with one reason for each.

    The headers contain stream and sequence if the query has kept these columns of its source.
    """
    kept = {name: rows.column(name) for name in _AS_THEY_WERE if name in rows.schema.names}
    own = {"headrace-sink": sink, "headrace-batch": number}
    headers = [
        [*(row.get("headers") or ()), *_header_rows({**own, "headrace-reason": reason, **_origin(row)})]
        for row, reason in zip(rows.to_pylist(), reasons, strict=True)
    ]
    return pa.RecordBatch.from_pydict({**kept, "headers": pa.array(headers, _HEADERS)})


def divided(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows for the sink, and the rows that could not be decoded, whose values are the bytes of their messages."""
    if ERROR not in rows.schema.names:
        return rows, rows.slice(0, 0)
    error = rows.column(ERROR)
    if not error.is_valid().true_count:
        return rows.drop_columns([ERROR, ERROR_VALUE]), rows.slice(0, 0)
    sound = rows.filter(error.is_null()).drop_columns([ERROR, ERROR_VALUE])
    failed = rows.filter(error.is_valid())
    place = failed.schema.get_field_index("value")
    return sound, failed.set_column(place, "value", failed.column(ERROR_VALUE)).drop_columns([ERROR_VALUE])


def _origin(row: dict[str, Any]) -> dict[str, Any]:
    return {f"headrace-{column}": row[column] for column in ("stream", "sequence") if row.get(column) is not None}


def _header_rows(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return ({"name": name, "value": str(value).encode()} for name, value in values.items())
