"""The event loop of a process, on which async functions of applications run. It lives as long as the process."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.machine.ends import before_end
from headrace.pipelines.steps.per_process import ResultCache

R = TypeVar("R")


class EventLoop:
    """An event loop in a thread of its own, and the clients that functions use on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clients: dict[str, asyncio.Task[Any]] = {}
        self._caches: dict[str, ResultCache] = {}
        threading.Thread(target=self._loop.run_forever, name="headrace-async", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine, and returns its result. If the caller is interrupted, the coroutine is cancelled."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def client(self, token: str, setup: Callable[[], Any], teardown: Callable[[Any], Any] | None) -> Any:
        """The client of a step, which is made once; again if that raised. The process calls `teardown` with it before it ends."""
        return self.run(self._client(token, setup, teardown))

    def cache(self, token: str, ttl_s: float, size: int) -> ResultCache:
        """The results that a step keeps."""
        if token not in self._caches:
            self._caches[token] = ResultCache(ttl_s, size, self._loop.time)
        return self._caches[token]

    async def _client(self, token: str, setup: Callable[[], Any], teardown: Callable[[Any], Any] | None) -> Any:
        if token not in self._clients:
            self._clients[token] = asyncio.create_task(self._new_client(setup, teardown))
        task = self._clients[token]
        try:
            # One caller that is interrupted does not take it away from others.
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and self._clients.get(token) is task:
                del self._clients[token]
            raise

    async def _new_client(self, setup: Callable[[], Any], teardown: Callable[[Any], Any] | None) -> Any:
        found = await _result_of(setup)
        if teardown is not None:
            before_end(lambda: self.run(_result_of(teardown, found)))
        return found


async def _result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        found = function(*arguments)
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
