"""Reports the commits of a session's queries while they run, and the last ones after they have ended."""

import atexit
import threading
import time
import weakref
from collections.abc import Callable

from headrace.engine.spark.reporting import LAST_INTERVAL_S, ReportedRun

RETRY_INTERVAL_S = 0.1
"""How often to report while the gateway is unavailable: after a restart, it accepts no deliveries before it knows the run."""
END_TIMEOUT_S = 5.0
"""How long to wait for the last transactions after a query's end. Those that are then pending are reported at its next start."""


class CommitReporter:
    """Reports the commits of one session's queries, in a thread that lives while there are any."""

    def __init__(self, session_ended: Callable[[], bool]) -> None:
        self._session_ended = session_ended
        self._changed = threading.Condition()
        self._queries: dict[str, ReportedRun] = {}
        self._thread: threading.Thread | None = None
        _reporters.add(self)

    def start(self, query: ReportedRun, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Announces a query before its first batch, and reports its commits from now on.

        Args:
            query: The query.
            is_stopped: Whether it was stopped meanwhile.

        Raises:
            StoppedAtStart: It was stopped while the gateway was unavailable.
            HeadraceError: The query must not start.
            Exception: The commit log cannot be read.
        """
        query.announce(is_stopped)
        with self._changed:
            query.due = time.monotonic() + query.interval_s
            self._queries[query.query_id] = query
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headrace-commit-reports", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def committed(self, query: ReportedRun, batch: int) -> None:
        """Records that a batch is in the commit log, and reports it at once."""
        with self._changed:
            query.note(batch)
            query.due = 0.0
            self._changed.notify_all()

    def end(self, query: ReportedRun) -> None:
        """Records that a query has ended: its last transactions are reported until none is pending, or the timeout passes."""
        query.read()
        query.save_votes()
        with self._changed:
            query.ends = time.monotonic() + END_TIMEOUT_S
            query.due = 0.0
            self._changed.notify_all()

    def finish(self) -> None:
        """Reports the commits of every query in the calling thread, since the process ends."""
        with self._changed:
            queries = list(self._queries.values())
            self._queries.clear()
            self._changed.notify_all()
        deadline = time.monotonic() + END_TIMEOUT_S
        for query in queries:
            query.ends = query.ends or deadline
            query.read()
        while (queries := [query for query in queries if query.report() != 0]) and time.monotonic() < deadline:
            time.sleep(LAST_INTERVAL_S)

    def _run(self) -> None:
        while (query := self._next()) is not None:
            query.look_for_readers()
            pending = query.report()
            with self._changed:
                over = query.replaced or (query.ends is not None and (pending == 0 or time.monotonic() > query.ends))
                if over and self._queries.get(query.query_id) is query:
                    del self._queries[query.query_id]
                elif query.is_unavailable and query.ends is None:
                    query.due = min(query.due, time.monotonic() + RETRY_INTERVAL_S)

    def _next(self) -> ReportedRun | None:
        """Waits for the next query that is due; None once there are no queries."""
        with self._changed:
            while self._queries:
                now = time.monotonic()
                if self._session_ended():
                    for query in self._queries.values():
                        query.ends = query.ends or now + END_TIMEOUT_S
                query = min(self._queries.values(), key=lambda q: q.due)
                if query.due <= now:
                    query.due = now + query.interval_s
                    return query
                self._changed.wait(query.due - now)
            self._thread = None
            return None


_reporters: "weakref.WeakSet[CommitReporter]" = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    """Reports before the process ends: `awaitTermination` may return before Spark has notified its listeners."""
    for reporter in list(_reporters):
        reporter.finish()
