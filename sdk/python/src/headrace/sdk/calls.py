"""Names the methods of a connector that have not returned for long, and where they stand, while the connector runs.

A thread of its own looks at all calls, so that it also sees a connector that blocks the event loop.
"""

import asyncio
import contextlib
import itertools
import logging
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from headrace.contract import clock
from headrace.sdk.wire import Reports

log = logging.getLogger("headrace.sdk")

_LOOKS_IN_TIME = 4
"""How often the thread looks within the time after which a call is named."""
_CALLERS = (str(Path(__file__).parent), str(Path(asyncio.events.__file__)))
"""Who calls methods of a connector: the SDK, and an event loop."""
_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen ")


class Call:
    """Calls of a thread or task, one after the other.

    Attributes:
        turn: Changed by whoever makes the calls whenever one begins or returns.
    """

    def __init__(self, where: str, stream: str, frames: Callable[[], list[FrameType]], progress: Callable[[], object]) -> None:
        """Begins with the first call.

        Args:
            where: Names the part of the connector in the log, such as `stream orders/0`.
            stream: The stream, if the calls concern one.
            frames: The frames of the thread or task, the innermost first.
            progress: Differs whenever the method has done something, such as yield an item.
        """
        self.where, self.stream = where, stream
        self.turn = 0
        self._frames, self._progress = frames, progress
        self._mark: object = None
        self._since = self._due = 0.0

    def overdue(self, now: float, seconds: float) -> str | None:
        """Returns what to tell of a method that has not returned for that time, and again after twice the time, and so on."""
        mark, frames = (self.turn, self._progress()), _of_connector(self._frames())
        if not frames or mark != self._mark:
            self._mark, self._since, self._due = mark, now, seconds
            return None
        if (took := now - self._since) < self._due:
            return None
        self._due = 2 * took
        return f"{frames[-1].f_code.co_qualname}() has not returned for {took:.1f} s; it stands {_places(frames)}"


class Calls:
    """The calls of one connector. Methods may be called on any thread."""

    def __init__(self, name: str, reports: Reports) -> None:
        """Nothing is looked at before `watched`.

        Args:
            name: Names the connector in the log, such as `source orders`.
            reports: Where methods that do not return are reported.
        """
        self._name, self._reports = name, reports
        self._calls: dict[int, Call] = {}
        self._over = threading.Event()

    @contextlib.contextmanager
    def on_thread(
        self, where: str | None = None, stream: str = "", progress: Callable[[], object] = lambda: None
    ) -> Iterator[Call]:
        """Yields the calls that this thread makes within the block."""
        own = threading.get_ident()
        with self._noted(Call(where or self._name, stream, lambda: _frames(sys._current_frames().get(own)), progress)) as call:
            yield call

    @contextlib.contextmanager
    def on_task(self, where: str | None = None, stream: str = "") -> Iterator[Call]:
        """Yields one call of a coroutine that this task awaits within the block."""
        task = asyncio.current_task()
        assert task is not None
        with self._noted(Call(where or self._name, stream, lambda: _awaited(task), lambda: None)) as call:
            yield call

    @contextlib.contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """Names, within the block, methods that have not returned for that time. On the thread of the event loop."""
        loop, own = asyncio.get_running_loop(), threading.get_ident()
        beats = 0

        def beat() -> None:
            nonlocal beats
            beats += 1

        loop_call = Call(self._name, "", lambda: _frames(sys._current_frames().get(own)), lambda: beats)

        def watch() -> None:
            while not self._over.wait(seconds / _LOOKS_IN_TIME):
                for call in [loop_call, *self._calls.copy().values()]:
                    if (sentence := call.overdue(clock.monotonic(), seconds)) is not None:
                        self._tell(call, sentence)
                with contextlib.suppress(RuntimeError):  # The loop is closed.
                    loop.call_soon_threadsafe(beat)

        watcher = threading.Thread(target=watch, name=f"headrace calls of {self._name}", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join()

    @contextlib.contextmanager
    def _noted(self, call: Call) -> Iterator[Call]:
        self._calls[id(call)] = call
        try:
            yield call
        finally:
            del self._calls[id(call)]

    def _tell(self, call: Call, sentence: str) -> None:
        extra = {"stream": call.stream} if call.stream else {}
        log.warning("%s: %s", call.where, sentence, extra=extra)
        self._reports.add_error(sentence, call.stream)


def _frames(innermost: FrameType | None) -> list[FrameType]:
    found = []
    while innermost is not None:
        found.append(innermost)
        innermost = innermost.f_back
    return found


def _awaited(task: "asyncio.Task[Any]") -> list[FrameType]:
    """Returns the frames of a task that waits, the innermost first."""
    found: list[FrameType] = []
    waits: Any = task.get_coro()
    while waits is not None:
        frame = getattr(waits, "cr_frame", None) or getattr(waits, "ag_frame", None) or getattr(waits, "gi_frame", None)
        if frame is not None:
            found.append(frame)
        waits = getattr(waits, "cr_await", None) or getattr(waits, "ag_await", None) or getattr(waits, "gi_yieldfrom", None)
    return found[::-1]


def _of_connector(frames: list[FrameType]) -> list[FrameType]:
    """Returns the frames of the connector, the innermost first; none where it waits for the SDK, such as for more rows."""
    found = list(itertools.takewhile(lambda frame: not frame.f_code.co_filename.startswith(_CALLERS), frames))
    # The SDK has called it, and it is no method of the connector.
    return found if found and not found[-1].f_code.co_filename.startswith(_LIBRARY) else []


def _places(frames: list[FrameType]) -> str:
    """Returns the line of the method, and the line at which the function waits that it has called."""
    method, inner = (f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in (frames[-1], frames[0]))
    return f"at {method}" if len(frames) == 1 else f"at {method}, which waits at {inner}"
