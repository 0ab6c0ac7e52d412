"""The floor: a nearly empty stateful micro-batch of Spark's own, in the same session."""

import tempfile
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.rig import wait_for

_KEYS = 350
_INTERVAL = "300 milliseconds"
"""Longer than a micro-batch, so that the query is between two of them when it is stopped; Spark logs an error otherwise."""
_EACH_S = 10.0
"""How long a micro-batch may take, in seconds."""


def floor_ms(spark: SparkSession, skip: int, batches: int) -> list[float]:
    """Returns the durations of consecutive micro-batches, in milliseconds, from planning each to its entry in the commit log.

    Each has one row, which an aggregation in the JVM counts by key. Its state is in the state store of the session, and its
    result goes to Spark's noop sink.

    Args:
        spark: The session.
        skip: The number of first micro-batches that do not count.
        batches: The number of those that count.
    """
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    counts = source.groupBy((source["value"] % _KEYS).alias("key")).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime=_INTERVAL).start()
        try:
            wait_for("Spark's own micro-batches", partial(_reached, query, skip + batches), _EACH_S * (skip + batches))
            progress = list(query.recentProgress)
        finally:
            query.stop()
    return [float(each["durationMs"]["triggerExecution"]) for each in progress[skip : skip + batches]]


def _reached(query: StreamingQuery, batches: int) -> bool:
    """Whether this many micro-batches were reported."""
    if failure := query.exception():
        raise failure
    last = query.lastProgress
    return last is not None and int(last["batchId"]) + 1 >= batches
