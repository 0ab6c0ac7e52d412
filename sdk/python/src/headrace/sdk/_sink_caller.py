"""Calls the methods of a sink: on threads where they block, on the event loop where they are coroutines."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

Method = Callable[..., Any]


class Caller(Protocol):
    """How the methods of a sink are called."""

    async def call(self, method: Method, *arguments: object) -> Any:
        """Calls a method after those before it have returned. Cancelling the wait does not interrupt a method that runs."""

    async def call_aside(self, method: Method, *arguments: object) -> Any:
        """Calls a method at the same time as others. Cancelling the wait does not interrupt it."""

    def close(self) -> None:
        """Lets go of what runs."""


class ThreadCaller:
    """Calls methods that block: in order on one thread, or aside on a thread of their own."""

    def __init__(self, name: str) -> None:
        """Starts the thread."""
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Method, tuple[object, ...]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=f"headrace sink {name}", daemon=True).start()

    async def call(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call`."""
        future: Future[Any] = Future()
        self._calls.put((future, method, arguments))
        return await asyncio.wrap_future(future)

    async def call_aside(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call_aside`."""
        future: Future[Any] = Future()
        # Not of a pool, whose threads would keep a process that wants to exit.
        threading.Thread(
            target=_settle, args=(future, method, arguments), name=f"headrace sink {self._name} aside", daemon=True
        ).start()
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Ends the thread once what was asked of it is done."""
        self._calls.put(None)

    def _run(self) -> None:
        """Calls one method after the other."""
        while (call := self._calls.get()) is not None:
            _settle(*call)


class TaskCaller:
    """Calls coroutines: in order, or aside."""

    def __init__(self) -> None:
        """Starts with none."""
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()

    async def call(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call`."""
        began = False

        async def in_turn() -> Any:
            nonlocal began
            async with self._turn:
                began = True
                return await method(*arguments)

        task = self._start(in_turn())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not began:
                task.cancel()
            raise

    async def call_aside(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call_aside`."""
        return await asyncio.shield(self._start(method(*arguments)))

    def close(self) -> None:
        """Cancels what still runs."""
        for task in self._running:
            task.cancel()

    def _start(self, work: Any) -> asyncio.Task[Any]:
        """Runs a coroutine, and keeps it alive."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        """Lets go of a task; where nobody waits for it any more, its error is nobody's either."""
        self._running.discard(task)
        if not task.cancelled():
            task.exception()


def _settle(future: Future[Any], method: Method, arguments: tuple[object, ...]) -> None:
    """Calls a method, unless nobody waits for it any more, and completes the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(method(*arguments))
    except StopIteration as error:
        future.set_exception(RuntimeError(f"StopIteration: {error}"))  # a future takes it for something else
    except BaseException as error:
        future.set_exception(error)
