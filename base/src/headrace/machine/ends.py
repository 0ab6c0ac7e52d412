"""The functions that a process calls before it ends in order, also where it ends with `os._exit`, as Spark's workers do."""

import atexit
import logging
import os
import threading
from collections.abc import Callable

LONGEST_S = 10.0
"""How long a process waits for them, in seconds."""

log = logging.getLogger("headrace.machine")
_functions: list[tuple[int, Callable[[], object]]] = []


def before_end(function: Callable[[], object]) -> None:
    """Has this process call a function before it ends in order. A process that it forks does not call it."""
    _functions.append((os.getpid(), function))


def call_all(longest_s: float = LONGEST_S) -> None:
    """Calls the functions, the last one first, each of them once. What one raises is logged, and one that hangs is left."""
    mine = [function for process, function in reversed(_functions) if process == os.getpid()]
    _functions.clear()
    if not mine:
        return
    calls = threading.Thread(target=_call, args=(mine,), name="headrace-ends", daemon=True)
    calls.start()
    calls.join(longest_s)
    if calls.is_alive():
        log.warning("the process ends although a function that it calls before has not ended in %g s", longest_s)


def _call(functions: list[Callable[[], object]]) -> None:
    for function in functions:
        try:
            function()
        except BaseException:
            log.warning("a function that a process calls before it ends has failed", exc_info=True)


atexit.register(call_all)
