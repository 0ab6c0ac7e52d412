"""Adds the counts of an application's values to Spark's progress."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.engine.applications.stages.plan import COUNTS
from headrace.engine.spark.counts import OBSERVED
from headrace.pipelines.runtime import Graph


def observed(graph: Graph, rows: DataFrame) -> DataFrame:
    """The same rows, with their counts in the query's progress: `late:STEP`, `skipped:STEP`, `ahead:STEP`."""
    figures = [
        F.coalesce(
            F.sum(F.when((F.col("target") == COUNTS[what]) & (F.col("stream") == step), F.col("messages"))), F.lit(0)
        ).alias(f"{what.value}:{step}")
        for what, step in graph.counted
    ]
    return rows.observe(OBSERVED, *figures) if figures else rows
