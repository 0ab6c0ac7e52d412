"""The counts of an application's values in Spark's progress: late, skipped, or too far ahead."""

import json
import logging
from typing import Any

OBSERVED = "headrace"
"""The name of the counts in a query's `observedMetrics`."""

log = logging.getLogger("headrace.engine")


def counts_of(progress: Any) -> dict[str, int]:
    """The counts of a micro-batch that are not 0, from a progress event of the JVM."""
    row = progress.observedMetrics().get(OBSERVED)
    return {} if row is None else {name: count for name, count in json.loads(row.json()).items() if count}


def log_counts(progress: Any) -> None:
    """Logs how many values of a micro-batch were late, skipped or too far ahead, if any were."""
    counts = counts_of(progress)
    if counts:
        told = ", ".join(f"{count:,} {name.partition(':')[0]} in step {name.partition(':')[2]}" for name, count in counts.items())
        log.warning("query %s, micro-batch %d: values %s", progress.name(), int(progress.batchId()), told)
