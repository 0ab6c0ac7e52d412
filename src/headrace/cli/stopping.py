"""Stops the queries of this process, also while they start.

A query that starts waits for its gateway, and the thread that has started it waits for the query: another one has to stop it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOOKS_EVERY_S = 0.2


def stop_queries() -> bool:
    """Stops the active queries of this process. Returns whether there was a Spark session."""
    spark = sys.modules.get("pyspark.sql")
    session = spark.SparkSession.getActiveSession() if spark is not None else None
    if session is None and spark is not None:
        # The active session belongs to a thread; the default one belongs to the process.
        session = spark.SparkSession._instantiatedSession
    if session is None:
        return False
    for query in session.streams.active:
        query.stop()
    return True


@contextmanager
def stopped_while_starting(stop: threading.Event) -> Iterator[None]:
    """Stops each query that starts in the block, once `stop` is set."""
    started = threading.Event()

    def look() -> None:
        while not started.wait(_LOOKS_EVERY_S):
            if stop.is_set():
                stop_queries()

    looking = threading.Thread(target=look, name="stop of a start", daemon=True)
    looking.start()
    try:
        yield
    finally:
        started.set()
        looking.join()
