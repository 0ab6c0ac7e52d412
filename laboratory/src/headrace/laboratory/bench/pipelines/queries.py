"""The Spark queries of the pipelines benchmark: applications, and Spark's own operators on the same messages."""

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from headrace.contract.units import parse_size
from headrace.engine import start
from headrace.engine.applications.batches.commits import commits
from headrace.engine.applications.stages.plan import REPORT, Plan
from headrace.engine.applications.starting.keyed_stages import add_keyed_stages
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.checkpoint.folder import qualified
from headrace.engine.checkpoint.manifests import STATES
from headrace.engine.spark.application_sink import FORMAT, add_handler, remove_handler
from headrace.laboratory.bench.pipelines.apps import App
from headrace.laboratory.bench.pipelines.feed import Feed
from headrace.laboratory.bench.pipelines.inprocess import load
from headrace.laboratory.bench.rig import wait_for
from headrace.pipelines import Pipeline


@contextmanager
def discarding(plan: Plan, rows: DataFrame, checkpoint: str, counted: str) -> Iterator[StreamingQuery]:
    """Runs the keyed stages of a plan in a query of its own, which stops at the end of the block.

    Args:
        plan: The plan.
        rows: The rows of the source stage.
        checkpoint: The folder for positions and states.
        counted: The name under which the query's progress has the number of results, as `messages`.
    """
    spark = rows.sparkSession
    url, run = qualified(spark, checkpoint), uuid.uuid4().hex
    add_handler(spark, run, commits(spark, url, None, ()))
    is_result = (sql.col("target") < 0) & (sql.col("target") > REPORT)
    results = sql.sum(sql.when(is_result, sql.col("messages"))).alias("messages")
    leaving = add_keyed_stages(plan, rows, f"{url}/{STATES}", None).observe(counted, results)
    try:
        query = leaving.writeStream.format(FORMAT).option("run", run).option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()
    finally:
        remove_handler(spark, run)


WORKER_MEMORY = "3gb"
_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch.

    Attributes:
        messages: The number of its messages.
        begun: When it started, in seconds since 1970.
        took_s: Seconds from planning it to its entry in the commit log.
        results: The number of results that reached the sink.
    """

    messages: int
    begun: float
    took_s: float
    results: int


def rate(batches: Sequence[Batch]) -> float:
    """Returns the messages per second over consecutive micro-batches."""
    last = batches[-1]
    return sum(batch.messages for batch in batches) / (last.begun + last.took_s - batches[0].begun)


def spark_part(
    spark: SparkSession,
    app: App,
    feed: Feed,
    sizes: Sequence[int],
    *,
    pipeline: Callable[[], Pipeline] | None = None,
    worker_memory: str = WORKER_MEMORY,
    after: Callable[[int], None] | None = None,
    named_headrace: bool = False,
) -> list[Batch]:
    """Runs an application, without gateway and connectors, in micro-batches of these sizes.

    Args:
        spark: The session.
        app: The application.
        feed: Its input.
        sizes: The number of messages in each micro-batch.
        pipeline: A pipeline to run instead of the application's own, on the same messages.
        worker_memory: The memory for states in each Python worker.
        after: Called with the number of each micro-batch, soon after it has completed.
        named_headrace: Whether the source has Headrace's name, and what one task reads is therefore not shuffled.

    Raises:
        RuntimeError: The number of messages or results does not match the feed.
    """
    buckets = bucket_ids(int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    graph = (pipeline or app.pipeline)().graph
    plan = Plan(graph, buckets, graph.name, uuid.uuid4().hex, parse_size(worker_memory))
    arriving = load(spark, feed, sizes, plan, named_headrace=named_headrace).observe(
        "arriving", sql.sum("messages").alias("messages")
    )
    with tempfile.TemporaryDirectory() as checkpoint, discarding(plan, arriving, checkpoint, "leaving") as query:
        found = ran(query, sizes, after)
    arrived = sum(metrics["arriving"] for _, metrics in found)
    batches = [batch for batch, _ in found]
    results = sum(batch.results for batch in batches)
    if arrived != sum(sizes) or results != feed.results(arrived):
        raise RuntimeError(f"{arrived} of {sum(sizes)} messages arrived, with {results} results, not {feed.results(sum(sizes))}")
    return batches


def transform_with_state(spark: SparkSession, app: App, feed: Feed, sizes: Sequence[int]) -> list[Batch]:
    """Runs the same functions with Spark's own `transformWithState`, one row per message."""
    rows = load(spark, feed, sizes).select("key", "value").groupBy("key")
    results = rows.transformWithState(RowProcessor(app), "value binary", "append", "none")
    return [batch for batch, _ in _run(_counted(results), sizes, "append")]


