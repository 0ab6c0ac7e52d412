"""A thread for what may wait for a disk, or for a reader, so that nobody else does."""

import threading
import time
from collections.abc import Callable

PATIENCE_S = 1.0
"""How long one action may take before callers stop waiting for it."""
THREAD = "log disk"
"""The name of the threads."""
HANGS_AFTER_S = 5.0
"""How long one action may take before it is named."""


class Disk:
    """Does each requested action, one after the other, on a thread of its own. The same action is due once only.

    An action that raises an error ends the thread; the next call raises that error.
    """

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._changed = threading.Condition()
        self._due: dict[Callable[[], None], None] = {}
        self._works = False
        self._began = 0.0
        """When the present action has begun; while none has, when the first one was due."""
        self._is_late = False
        self._ends = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_late(self) -> bool:
        """Whether an action has taken too long, and not all has been done since."""
        return self._is_late

    @property
    def hangs(self) -> bool:
        """Whether an action has not ended for a while."""
        with self._changed:
            return self._is_busy and time.monotonic() - self._began >= HANGS_AFTER_S

    def do(self, action: Callable[[], None]) -> None:
        """Lets the thread do something, after what is due already."""
        with self._changed:
            self._raise_error()
            if not self._is_busy:
                self._began = time.monotonic()
            self._due[action] = None
            self._changed.notify_all()
            if self._thread is not None or self._started():
                return
            self._due.clear()
        # The system has no room for a thread.
        action()

    def catch_up(self, late_s: float = 0.0) -> bool:
        """Waits until all is done, or one action takes too long.

        Args:
            late_s: How long to wait at most if one has taken too long already, in seconds.

        Returns:
            Whether all is done.
        """
        with self._changed:
            if self._is_late:
                self._is_late = not self._changed.wait_for(lambda: not self._is_busy, late_s)
            while self._is_busy and not self._is_late:
                left_s = self._began + PATIENCE_S - time.monotonic()
                self._is_late = left_s <= 0
                self._changed.wait(max(0.0, left_s))
            self._raise_error()
            return not self._is_late

    def close(self, within_s: float | None) -> bool:
        """Waits until all is done, and ends the thread. One that hangs is left behind.

        Args:
            within_s: How long to wait at most, in seconds; None for as long as it takes.

        Returns:
            Whether all is done.
        """
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(within_s)
            if self._thread.is_alive():
                return False
        self._raise_error()
        return True

    @property
    def _is_busy(self) -> bool:
        return bool(self._works or self._due)

    def _started(self) -> bool:
        thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except Exception as error:
                with self._changed:
                    self._error = error
                    self._due.clear()
            with self._changed:
                self._works = False
                self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """Waits for the next action; None if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._ends)
            action = next(iter(self._due), None)
            if action is not None and self._error is None:
                del self._due[action]
                self._works, self._began = True, time.monotonic()
                return action
            return None
