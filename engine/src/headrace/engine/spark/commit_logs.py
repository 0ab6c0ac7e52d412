"""Tells the JVM which run writes a commit log, and learns of its entries: Spark's own event comes a tenth of a second later."""

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

log = logging.getLogger("headrace.engine")


class _Listener:
    """Implements `CommitLogs.Listener`."""

    def __init__(self, query_id: str, committed: Callable[[int], None]) -> None:
        self._query_id = query_id
        self._committed = committed

    def committed(self, batch: int) -> None:
        try:
            self._committed(int(batch))
        except Exception:
            fields = {"query": self._query_id, "batch": batch}
            log.warning("cannot report a committed batch at once", exc_info=True, extra=fields)

    class Java:
        """The Java interface, for py4j."""

        implements = ("headrace.engine.CommitLogs$Listener",)


def begin_run(
    spark: SparkSession, checkpoint: str, query_id: str, run_id: str, number: int, committed: Callable[[int], None]
) -> bool:
    """Begins a run: its entries in the commit log name it from now on, and it writes none once another run has taken over.

    Args:
        spark: The session.
        checkpoint: The qualified path of the query's checkpoint.
        query_id: The query's id, for the log.
        run_id: The id of the run, as in the checkpoint's run log.
        number: Its number there.
        committed: Is called with each batch as soon as its entry is written, in a thread of its own.

    Returns:
        False if the JVM does not have the classes for it.
    """
    if (commit_logs := _commit_logs(spark)) is None:
        return False
    commit_logs.begin(checkpoint, run_id, number, _Listener(query_id, committed))
    return True


def end_run(spark: SparkSession, checkpoint: str, run_id: str) -> None:
    """Ends a run."""
    if (commit_logs := _commit_logs(spark)) is not None:
        commit_logs.end(checkpoint, run_id)


def _commit_logs(spark: SparkSession) -> Any:
    """The class in the JVM; None if it was not loaded."""
    found: Any = spark._jvm.headrace.engine.CommitLogs  # type: ignore[union-attr]
    return found if hasattr(found, "begin") else None
