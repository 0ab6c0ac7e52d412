"""Cancels calls on an event loop that take too long, with one timer for all of them."""

import asyncio
from typing import Any

Task = asyncio.Task[Any]


class Watch:
    """The calls that run, each in a task, and when each of them is late.

    Args:
        timeout_s: How long a call may take, in seconds.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._begins: dict[Task, float] = {}
        """In the order in which they end, since all take as long."""
        self._late: set[Task] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, task: Task) -> None:
        """Begins a call in a task."""
        self._begins[task] = self._now()
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look)

    def end(self, task: Task) -> None:
        """Ends the call of a task, if it has not ended."""
        if self._begins.pop(task, None) is None and task in self._late:
            # It ended in spite of it.
            self._late.remove(task)
            task.uncancel()

    def reason(self, task: Task, error: BaseException) -> BaseException:
        """Why the call of a task has ended with an error.

        Raises:
            BaseException: The error, if the task is cancelled for another reason than its call.
        """
        if task.cancelling() > (task in self._late):
            raise error
        return TimeoutError(f"the call took longer than {self._timeout_s:g} s") if task in self._late else error

    def close(self) -> None:
        """Watches no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now, self._timer = self._now(), None
        for task, begin in list(self._begins.items()):
            end = begin + self._timeout_s
            if end > now:
                self._timer = self._loop.call_at(end, self._look)
                break
            del self._begins[task]
            self._late.add(task)
            task.cancel()
