"""Limits the time that Python's cyclic garbage collector takes in Spark's worker processes, which collect after each task."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FULL_EVERY_S = 600.0
"""The shortest time between two full collections, in seconds."""
FULL_SHARE = 100
"""The time between two full collections is also at least this many times the duration of the last one: at most 1 % of the
time."""

_frozen = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disables the cyclic collector inside the block: while many values are created at once, it would rescan all of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_modules() -> None:
    """Excludes all present objects, mostly modules, from further collections. Only the first call in a process has an effect.

    Spark collects after each task, which takes 55 ms for the imported modules alone. Freezing in every task would also freeze
    the objects of that task, which contain cycles: they would never be freed, and the process would grow with each task.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.freeze()


class TaskGarbage:
    """Collects the garbage of a worker's tasks between them, when nothing of the last task is in use.

    The survivors are modules, and states that the worker caches. They are frozen, so that the next collection examines new
    objects only. Cycles among survivors that become garbage later are freed by an occasional full collection.

    Args:
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: float | None = None

    def collect(self) -> None:
        """Collects garbage, and freezes the survivors."""
        began = self._clock()
        is_full = self._full_at is None or began >= self._full_at
        if is_full:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        if is_full:
            ended = self._clock()
            self._full_at = ended + max(FULL_EVERY_S, FULL_SHARE * (ended - began))
