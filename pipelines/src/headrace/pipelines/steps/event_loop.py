"""The event loop of a process, on which async functions of applications run. It lives as long as the process."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class EventLoop:
    """An event loop in a thread of its own, and the clients that functions use on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clients: dict[str, asyncio.Task[Any]] = {}
        threading.Thread(target=self._loop.run_forever, name="headrace-async", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine, and returns its result. If the caller is interrupted, the coroutine is cancelled."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def client(self, token: str, setup: Callable[[], Any]) -> Any:
        """The client of a step, which is made once; again if that raised."""
        return self.run(self._client(token, setup))

    async def _client(self, token: str, setup: Callable[[], Any]) -> Any:
        if token not in self._clients:
            self._clients[token] = asyncio.create_task(_new_client(setup))
        task = self._clients[token]
        try:
            # One caller that is interrupted does not take it away from others.
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and self._clients.get(token) is task:
                del self._clients[token]
            raise


async def _new_client(setup: Callable[[], Any]) -> Any:
    try:
        found = setup()
        return await found if inspect.isawaitable(found) else found
    except (SystemExit, KeyboardInterrupt) as error:
        # These would end the loop.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


_LOOPS: dict[int, EventLoop] = {}
_LOCK = threading.Lock()


def event_loop() -> EventLoop:
    """The event loop of this process. A fork does not inherit the one of its parent, whose thread it does not have."""
    with _LOCK:
        process = os.getpid()
        if process not in _LOOPS:
            _LOOPS.clear()
            _LOOPS[process] = EventLoop()
        return _LOOPS[process]


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
