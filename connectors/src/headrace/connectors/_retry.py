"""Retries while a system is unavailable: how long to wait, and how often to report it."""

import asyncio
import logging
import math
import time

from headrace.contract.backoff import Backoff

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
_STOOD_SECONDS = 2.0
"""A connection that breaks sooner, in seconds, counts as one more failure."""
_REPEAT_SECONDS = 10.0


log = logging.getLogger(__name__)


class ThrottledLog:
    """Warns of a problem when it appears and every ten seconds while it lasts, and reports when it is over."""

    def __init__(self, log: logging.Logger) -> None:
        """Creates a throttled log without a problem."""
        self._log = log
        self._problem: str | None = None
        self._reported_at = -math.inf

    def report(self, problem: str) -> None:
        """Reports that there is, or still is, this problem."""
        now = time.monotonic()
        if problem != self._problem or now - self._reported_at >= _REPEAT_SECONDS:
            self._log.warning("%s", problem)
            self._problem, self._reported_at = problem, now

    def over(self, text: str) -> None:
        """Reports that there is no problem any more, if there was one."""
        if self._problem is not None:
            self._log.info("%s", text)
            self._problem = None


class Retry:
    """Growing waits between attempts to reach a system, and their reports."""

    def __init__(self, what: str) -> None:
        """Creates the waits for a connection that the log names `what`."""
        self._what = what
        self._backoff = Backoff(FIRST_SECONDS, LONGEST_SECONDS)
        self._log = ThrottledLog(log)
        self._connected_at = math.inf

    def connected(self) -> None:
        """Notes that an attempt has succeeded."""
        self._connected_at = min(self._connected_at, time.monotonic())
        self._log.over(f"{self._what}: connected again")

    async def wait(self, error: Exception) -> None:
        """Waits, since an attempt has failed or a connection has broken.

        Raises:
            CancelledError: The task was cancelled before. Clients that use `asyncio.wait_for` may have swallowed that, before
                Python 3.12.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        if time.monotonic() - self._connected_at >= _STOOD_SECONDS:
            self._backoff.reset()
        self._connected_at = math.inf
        self._log.report(f"{self._what}: {error}; retrying")
        await asyncio.sleep(self._backoff.next())
