"""Calls that block, made from an event loop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Calls:
    """Makes calls one after the other on a thread of its own, which keeps no process that wants to exit."""

    def __init__(self, name: str) -> None:
        """Starts the thread."""
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Makes a call. Cancelling the wait does not interrupt a call that is being made."""
        future: Future[R] = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return await asyncio.wrap_future(future)

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Ends the thread once what was asked of it is done, and `last` after that. Waits for nothing."""
        if last is not None:
            self._calls.put((Future(), last))
        self._calls.put(None)

    def _run(self) -> None:
        """Makes one call after the other."""
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
