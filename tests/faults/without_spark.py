"""The engine without Spark: `python -m tests.faults.without_spark QUERY` calls the source in the order in which Spark does.

It keeps offsets and commits as Spark's checkpoint does, starts in a fraction of a driver's time, and can thus be killed often.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from tests.faults.processes import write_whole
from tests.faults.queries import Query

from headrace.engine.spark.format import HeadraceSource

POLL_S = 0.01


def main(line: str) -> None:
    query = Query.from_json(line)
    options = {"gateway": query.gateway, "stream": query.streams, "pipeline": query.name, **query.options}
    source = HeadraceSource(options)
    reader: Any = source.streamReader(source.schema())
    limit, planned, committed = reader.getDefaultReadLimit(), query.plans, query.commits
    start = query.offset(committed - 1) or reader.initialOffset()
    if planned > committed:
        start = run(query, reader, committed, start, query.offset(committed))
        committed += 1
    while True:
        end = reader.latestOffset(start, limit)
        if end != start:
            query.write_offset(committed, end)
            start = run(query, reader, committed, start, end)
            committed += 1
        else:
            time.sleep(POLL_S)


def run(query: Query, reader: Any, batch: int, start: Any, end: Any) -> Any:
    """Reads a batch, keeps what came, and commits it; returns where the next one starts."""
    query.write_batch(batch, list(rows(reader, start, end)))
    write_whole(query.checkpoint / "commits" / str(batch), "v1")
    return end


def rows(reader: Any, start: Any, end: Any) -> Iterator[list[Any]]:
    partitions = reader.partitions(start, end)
    prefetched = reader.getCache(start, end)
    parts = [prefetched] if prefetched is not None else [reader.read(partition) for partition in partitions]
    for part in parts:
        for columns in part:
            yield from rows_of(columns)


def rows_of(columns: pa.RecordBatch) -> Iterator[list[Any]]:
    stream, sequence, value = (columns.column(name).to_pylist() for name in ("stream", "sequence", "value"))
    for row in zip(stream, sequence, value, strict=True):
        yield [row[0], row[1], row[2].decode()]


if __name__ == "__main__":
    main(sys.argv[1])
