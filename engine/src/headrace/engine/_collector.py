"""Keeps Python's cyclic garbage collector out of the way in Spark's worker processes."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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


def keep_what_there_is() -> None:
    """Has the collector never look again at what exists now: modules, and states that a worker holds.

    Spark collects after each task, which takes 55 ms for the imported modules alone. What is kept is still freed once nothing
    refers to it; only cycles among it are not.
    """
    gc.freeze()
