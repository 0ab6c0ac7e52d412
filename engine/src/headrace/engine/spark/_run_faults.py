"""Why a run makes no progress, as its driver sees it: a micro-batch that has failed, and executors that were lost."""

import logging
import re
import time
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine._master import is_one_jvm
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_BATCH_FAILED, RUN_FAULT_KIND_EXECUTORS_LOST, RunFault

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n)*)(\S.*)")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_CAUSE = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Refused|Failed|Away|Lost)\b: \S.*$", re.MULTILINE)
_MAX_TEXT = 1_000

log = logging.getLogger("headrace.engine")


def failed(batch: int, error: str) -> RunFault:
    """Returns the fault of a micro-batch that has failed with an error of Spark."""
    return RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=batch, message=cause_of(error))


def cause_of(error: str) -> str:
    """Returns the line of an error of Spark that says why, and where in the user's code it was raised, if it was."""
    traceback = _TRACEBACK.search(error)
    if traceback is None:
        causes = _CAUSE.findall(error)
        return (causes[-1] if causes else error.partition("\n")[0])[:_MAX_TEXT]
    frames = _FRAME.findall(traceback[1])
    where = f" ({frames[-1][0].rpartition('/')[2]}, line {frames[-1][1]}, in {frames[-1][2]})" if frames else ""
    return f"{traceback[2][:_MAX_TEXT]}{where}"


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
        return RunFault(kind=RUN_FAULT_KIND_EXECUTORS_LOST, message=message, age_ms=age_ms)

    def _last_reason(self) -> str:
        """Returns which executor was lost last, and why, as Spark tells it."""
        known = self._store.executorList(False)
        gone = [executor for executor in map(known.apply, range(known.size())) if executor.removeTime().isDefined()]
        if not gone:
            return ""
        last = max(gone, key=lambda executor: executor.removeTime().get().getTime())
        reason = last.removeReason().get() if last.removeReason().isDefined() else "without a reason"
        return f"; executor {last.id()} was lost: {reason.partition(chr(10))[0][:_MAX_TEXT]}"
