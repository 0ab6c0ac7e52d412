"""The settings of an application's query, independent of the session that it is started in."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import SparkSession

from headrace.engine.master import is_one_jvm
from headrace.engine.spark.session import QUICK_SETTINGS

PARTITIONS = "spark.sql.shuffle.partitions"
_SHORT_TRACEBACKS = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_OF_QUERIES = "spark.sql.streaming."
_FIXED = {_ADAPTIVE: "false", _SHORT_TRACEBACKS: "false"}
"""A plan that adapts itself costs time in each micro-batch, and has nothing to adapt: blocks are divided evenly. Short tracebacks
omit the frames of the application's functions."""
_EXECUTORS_WAIT_S = 15.0
_SETTLED_AFTER_S = 1.0
_LOOKS_EVERY_S = 0.1

log = logging.getLogger("headrace.engine")


def new_partitions(spark: SparkSession) -> int:
    """The number of buckets of a new checkpoint: the session's setting if the user has set it, else its parallelism.

    Spark's default of 200 suits sorts of large tables. Here, each partition costs a task in every micro-batch.
    """
    chosen = spark.conf.get(PARTITIONS, None)
    if chosen is not None:
        return int(chosen)
    _await_executors(spark)
    return max(1, spark.sparkContext.defaultParallelism)


def _await_executors(spark: SparkSession) -> None:
    """Waits until a cluster's executors have registered: before that, Spark's default parallelism is 2."""
    context = spark.sparkContext
    if is_one_jvm(str(context.master)) or context.getConf().contains("spark.default.parallelism"):
        return
    began = changed = time.monotonic()
    known = context.defaultParallelism, 1
    while (now := time.monotonic()) - began < _EXECUTORS_WAIT_S:
        # The number includes the driver.
        found = context.defaultParallelism, context._jsc.sc().getExecutorMemoryStatus().size()
        if found != known:
            known, changed = found, now
        elif found[1] > 1 and now - changed >= _SETTLED_AFTER_S:
            return
        time.sleep(_LOOKS_EVERY_S)
    log.warning(
        "not all executors registered within %g s: the new checkpoint has %d buckets; %s sets the number",
        _EXECUTORS_WAIT_S,
        known[0],
        PARTITIONS,
    )


@contextmanager
def settings_of_query(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Sets the settings of `build_session` that concern queries, unless the session has its own, and restores them afterwards.

    A query copies the settings of its session when it starts.
    """
    wanted = {name: value for name, value in QUICK_SETTINGS.items() if name.startswith(_OF_QUERIES)}
    unset = {name: value for name, value in wanted.items() if spark.conf.get(name, None) is None}
    with ExitStack() as stack:
        for name, value in {**unset, PARTITIONS: str(partitions), **_FIXED}.items():
            stack.enter_context(_set(spark, name, value))
        yield


@contextmanager
def _set(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
