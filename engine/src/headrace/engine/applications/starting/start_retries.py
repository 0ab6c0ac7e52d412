"""Retries the start of a query if one of Spark's Python processes did not start in time.

Spark gives such a process 10 s to connect, which is not configurable, and sometimes too short on a busy machine. The next attempt
is faster, since the files are then in the page cache.
"""

import logging
import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

MAX_ATTEMPTS = 3
_TOO_SLOW = "Python worker failed to connect back"
_BEGINS = "Initializing"
"""Spark's status of a query whose sources are not yet initialised."""
_SOURCES_WAIT_S = 60.0
_LOOKS_EVERY_S = 0.05

log = logging.getLogger("headrace.engine")


def start_with_retries(name: str, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Starts a query, and returns it once its sources are initialised. Makes at most three attempts.

    A query that fails for another reason is returned: its `exception()` has the reason.

    Args:
        name: The query's name, for the log.
        start: Starts the query.
    """
    for attempt in range(1, MAX_ATTEMPTS):
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
            "query %s could not start: a Python process of Spark did not start within 10 s; attempt %d of %d follows",
            name,
            attempt + 1,
            MAX_ATTEMPTS,
            extra={"pipeline": name},
        )
    return start()


def _is_too_slow(failure: BaseException) -> bool:
    """Whether the reason of a failure is that a Python process did not start in time."""
    return _TOO_SLOW in str(failure)


def _failure_of(query: StreamingQuery) -> BaseException | None:
    """The error of a query that failed while its sources were initialised; None if it did not fail, or still initialises them."""
    deadline = time.monotonic() + _SOURCES_WAIT_S
    while query.isActive and str(query.status["message"]).startswith(_BEGINS) and time.monotonic() < deadline:
        time.sleep(_LOOKS_EVERY_S)
    return query.exception()
