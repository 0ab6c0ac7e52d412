"""Backoff and throttled logging for retries while a system is unavailable."""

import asyncio
import logging
import math
import time
from types import TracebackType
from typing import Self

from headrace.connectors.waiting import Reporting, goes_on, waits
from headrace.contract.backoff import Backoff
from headrace.logs.repeats import Repeats

FIRST_S = 0.1
MAX_BACKOFF_S = 5.0
_STOOD_S = 2.0
"""A connection that breaks within this time, in seconds, counts as another failure."""

log = logging.getLogger(__name__)


def gave_up(error: object, seconds: float, setting: str) -> str:
    """Returns the last error of a connector that waits no longer, with the setting that limits its wait, in seconds."""
    limit = f"; gave up, since {setting} is {seconds:g} s: raise it to wait longer"
    return str(error).removesuffix(limit) + limit


class ThrottledLog:
    """Warns of a problem when it appears and every ten seconds while it lasts, and reports when it is over."""

    def __init__(self, log: logging.Logger, connector: Reporting | None = None, part: str = "") -> None:
        """Creates a throttled log without a problem.

        Args:
            log: Where to log.
            connector: The connector that waits while the problem lasts, and reports that to the gateway.
            part: Which part of it waits.
        """
        self._log = log
        self._connector = connector
        self._part = part
        self._problem: str | None = None
        self._repeats = Repeats()

    def report(self, problem: str) -> None:
        """Reports that this problem exists, or still exists."""
        if self._connector is not None:
            waits(self._connector, self._part, problem.removesuffix("; retrying"))
        if problem != self._problem:
            self._repeats.forget(problem)
            self._problem = problem
        if self._repeats.admit(problem) is not None:
            self._log.warning("%s", problem)

    def over(self, text: str) -> None:
        """Reports that the problem is over, if there was one."""
        if self._connector is not None:
            goes_on(self._connector, self._part)
        if self._problem is not None:
            self._log.info("%s", text)
            self._problem = None


class Retry:
    """Backoff between attempts to reach a system, with log messages.

    As a context manager, it ends with the work that is retried: whatever its result is, the connector no longer waits for it.
    """

    def __init__(self, what: str, connector: Reporting | None = None) -> None:
        """Creates the backoff of a connection; `what` names it in the log, and `connector` reports that it waits."""
        self._what = what
        self._connector = connector
        self._backoff = Backoff(FIRST_S, MAX_BACKOFF_S)
        self._log = ThrottledLog(log, connector, what)
        self._connected_at = math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._connector is not None:
            goes_on(self._connector, self._what)

    def connected(self) -> None:
        """Notes that an attempt has succeeded."""
        self._connected_at = min(self._connected_at, time.monotonic())
        self._log.over(f"{self._what}: connected again")

    async def wait(self, error: Exception) -> None:
        """Waits after an attempt has failed or a connection has broken.

        Raises:
            CancelledError: The task was cancelled earlier. Before Python 3.12, clients that use `asyncio.wait_for` may have
                swallowed the cancellation.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        if time.monotonic() - self._connected_at >= _STOOD_S:
            self._backoff.reset()
        self._connected_at = math.inf
        self._log.report(f"{self._what}: {error}; retrying")
        try:
            await asyncio.sleep(self._backoff.next())
        except asyncio.CancelledError:
            if self._connector is not None:
                goes_on(self._connector, self._what)
            raise
