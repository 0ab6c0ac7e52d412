"""Blocking calls from an event loop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Calls:
    """Makes calls sequentially on a separate daemon thread."""

    def __init__(self, name: str) -> None:
        """Starts the thread."""
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Makes a call and returns its result. Cancellation does not interrupt a running call."""
        future: Future[R] = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return await asyncio.wrap_future(future)

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Ends the thread after the pending calls, and then `last`. Does not wait."""
        if last is not None:
            self._calls.put((Future(), last))
        self._calls.put(None)

    def _run(self) -> None:
        """Makes the calls, on the thread."""
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
