"""Tasks that belong to one session."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """Runs coroutines as tasks, and reports the errors that they raise."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        """Calls `failed` with each error that a task raises."""
        self._failed = failed
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a coroutine."""
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancels all running tasks, and returns them."""
        for task in self._tasks:
            task.cancel()
        return list(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Removes a finished task, and reports its error."""
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
