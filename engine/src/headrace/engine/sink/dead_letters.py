"""Messages that a sink rejected, for the dead-letter sink: unchanged, with additional headers that state the reason."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

SINK, REASON, BATCH = "headrace-sink", "headrace-reason", "headrace-batch"
STREAM, SEQUENCE = "headrace-stream", "headrace-sequence"

_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_AS_THEY_WERE = ("value", "key", "event_time", "message_id")


def dead_letters(rows: pa.RecordBatch, reasons: Sequence[str], sink: str, number: int) -> pa.RecordBatch:
    """The rows of batch `number` that `sink` rejected, with one reason for each.

    The headers contain stream and sequence if the query has kept these columns of its source.
    """
    kept = {name: rows.column(name) for name in _AS_THEY_WERE if name in rows.schema.names}
    headers = [
        [*_own_headers(row), *_header_rows({SINK: sink, REASON: reason, BATCH: number}), *_header_rows(_origin(row))]
        for row, reason in zip(rows.to_pylist(), reasons, strict=True)
    ]
    return pa.RecordBatch.from_pydict({**kept, "headers": pa.array(headers, _HEADERS)})


def _own_headers(row: dict[str, Any]) -> list[dict[str, Any]]:
    return list(row.get("headers") or ())


def _origin(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[column] for name, column in ((STREAM, "stream"), (SEQUENCE, "sequence")) if row.get(column) is not None}


def _header_rows(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return ({"name": name, "value": str(value).encode()} for name, value in values.items())
