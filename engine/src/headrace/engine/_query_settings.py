"""The settings that belong to an application's query, whatever session it is started in."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import SparkSession

from headrace.engine._master import is_one_jvm
from headrace.engine._session import QUICK_SETTINGS
from headrace.engine._state_format import SETTING, attempts_told_apart

PARTITIONS = "spark.sql.shuffle.partitions"
_OF_QUERIES = "spark.sql.streaming."
_EXECUTORS_WAIT_S = 15.0
_SETTLED_AFTER_S = 1.0
_LOOKS_EVERY_S = 0.1

log = logging.getLogger("headrace.engine")


def new_partitions(spark: SparkSession) -> int:
    """In how many parts a new checkpoint divides the keys: what the session's user has set, else the session's parallelism.

    Spark's own default of 200 is for sorts of large tables: each part costs a task in every micro-batch, for a checkpoint's life.
    """
    chosen = spark.conf.get(PARTITIONS, None)
    if chosen is not None:
        return int(chosen)
    _await_executors(spark)
    return max(1, spark.sparkContext.defaultParallelism)


def _await_executors(spark: SparkSession) -> None:
    """Waits until a cluster's executors have come: before that, Spark takes its parallelism to be 2."""
    context = spark.sparkContext
    if is_one_jvm(str(context.master)) or context.getConf().contains("spark.default.parallelism"):
        return
    began = changed = time.monotonic()
    known = context.defaultParallelism, 1
    while (now := time.monotonic()) - began < _EXECUTORS_WAIT_S:
        # The driver is among them.
        found = context.defaultParallelism, context._jsc.sc().getExecutorMemoryStatus().size()
        if found != known:
            known, changed = found, now
        elif found[1] > 1 and now - changed >= _SETTLED_AFTER_S:
            return
        time.sleep(_LOOKS_EVERY_S)
    log.warning(
        "not all executors have come within %g s: the new checkpoint divides the keys into %d parts; %s says how many",
        _EXECUTORS_WAIT_S,
        known[0],
        PARTITIONS,
    )


@contextmanager
def settings_of_query(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Has a query that is started meanwhile run as it does in a session of `build_session`, where the session says nothing else.

    A query takes the settings of its session as they are when it starts. Afterwards they are as before.
    """
    wanted = {name: value for name, value in QUICK_SETTINGS.items() if name.startswith(_OF_QUERIES) and name != SETTING}
    unset = {name: value for name, value in wanted.items() if spark.conf.get(name, None) is None}
    with ExitStack() as stack:
        for name, value in {**unset, PARTITIONS: str(partitions)}.items():
            stack.enter_context(_set(spark, name, value))
        stack.enter_context(attempts_told_apart(spark))
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