def native_count(spark: SparkSession, feed: Feed, sizes: Sequence[int]) -> list[Batch]:
    """Counts the messages of each key with Spark's own aggregation."""
    counts = load(spark, feed, sizes).select("key").groupBy("key").count()
    return [batch for batch, _ in _run(_counted(counts), sizes, "update")]


class RowProcessor(StatefulProcessor):
    """An application's functions in Spark's own API."""

    def __init__(self, app: App) -> None:
        self._app = app

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it first in each task."""
        self._state = handle.getValueState("state", self._app.columns)
        self._names = [field.name for field in fields(self._app.state)]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Spark calls it once for each key that has rows in the micro-batch."""
        app = self._app
        kept = self._state.get()
        state = app.state() if kept is None else app.state(*kept)
        for row in rows:
            result = app.function(app.decode(bytes(row.value)), state)
            if result is not None:
                yield Row(value=app.encode(result))
        self._state.update(tuple(getattr(state, name) for name in self._names))

    def close(self) -> None:
        """Does nothing."""


@contextmanager
def running(
    pipeline: Pipeline, spark: SparkSession, address: str, folder: Path, *, real_time: bool = False
) -> Iterator[StreamingQuery]:
    """Runs an application between a gateway's streams and sinks, with its checkpoint in a folder."""
    # With any master, the entire benchmark is on this machine.
    options = {"gateway": address, "sharedCheckpoint": "true", "loopbackGateway": "true"}
    query = start(pipeline, spark, folder / "checkpoint", options=options, worker_memory=WORKER_MEMORY, real_time=real_time)
    try:
        yield query
    finally:
        query.stop()


def _counted(frame: DataFrame) -> DataFrame:
    return frame.observe("leaving", sql.count("*").alias("messages"))


def run_counted(frame: DataFrame, sizes: Sequence[int]) -> list[Batch]:
    """Runs a frame of new results into Spark's noop sink until every micro-batch is done. Returns each."""
    return [batch for batch, _ in _run(_counted(frame), sizes, "append")]


def _run(frame: DataFrame, sizes: Sequence[int], mode: str) -> list[tuple[Batch, dict[str, int]]]:
    """Runs a frame into Spark's noop sink until every micro-batch is done. Returns each with its observed metrics."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint).start()
        try:
            return ran(query, sizes)
        finally:
            query.stop()


def ran(
    query: StreamingQuery, sizes: Sequence[int], after: Callable[[int], None] | None = None
) -> list[tuple[Batch, dict[str, int]]]:
    """Waits until every micro-batch is done. Returns each with its observed metrics."""
    for number in range(len(sizes)):
        wait_for(f"micro-batch {number}", partial(_reached, query, number), _MAX_S)
        if after is not None:
            after(number)
    # An idle query reports its last micro-batch again, as an empty one.
    by_batch = {p["batchId"]: p for p in reversed(query.recentProgress) if p["batchId"] < len(sizes)}
    return [_batch(size, by_batch[number]) for number, size in enumerate(sizes)]


def _reached(query: StreamingQuery, number: int) -> bool:
    """Whether a micro-batch was reported."""
    if failure := query.exception():
        raise failure
    last = query.lastProgress
    return last is not None and last["batchId"] >= number


def _batch(size: int, progress: Any) -> tuple[Batch, dict[str, int]]:
    metrics = {name: int(row["messages"] or 0) for name, row in progress["observedMetrics"].items()}
    begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return Batch(size, begun, progress["durationMs"]["triggerExecution"] / 1000, metrics["leaving"]), metrics
