"""What an application counts of its values, as Spark's progress shows it: late ones, skipped ones, those too far ahead."""

import json
import logging
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.engine.pipelines._plan import COUNTS
from headrace.pipelines.runtime import Graph

OBSERVED = "headrace"
"""The name of these figures among a query's `observedMetrics`."""

log = logging.getLogger("headrace.engine")


def observed(graph: Graph, rows: DataFrame) -> DataFrame:
    """The same rows, whose counts go into the progress of the query: `late:STEP`, `skipped:STEP`, `ahead:STEP`."""
    figures = [
        F.coalesce(
            F.sum(F.when((F.col("target") == COUNTS[what]) & (F.col("stream") == step), F.col("messages"))), F.lit(0)
        ).alias(f"{what.value}:{step}")
        for what, step in graph.counted
    ]
    return rows.observe(OBSERVED, *figures) if figures else rows


def counts_of(progress: Any) -> dict[str, int]:
    """The counts of a micro-batch that are not 0, of the JVM's progress."""
    row = progress.observedMetrics().get(OBSERVED)
    return {} if row is None else {name: count for name, count in json.loads(row.json()).items() if count}


def log_counts(progress: Any) -> None:
    """Tells people of a micro-batch whose values were late, skipped or too far ahead."""
    counts = counts_of(progress)
    if counts:
        told = ", ".join(f"{count:,} {name.partition(':')[0]} in step {name.partition(':')[2]}" for name, count in counts.items())
        log.warning("query %s, micro-batch %d: values %s", progress.name(), int(progress.batchId()), told)
