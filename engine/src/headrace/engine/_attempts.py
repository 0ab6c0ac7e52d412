"""Starts a query again where Spark's Python processes were too slow to come up.

Spark gives such a process 10 s to connect, whatever its settings say. On a machine that is busy with other starts, that is too
short now and then, and the next attempt finds the files of the first one in memory.
"""

import logging
import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

MOST_ATTEMPTS = 3
_TOO_SLOW = "Python worker failed to connect back"
_BEGINS = "Initializing"
"""How Spark describes a query as long as its sources are not there."""
_SOURCES_WAIT_S = 60.0
_LOOKS_EVERY_S = 0.05

log = logging.getLogger("headrace.engine")


def started(name: str, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query that a function starts, once its sources are there; the function is called three times at most.

    A query that fails for any other reason is returned as it is: its `exception()` says why.

    Args:
        name: What the query is called, for the log.
        start: Starts it.
    """
    for attempt in range(1, MOST_ATTEMPTS):
        try:
            query = start()
            failure = _failure_of(query)
            if failure is None or not _is_too_slow(failure):
                return query
            query.stop()
        except Exception as error:
            if not _is_too_slow(error):
                raise
        log.warning(
            "query %s could not start: a Python process of Spark did not come up in 10 s; attempt %d of %d follows",
            name,
            attempt + 1,
            MOST_ATTEMPTS,
        )
    return start()


def _is_too_slow(failure: BaseException) -> bool:
    """Whether something failed because a Python process did not come up in time."""
    return _TOO_SLOW in str(failure)


def _failure_of(query: StreamingQuery) -> BaseException | None:
    """Why a query failed while its sources were made; None where it did not, or takes long."""
    deadline = time.monotonic() + _SOURCES_WAIT_S
    while query.isActive and str(query.status["message"]).startswith(_BEGINS) and time.monotonic() < deadline:
        time.sleep(_LOOKS_EVERY_S)
    return query.exception()
