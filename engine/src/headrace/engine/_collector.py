"""Keeps Python's cyclic garbage collector quick in Spark's worker processes, which collect after each task."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FULL_EVERY_S = 600.0
"""So long at least lies between two collections that look at everything."""
FULL_SHARE = 100
"""And so many times as long as the last one took, so that they take no more than a hundredth of the time."""

_frozen = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collects no cycles meanwhile: many values and states come into being at once, and it would look at all again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_modules() -> None:
    """Has the collector never look again at what exists now, which is mostly modules; only the first call in a process counts.

    Spark collects after each task, which takes 55 ms for the imported modules alone. While a task runs, what belongs to it
    exists, too, and is full of cycles: frozen in each task, it would never be freed, and the process would grow with each.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.freeze()


class TaskGarbage:
    """What tasks leave behind in a worker, collected between them, when nothing of the last one is used any more.

    What survives is modules, and states that the worker holds. It is frozen, so that the next collection looks only at what is
    new. A cycle among it that is let go of later is found by a collection that looks at everything, which comes now and then.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: float | None = None

    def collect(self) -> None:
        """Collects, and freezes what is left."""
        began = self._clock()
        is_full = self._full_at is None or began >= self._full_at
        if is_full:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        if is_full:
            ended = self._clock()
            self._full_at = ended + max(FULL_EVERY_S, FULL_SHARE * (ended - began))
