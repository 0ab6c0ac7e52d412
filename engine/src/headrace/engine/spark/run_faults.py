"""Why a run makes no progress, as its driver sees it: a micro-batch that has failed, and executors that were lost."""

import logging
import os
import tempfile
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine.master import is_one_jvm
from headrace.engine.spark.causes import cause_of, with_place
from headrace.protocol.v1.metrics_pb2 import (
    RUN_FAULT_KIND_BATCH_FAILED,
    RUN_FAULT_KIND_EXECUTORS_LOST,
    RUN_FAULT_ORIGIN_SPARK,
    RUN_FAULT_ORIGIN_STORAGE,
    RunFault,
)

_MAX_TEXT = 1_000
_MAX_ABOUT = 255

log = logging.getLogger("headrace.engine")


def failed(batch: int, error: str, checkpoint: str, local_folders: Iterable[str] = ()) -> RunFault:
    """Returns the fault of a micro-batch that has failed with an error of Spark.

    Args:
        batch: The number of the micro-batch.
        error: The error, with its causes.
        checkpoint: The checkpoint, as a path or a URL.
        local_folders: The folders of Spark's temporary files.
    """
    cause = cause_of(error)
    if cause.origin == RUN_FAULT_ORIGIN_STORAGE and not cause.about:
        cause = with_place(cause, (checkpoint, *local_folders))
    return RunFault(
        kind=RUN_FAULT_KIND_BATCH_FAILED, batch=batch, message=cause.text, origin=cause.origin, about=cause.about[:_MAX_ABOUT]
    )


def full_storage(error: str, checkpoint: str, local_folders: Iterable[str]) -> str:
    """Returns the first cause of an error of a storage with the folders that it may concern; empty for any other error."""
    fault = failed(0, error, checkpoint, local_folders)
    return fault.message if fault.origin == RUN_FAULT_ORIGIN_STORAGE else ""


def local_folders(spark: SparkSession) -> list[str]:
    """Returns the folders of a session's temporary files; none if the JVM no longer answers."""
    try:
        # As Spark does, where both are given.
        configured = os.environ.get("SPARK_LOCAL_DIRS", "") or str(spark.sparkContext.getConf().get("spark.local.dir", ""))
    except Exception:
        log.info("cannot read the configuration of the session", exc_info=True)
        configured = ""
    return [*filter(None, configured.split(",")), tempfile.gettempdir()]


class Executors:
    """The executors of a session: whether there are fewer than there were."""

    def __init__(self, spark: SparkSession) -> None:
        """Begins with the executors that there are; with dynamic allocation, Spark removes them as it likes."""
        context = spark.sparkContext
        dynamic = str(context.getConf().get("spark.dynamicAllocation.enabled", "false")).lower() == "true"
        self._store: Any = None if dynamic or is_one_jvm(str(context.master)) else context._jsc.sc().statusStore()
        self._most = 0
        self._lost_at: float | None = None

    def lost(self) -> RunFault | None:
        """Returns the fault that executors were lost, until as many are there again; None if all are there."""
        if self._store is None:
            return None
        try:
            active = self._store.executorList(True).size()
            if active >= self._most:
                self._most, self._lost_at = active, None
                return None
            if self._lost_at is None:
                self._lost_at = time.monotonic()
            message = f"{active - 1} of {self._most - 1} executors are left{self._last_reason()}"
        except Exception:
            log.info("cannot count the executors", exc_info=True)
            return None
        age_ms = round((time.monotonic() - self._lost_at) * 1000)
        return RunFault(kind=RUN_FAULT_KIND_EXECUTORS_LOST, message=message, age_ms=age_ms, origin=RUN_FAULT_ORIGIN_SPARK)

    def _last_reason(self) -> str:
        """Returns which executor was lost last, and why, as Spark tells it."""
        known = self._store.executorList(False)
        gone = [executor for executor in map(known.apply, range(known.size())) if executor.removeTime().isDefined()]
        if not gone:
            return ""
        last = max(gone, key=lambda executor: executor.removeTime().get().getTime())
        reason = last.removeReason().get() if last.removeReason().isDefined() else "without a reason"
        return f"; executor {last.id()} was lost: {reason.partition(chr(10))[0][:_MAX_TEXT]}"
