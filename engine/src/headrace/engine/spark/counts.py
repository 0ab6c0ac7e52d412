"""What Spark's progress says of a micro-batch: counts of values that are late, skipped or too far ahead, and its stages."""

import json
import logging
from collections import Counter
from typing import Any

OBSERVED = "headrace"
"""The name of the counts in a query's `observedMetrics`."""

log = logging.getLogger("headrace.engine")


def counts_of(progress: Any) -> dict[str, int]:
    """The counts of a micro-batch that are not 0, from a progress event of the JVM."""
    row = progress.observedMetrics().get(OBSERVED)
    return {} if row is None else {name: count for name, count in json.loads(row.json()).items() if count}


def stages_of(progress: Any) -> Counter[str]:
    """How long each stage of a micro-batch took, in milliseconds, from a progress event of the JVM."""
    # As the JVM's text, since each value would be a call to the JVM, also in Python's `str`: {addBatch=12, latestOffset=3}.
    pairs = (pair.partition("=") for pair in progress.durationMs().toString().strip("{}").split(", "))
    return Counter({stage: int(spent) for stage, _, spent in pairs if spent})


def log_counts(progress: Any) -> None:
    """Logs how many values of a micro-batch were late, skipped or too far ahead, if any were."""
    counts = counts_of(progress)
    if counts:
        told = ", ".join(f"{count:,} {name.partition(':')[0]} in step {name.partition(':')[2]}" for name, count in counts.items())
        name, batch = progress.name(), int(progress.batchId())
        fields = {"pipeline": name, "query": str(progress.id()), "batch": batch}
        log.warning("query %s, micro-batch %d: values %s", name, batch, told, extra=fields)
