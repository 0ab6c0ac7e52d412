"""The clock of micro-batches: it never runs backwards, and continues where the machine's clock is behind it."""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

WARNED_US = 1_000_000
"""How far the machine's clock is behind before that is logged, in microseconds."""
BEHIND = (
    "the machine's clock is %s behind the time at which the micro-batch before was planned: "
    "timers by the clock and early results continue from that time"
)

log = logging.getLogger("headrace.engine")


class PresentClock:
    """Tells when each micro-batch of a run is planned, in microseconds since 1970.

    Args:
        fields: The fields of log lines.
        wall: Returns the machine's clock, in nanoseconds since 1970.
        monotonic: Returns a time that nobody sets, in nanoseconds.
    """

    def __init__(
        self,
        fields: Mapping[str, object],
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._fields, self._wall, self._monotonic = fields, wall, monotonic
        self._planned: int | None = None
        self._has_warned = False

    def now(self, before: int | None) -> tuple[int, int]:
        """When a micro-batch is planned, and the machine's clock.

        Args:
            before: When the micro-batch before was planned; None for the first one.
        """
        wall, monotonic = self._wall() // 1000, self._monotonic() // 1000
        # The first micro-batch of a run does not know how much time has passed.
        passed = 0 if self._planned is None else monotonic - self._planned
        self._planned = monotonic
        if before is None or wall >= before:
            return wall, wall
        if not self._has_warned and before - wall >= WARNED_US:
            self._has_warned = True
            log.warning(BEHIND, timedelta(microseconds=before - wall), extra=dict(self._fields))
        return before + passed, wall
