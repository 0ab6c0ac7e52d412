"""Runs the keyed stages of an application without sinks: its states are stored, and its results are counted and discarded."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine.applications.batches.commits import commits
from headrace.engine.applications.stages.plan import REPORT, Plan
from headrace.engine.applications.starting.keyed_stages import add_keyed_stages
from headrace.engine.checkpoint.folder import qualified
from headrace.engine.checkpoint.manifests import STATES
from headrace.engine.spark.application_sink import FORMAT, add_handler, remove_handler


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
    is_result = (F.col("target") < 0) & (F.col("target") > REPORT)
    results = F.sum(F.when(is_result, F.col("messages"))).alias("messages")
    leaving = add_keyed_stages(plan, rows, f"{url}/{STATES}", None).observe(counted, results)
    try:
        query = leaving.writeStream.format(FORMAT).option("run", run).option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()
    finally:
        remove_handler(spark, run)
