"""The baseline: a Spark source that generates the same Arrow batches in the reading process."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.engine.source.schema import SCHEMA
from headrace.laboratory.bench.sources import MESSAGE_BYTES

ROWS_PER_ARROW_BATCH = 10_000
STREAM = b"bench/0"


class Numbers(InputPartition):
    """The messages from `begin` up to, but not including, `end`."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end


class InProcessReader(DataSourceStreamReader):
    """Offers the same number of messages in every micro-batch."""

    def __init__(self, schema: StructType, rows: int, tasks: int) -> None:
        self.schema = schema
        self.rows = rows
        self.tasks = tasks

    def initialOffset(self) -> dict[str, Any]:
        """Returns the beginning."""
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Returns the offset of one more micro-batch."""
        return {"at": start["at"] + self.rows}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns equal parts."""
        edges = np.linspace(start["at"], end["at"], self.tasks + 1).astype(int)
        return [Numbers(int(begin), int(end)) for begin, end in itertools.pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the messages as Arrow record batches."""
        assert isinstance(partition, Numbers)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        for begin in range(partition.begin, partition.end, ROWS_PER_ARROW_BATCH):
            yield arrow_batch(schema, begin, min(ROWS_PER_ARROW_BATCH, partition.end - begin))


def arrow_batch(schema: pa.Schema, first: int, count: int) -> pa.RecordBatch:
    """Returns the columns of Headrace's source, for messages that only have a value."""
    columns = {
        "value": _repeated(pa.binary(), b"m" * MESSAGE_BYTES, count),
        "stream": _repeated(pa.string(), STREAM, count),
        "sequence": pa.array(np.arange(first, first + count)),
        "headers": _empty_lists(schema.field("headers").type, count),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _empty_lists(kind: pa.DataType, count: int) -> pa.Array:
    none = pa.array([], kind.value_type)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(np.zeros(count + 1, np.int32))], children=[none])


def _repeated(kind: pa.DataType, value: bytes, count: int) -> pa.Array:
    offsets = np.arange(0, (count + 1) * len(value), len(value), dtype=np.int32)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(value * count)])


class InProcess(DataSource):
    """Format `headrace_bench_inprocess`; options `rows` (messages in a micro-batch) and `tasks`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "headrace_bench_inprocess"

    def schema(self) -> StructType:
        """The same as Headrace's."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader."""
        return InProcessReader(schema, int(self.options["rows"]), int(self.options["tasks"]))
