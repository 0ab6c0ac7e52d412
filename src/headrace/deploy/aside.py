"""Lines for a reader who may pause, such as a terminal that is held, or a journal that has stopped."""

import threading
from collections import deque
from collections.abc import Callable

from headrace.contract.counts import counted
from headrace.deploy.comfort import regardless
from headrace.log_writer import Disk

MAX_WAITING_LINES = 1_000


class Aside:
    """Writes lines on a thread of its own, so that the supervisor does not wait for their reader.

    Lines that find no room are counted, and a later line tells how many. Nobody learns of an error in `write`.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        """Takes what writes a line."""
        self._write = regardless(write)
        self._thread = Disk()
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._left_out = 0

    def __call__(self, line: str) -> None:
        """Takes a line."""
        with self._lock:
            if len(self._waiting) >= MAX_WAITING_LINES:
                self._left_out += 1
            else:
                self._tell_left_out()
                self._waiting.append(line)
        self._thread.do(self._write_waiting)

    def close(self, within_s: float) -> None:
        """Waits until all is written, at most for a time in seconds."""
        self._thread.close(within_s)

    def _write_waiting(self) -> None:
        while (line := self._next()) is not None:
            self._write(line)

    def _next(self) -> str | None:
        with self._lock:
            if not self._waiting:
                self._tell_left_out()
            return self._waiting.popleft() if self._waiting else None

    def _tell_left_out(self) -> None:
        if self._left_out:
            self._waiting.append(f"{counted(self._left_out, 'line', 'is')} missing here, since nobody has read them")
            self._left_out = 0
