"""How many tasks read a micro-batch: as many as its size, or the time that its messages take, is worth."""

import time
from collections.abc import Callable
from math import ceil

from headrace.engine.source.ranges import MIN_TASK_WEIGHT

LONG_S = 1.0
"""One task reads a small micro-batch unless it would take longer than this, in seconds."""
TASK_S = 0.5
"""How long each task of a micro-batch takes that is divided because of its time, in seconds."""
_OVERHEAD_S = 0.2
"""What a micro-batch takes without any messages, in seconds, on a slow machine."""


class Parallelism:
    """Chooses the number of tasks for a query's micro-batches.

    A message may be small and slow: the time that each byte of the last micro-batches took counts, too.

    Args:
        most: The most tasks.
        interval_s: The time between the starts of two micro-batches, in seconds; 0 if one follows the other. One that ends within
            it need not be faster, and when it ended is unknown.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, most: int, interval_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._interval_s = interval_s
        self._clock = clock
        self._batch: tuple[float, int, int] | None = None
        self._last_two = (0.0, 0.0)
        """The seconds per byte of the last two micro-batches. One that is slow by itself, as the first is, divides none."""

    def tasks(self, size: int) -> int:
        """The number of tasks for a micro-batch of a size in bytes."""
        seconds = size * min(self._last_two)
        by_time = ceil(seconds / TASK_S) if seconds > LONG_S else 1
        return max(1, min(self._most, max(size // MIN_TASK_WEIGHT, by_time)))

    def begin(self, size: int, tasks: int) -> None:
        """Notes that a micro-batch of a size in bytes begins."""
        self._batch = self._clock(), size, tasks

    def end(self) -> None:
        """Notes that the micro-batch has ended."""
        if self._batch is None:
            return
        (begun, size, tasks), self._batch = self._batch, None
        took = self._clock() - begun
        if took <= self._interval_s or size == 0:
            return
        self._last_two = self._last_two[1], max(0.0, took - _OVERHEAD_S) * tasks / size
