"""The functions that a process calls before it ends in order, also where it ends with `os._exit`, as Spark's workers do."""

import atexit
import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

MAX_WAIT_S = 10.0
"""How long a process waits for them, in seconds."""

log = logging.getLogger("headrace.machine")
_functions: list[tuple[int, Callable[[], object]]] = []


class _Caller:
    """A thread that calls functions once it is asked to. It is there before, since Python 3.12 starts none while it ends."""

    def __init__(self) -> None:
        self._calls = SimpleQueue[list[Callable[[], object]]]()
        self._have_ended = threading.Event()
        threading.Thread(target=self._run, name="headrace-ends", daemon=True).start()

    def call(self, functions: list[Callable[[], object]], longest_s: float) -> bool:
        """Returns whether all have ended in time."""
        self._calls.put(functions)
        return self._have_ended.wait(longest_s)

    def _run(self) -> None:
        for function in self._calls.get():
            try:
                function()
            except BaseException:
                log.warning("a function that a process calls before it ends has failed", exc_info=True)
        self._have_ended.set()


_callers: dict[int, _Caller] = {}


def before_end(function: Callable[[], object]) -> None:
    """Has this process call a function before it ends in order. A process that it forks does not call it."""
    if os.getpid() not in _callers:
        _callers[os.getpid()] = _Caller()
    _functions.append((os.getpid(), function))


def call_all(longest_s: float = MAX_WAIT_S) -> None:
    """Calls the functions, the last one first, each of them once. What one raises is logged, and one that hangs is left."""
    mine = [function for process, function in reversed(_functions) if process == os.getpid()]
    _functions.clear()
    if mine and not (_callers.pop(os.getpid(), None) or _Caller()).call(mine, longest_s):
        log.warning("the process ends although a function that it calls before has not ended in %g s", longest_s)


atexit.register(call_all)
