"""The keyed stages of an application in a query: what Spark runs after the source stage."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.engine.applications.stages.keyed_task import KeyedTask
from headrace.engine.applications.stages.plan import COUNTS, ROWS, Plan
from headrace.engine.sink.options import SinkOptions
from headrace.engine.spark.counts import OBSERVED
from headrace.engine.spark.served_files import served
from headrace.pipelines.runtime import Counted, Graph


def add_keyed_stages(plan: Plan, rows: DataFrame, root: str, options: SinkOptions | None) -> DataFrame:
    """Adds the keyed stages of a plan to the rows of the source stage. The result has counts and reports for the query's sink.

    The last stage delivers the results. If one task reads a micro-batch, it runs all stages: Spark then skips the shuffles.

    Args:
        plan: The plan.
        rows: The rows of the source stage.
        root: The URL of the folder of states.
        options: The options of the sinks; None to pass on the results instead of delivering them.
    """
    last = plan.graph.shuffles
    for level in range(min(1, last), last + 1):
        if level:
            rows = served(rows.repartition(plan.buckets, "bucket"), root)
        rows = rows.mapInArrow(_function(KeyedTask(plan, level, root, level == last, options)), ROWS)
    return rows


def _function(task: KeyedTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def keyed_stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return keyed_stage


def observed(graph: Graph, rows: DataFrame, *, has_history: bool = False) -> DataFrame:
    """The same rows, with their counts in the query's progress: `late:STEP`, `skipped:STEP`, `violated:STEP` and so on."""
    repeated = [(Counted.REPEATED, source.name) for source in graph.sources.values()] if has_history else []
    figures = [
        F.coalesce(
            F.sum(F.when((F.col("target") == COUNTS[what]) & (F.col("stream") == step), F.col("messages"))), F.lit(0)
        ).alias(f"{what.value}:{step}")
        for what, step in [*graph.counted, *repeated]
    ]
    return rows.observe(OBSERVED, *figures) if figures else rows
