"""The log of a supervisor itself, in a file beside the logs of its processes."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

from headrace.contract.counts import counted

MAX_WAITING_LINES = 500
"""How many lines wait for room in the pipe."""
_MAX_LINE = 16 << 10
"""How many characters of a line are kept."""


class SupervisorLog:
    """Takes lines of a supervisor, from any thread of it. No method waits, whatever the log writer does.

    The lines go through a pipe to the log writer, as the lines of a process do. Lines without room in the pipe wait here. Lines
    that find no room here either are counted, and a later line tells how many.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        """Takes what makes lines of a log."""
        self._formatter = formatter
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._left_out = 0
        self._pipe: int | None = None

    def write(self, line: str) -> None:
        """Takes a line for people."""
        with self._lock:
            self._take(line)
            self._pass_on()

    def flush(self, opened: Callable[[], int]) -> None:
        """Passes on what waits, as far as there is room.

        Args:
            opened: Returns a descriptor of the pipe that does not block, if this has none yet; may raise an OSError.
        """
        # Not under the lock: a failure in it writes to this log.
        pipe = opened() if self._pipe is None else None
        with self._lock:
            self._pipe = self._pipe if pipe is None else pipe
            self._pass_on()

    def close(self) -> None:
        """Closes the pipe."""
        with self._lock:
            if self._pipe is not None:
                os.close(self._pipe)
                self._pipe = None

    def _take(self, line: str) -> None:
        if len(self._waiting) >= MAX_WAITING_LINES:
            self._left_out += 1
            return
        self._tell_left_out()
        self._waiting.append(self._formatted(line))

    def _tell_left_out(self) -> None:
        if self._left_out:
            self._waiting.append(
                self._formatted(f"there was no room here for {counted(self._left_out, 'line')} of the supervisor")
            )
            self._left_out = 0

    def _pass_on(self) -> None:
        while self._pipe is not None and self._waiting:
            try:
                written = os.write(self._pipe, self._waiting[0])
            except BlockingIOError:
                return
            rest = self._waiting.popleft()[written:]
            if rest:
                self._waiting.appendleft(rest)
            if not self._waiting:
                self._tell_left_out()

    def _formatted(self, line: str) -> bytes:
        kept = line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}..."
        record = logging.LogRecord("headrace.deploy", logging.INFO, __file__, 0, "%s", (kept,), None)
        return self._formatter.format(record).encode(errors="backslashreplace") + b"\n"
