"""A benchmark as parts that run one after the other, in one Spark session."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, Progress, machine, measured
from headrace.laboratory.bench.queries import session
from headrace.laboratory.bench.sources import MESSAGE_BYTES

Say = Callable[[str], None]
Part = Callable[[SparkSession, Say, bool], Iterator[Figure]]


def run_parts(
    known: Mapping[str, Part],
    names: Sequence[str],
    quick: bool,
    say: Progress,
    *,
    spark_conf: Mapping[str, str] | None = None,
    quick_start: bool = False,
    **conditions: Any,
) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts. Returns their figures and the conditions.

    `prepared` is whether the JVM uses the archive of `headrace prepare`; `seconds` is how long the session's start and each part
    took.

    Raises:
        NothingMeasured: In some part, nothing happened of which there could be a figure.
    """
    load, begun = os.getloadavg()[0], time.monotonic()
    # A quick run ends before the optimising compiler pays off.
    spark = session(conf=spark_conf, quick_start=quick_start or quick)
    prepared = "-XX:SharedArchiveFile" in (spark.sparkContext.getConf().get("spark.driver.defaultJavaOptions") or "")
    figures: list[Figure] = []
    seconds = {"session": round(time.monotonic() - begun, 1)}
    for name in names:
        if not say.begins(name):
            continue
        say(f"{name} ...")
        begun = time.monotonic()
        figures += measured(name, partial(known[name], spark, say, quick), say)
        seconds[name] = round(time.monotonic() - begun, 1)
    spark.stop()
    of_run = {"load_average_before": load, "message_bytes": MESSAGE_BYTES, "quick": quick, "prepared": prepared}
    return figures, machine() | of_run | {"seconds": seconds} | conditions
