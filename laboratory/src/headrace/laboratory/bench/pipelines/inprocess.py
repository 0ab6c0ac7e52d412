"""A Spark source whose tasks make the messages themselves, as blocks for an application or as rows for anything else."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.engine.applications._plan import ROWS, Plan
from headrace.engine.applications._source_stage import source_stage_rows
from headrace.engine.source._ranges import task_count
from headrace.engine.source._schema import SCHEMA
from headrace.engine.wire._decode import record_batches
from headrace.laboratory.bench.inprocess import Numbers
from headrace.laboratory.bench.pipelines.feed import Feed, frames

FORMAT = "headrace_bench_pipelines"
_MESSAGE_BYTES = 16
"""Of the smallest messages, which decide how many tasks are worth while."""


class FeedReader(DataSourceStreamReader):
    """Offers micro-batches of given sizes, one after the other, and then nothing more."""

    def __init__(self, feed: Feed, sizes: Sequence[int], tasks: int, plan: Plan | None) -> None:
        self._feed = feed
        self._sizes = sizes
        self._tasks = tasks
        self._plan = plan

    def initialOffset(self) -> dict[str, Any]:
        """Before the first micro-batch."""
        return {"batches": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """One micro-batch more, while there is one."""
        return {"batches": min(start["batches"] + 1, len(self._sizes))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Equal parts, as many as the messages are worth."""
        begin, stop = sum(self._sizes[: start["batches"]]), sum(self._sizes[: end["batches"]])
        tasks = task_count((stop - begin) * _MESSAGE_BYTES, self._tasks)
        # Each part has whole messages of each stream.
        share = len(self._feed.streams)
        edges = [begin + (stop - begin) * task // tasks // share * share for task in range(tasks)] + [stop]
        return [Numbers(low, high) for low, high in itertools.pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Blocks, made by the application's own code, or rows."""
        part = cast(Numbers, partition)
        made = frames(self._feed, part.begin, part.end)
        return record_batches(made) if self._plan is None else source_stage_rows(self._plan, made)


class FeedSource(DataSource):
    """What `load` registers, each time with other things to give."""

    feed: Feed
    sizes: Sequence[int]
    tasks: int
    plan: Plan | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Headrace's, of blocks or of rows."""
        return SCHEMA if self.plan is None else ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader."""
        return FeedReader(self.feed, self.sizes, self.tasks, self.plan)


def load(spark: SparkSession, feed: Feed, sizes: Sequence[int], plan: Plan | None = None) -> DataFrame:
    """A stream of micro-batches of these sizes: blocks for the application of a plan, else rows."""
    tasks = spark.sparkContext.defaultParallelism
    given = {"feed": feed, "sizes": tuple(sizes), "tasks": tasks, "plan": plan}
    spark.dataSource.register(type("GivenFeedSource", (FeedSource,), given))
    return spark.readStream.format(FORMAT).load()
