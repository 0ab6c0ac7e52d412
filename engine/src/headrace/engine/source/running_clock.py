"""The clock by which event time advances while streams are quiet: it counts the time in which nothing could have been missed.

It stands while the application does not run or is paused, the gateway is away, or a stream has no connector. Otherwise a backlog
would be late once everything is there again.
"""

import time
from collections.abc import Callable

MAX_GAP_S = 10.0
"""How much of the time between two looks counts at most, in seconds, unless micro-batches are further apart."""


class RunningClock:
    """Counts the time between looks at which everything was there.

    Args:
        tick_s: After how much time a micro-batch without messages is due, in seconds; None for never.
        interval_s: The time between the starts of two micro-batches, in seconds.
        monotonic: Returns the time, in seconds.
    """

    def __init__(self, tick_s: float | None, interval_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._tick_s = tick_s
        self._max_gap_s = max(MAX_GAP_S, 2 * interval_s)
        self._looked_at: float | None = None
        self._passed_s = 0.0

    @property
    def is_needed(self) -> bool:
        """Whether anything needs the clock."""
        return self._tick_s is not None

    @property
    def is_due(self) -> bool:
        """Whether a micro-batch without messages is due."""
        return self._tick_s is not None and self._passed_s >= self._tick_s

    def look(self, *, is_complete: bool) -> None:
        """Counts the time since the last look, if everything was there then and is now."""
        now = self._monotonic()
        if is_complete and self._looked_at is not None:
            self._passed_s += min(now - self._looked_at, self._max_gap_s)
        self._looked_at = now if is_complete else None

    def take(self) -> int:
        """The time that has passed since it was last taken, in microseconds."""
        passed, self._passed_s = round(self._passed_s * 1_000_000), 0.0
        return passed
