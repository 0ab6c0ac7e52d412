"""Listens to the commit logs of queries: Spark's own progress event comes a tenth of a second after the entry."""

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


def listen(spark: SparkSession, checkpoint: str, query_id: str, committed: Callable[[int], None]) -> None:
    """Calls `committed` with each batch as soon as it is in the commit log, if the session's checkpoints are `QuickCheckpoints`.

    Args:
        spark: The session.
        checkpoint: The qualified path of the query's checkpoint.
        query_id: The query's id, for the log.
        committed: Is called in a thread of its own.
    """
    if (commit_logs := _commit_logs(spark)) is not None:
        commit_logs.add(checkpoint, _Listener(query_id, committed))


def stop_listening(spark: SparkSession, checkpoint: str) -> None:
    """Ends `listen`."""
    if (commit_logs := _commit_logs(spark)) is not None:
        commit_logs.remove(checkpoint)


def _commit_logs(spark: SparkSession) -> Any:
    """The class in the JVM; None if it was not loaded."""
    found: Any = spark._jvm.headrace.engine.CommitLogs  # type: ignore[union-attr]
    return found if hasattr(found, "add") else None
