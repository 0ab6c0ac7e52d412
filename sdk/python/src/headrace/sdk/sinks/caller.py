"""Calls the methods of a sink: on threads if they block, on the event loop if they are coroutines."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from headrace.sdk.calls import Calls

Method = Callable[..., Any]


class Caller(Protocol):
    """How the methods of a sink are called."""

    async def call(self, method: Method, *arguments: object) -> Any:
        """Calls a method after earlier calls have returned. Cancelling the wait does not interrupt a running method."""

    async def call_concurrently(self, method: Method, *arguments: object) -> Any:
        """Calls a method concurrently with others. Cancelling the wait does not interrupt it."""

    async def idle(self) -> None:
        """Returns once no method runs. Perhaps nobody waits for its result: what can be cancelled is cancelled."""

    def close(self) -> None:
        """Closes the caller, without waiting for running methods."""


class ThreadCaller:
    """Calls blocking methods: in order on one thread, or concurrently on separate threads."""

    def __init__(self, name: str, watch: Calls) -> None:
        """Starts the thread."""
        self._watch = watch
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Method, tuple[object, ...]] | None] = queue.SimpleQueue()
        self._concurrent: set[Future[Any]] = set()
        threading.Thread(target=self._run, name=f"headrace sink {name}", daemon=True).start()

    async def call(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call`."""
        future: Future[Any] = Future()
        self._calls.put((future, method, arguments))
        return await asyncio.wrap_future(future)

    async def call_concurrently(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call_concurrently`."""
        future: Future[Any] = Future()
        self._concurrent.add(future)
        future.add_done_callback(self._concurrent.discard)
        # A pool's threads would keep the process from exiting.
        threading.Thread(
            target=self._run_one, args=(future, method, arguments), name=f"headrace sink {self._name} concurrent", daemon=True
        ).start()
        return await asyncio.wrap_future(future)

    async def idle(self) -> None:
        """As `Caller.idle`."""
        await self.call(lambda: None)
        if running := list(self._concurrent):
            await asyncio.wait([asyncio.wrap_future(future) for future in running])

    def close(self) -> None:
        """Ends the thread after the queued calls."""
        self._calls.put(None)

    def _run(self) -> None:
        """Runs the queued calls, one after the other."""
        with self._watch.on_thread() as watched:
            while (call := self._calls.get()) is not None:
                watched.turn += 1
                _run_call(*call)

    def _run_one(self, future: Future[Any], method: Method, arguments: tuple[object, ...]) -> None:
        """Runs a call on a thread of its own."""
        with self._watch.on_thread():
            _run_call(future, method, arguments)


class TaskCaller:
    """Calls coroutines: in order, or concurrently."""

    def __init__(self, watch: Calls) -> None:
        """Begins without calls."""
        self._watch = watch
        self._turn = asyncio.Lock()
        self._running: dict[asyncio.Task[Any], None] = {}

    async def call(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call`."""
        began = False

        async def in_turn() -> Any:
            nonlocal began
            async with self._turn:
                began = True
                with self._watch.on_task():
                    return await method(*arguments)

        task = self._start(in_turn())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not began:
                task.cancel()
            raise

    async def call_concurrently(self, method: Method, *arguments: object) -> Any:
        """As `Caller.call_concurrently`."""

        async def call() -> Any:
            with self._watch.on_task():
                return await method(*arguments)

        return await asyncio.shield(self._start(call()))

    async def idle(self) -> None:
        """As `Caller.idle`."""
        self.close()
        if running := list(self._running):
            await asyncio.wait(running)

    def close(self) -> None:
        """Cancels the calls in progress."""
        for task in self._running:
            task.cancel()

    def _start(self, work: Any) -> asyncio.Task[Any]:
        """Runs a coroutine as a task, and keeps a reference to it."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        """Removes a finished task, and retrieves its error, since its caller may have been cancelled."""
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()


def _run_call(future: Future[Any], method: Method, arguments: tuple[object, ...]) -> None:
    """Calls a method, unless its caller was cancelled, and completes the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(method(*arguments))
    except StopIteration as error:
        future.set_exception(RuntimeError(f"StopIteration: {error}"))  # a future cannot raise StopIteration
    except BaseException as error:
        future.set_exception(error)
