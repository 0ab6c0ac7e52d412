"""Detects changes of files: one loop checks all watched files, rarely enough that thousands of them cost little."""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LOOKS_PER_SECOND = 2_000
_SOONEST_S = 0.02

State = tuple[int, int, int] | None


def state_of(path: Path | str) -> State:
    """Returns a value that differs once a file has changed or was replaced; None if the file does not exist."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


class _Thread:
    """A thread for calls, one after the other. It keeps no process from ending, even in a call that never returns."""

    def __init__(self) -> None:
        """Starts the thread."""
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="headrace files", daemon=True).start()

    def submit(self, function: Callable[[], T]) -> "Future[T]":
        """Calls a function on the thread, after the calls before it."""
        future: Future[T] = Future()
        self._calls.put((future, function))
        return future

    def end(self) -> None:
        """Ends the thread after its pending calls."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            del call, future, function  # a reader that is closed is not kept until the next call


class Watch:
    """The thread of a file source, and the loop that checks whether files have changed."""

    def __init__(self) -> None:
        """Creates the watch, without starting anything."""
        self._thread: _Thread | None = None
        self._waiting: dict[asyncio.Future[None], tuple[Path, State]] = {}
        self._asleep: dict[Path, asyncio.Future[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function on the thread, which is started if necessary."""
        if self._thread is None:
            self._thread = _Thread()
        return await asyncio.wrap_future(self._thread.submit(partial(function, *args, **kwargs)))

    def soon(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Schedules a function on the thread, without waiting for it."""
        if self._thread is not None:
            self._thread.submit(partial(function, *args, **kwargs))

    def rest(self) -> None:
        """Ends the thread after its pending calls; it is restarted when it is needed."""
        if self._thread is not None:
            self._thread.end()
            self._thread = None

    async def changed(self, path: Path, state: State, seconds: float) -> None:
        """Waits until a file is no longer in a state, for a limited time."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = path, state
        self._asleep[path] = future
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="headrace watches files")
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            del self._waiting[future]
            if self._asleep.get(path) is future:
                del self._asleep[path]
            if not self._waiting:
                await self._end()

    def wake(self, path: Path) -> None:
        """Ends the wait for a file."""
        future = self._asleep.get(path)
        if future is not None and not future.done():
            future.set_result(None)

    async def _look(self) -> None:
        """Checks all watched files repeatedly."""
        while True:
            await asyncio.sleep(max(_SOONEST_S, len(self._waiting) / _LOOKS_PER_SECOND))
            waiting = list(self._waiting.items())
            for future in await self.run(_changed, waiting):
                if not future.done():
                    future.set_result(None)

    async def _end(self) -> None:
        """Ends the loop, unless it is needed again by then."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            # Not awaited by itself: its cancellation would look like a cancellation of this wait, which must not be lost.
            await asyncio.wait({looking})


def _changed(waiting: "list[tuple[asyncio.Future[None], tuple[Path, State]]]") -> "list[asyncio.Future[None]]":
    """Returns the waits whose file is no longer in its state."""
    return [future for future, (path, state) in waiting if state_of(path) != state]
