"""Readers of partitions: they call the source's methods, on a thread for a blocking source, in tasks for an async one."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.contract import clock
from headrace.contract.errors import HeadraceError
from headrace.sdk._errors import PositionLost, SourceFailed
from headrace.sdk.calls import Call, Calls
from headrace.sdk.sources.gather import ADDED, ENDED, Gather
from headrace.sdk.sources.source import Source
from headrace.sdk.sources.unsendable import Unsendable
from headrace.sdk.wire import Close, Position

log = logging.getLogger("headrace.sdk")

BACKLOG_S = 1.0


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """The arguments of a reader.

    Attributes:
        stream: The stream's name, for errors.
        partition: The partition.
        position: The position after which to read; None for the first message.
        acknowledged: The position that was acknowledged before, or None.
        gather: The buffer for items.
        ended_badly: Called on the event loop with the error when the source raised; the reader has then ended.
        stuck_seconds: How long to wait for a source that does not yield.
    """

    stream: str
    partition: str
    position: Position | None
    acknowledged: Position | None
    gather: Gather
    ended_badly: Callable[[HeadraceError], None]
    stuck_seconds: float


class Reader(Protocol):
    """Reads one partition, and passes acknowledgements to its source."""

    @property
    def working(self) -> Sequence[asyncio.Future[None]]:
        """Done once no method of the source runs for the partition."""

    def pause(self) -> None:
        """Stops reading items, but continues to deliver acknowledgements."""

    def acknowledge(self, position: Position, tokens: Sequence[object]) -> None:
        """Schedules the calls of `settle` and `acknowledged`."""

    def decide(self, unsendable: Unsendable, left_out: Callable[[], None]) -> None:
        """Schedules the call of `unsendable` for a message; if it returns, `left_out` is called on the event loop."""

    async def stop(self, give_up: asyncio.Event) -> None:
        """Delivers pending acknowledgements, closes the iterator, and waits until it is closed.

        If `give_up` is set, abandons it after about `ReaderTask.stuck_seconds`.
        """


def source_failed(task: ReaderTask, error: BaseException) -> HeadraceError:
    """Returns the error that ends the connector when its source raises `error`."""
    if isinstance(error, HeadraceError) and not isinstance(error, PositionLost):
        return type(error)(f"stream {task.stream}: {error}")
    failure = SourceFailed(f"stream {task.stream}: the source raised {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


class ThreadReader:
    """Reads a partition of a blocking source on one thread, which also makes every other call for the partition."""

    _call: Call
    """The calls of the thread."""

    def __init__(self, source: Source, task: ReaderTask, calls: Calls) -> None:
        """Starts the thread."""
        self._calls = calls
        self._source = source
        self._task = task
        self._gather = task.gather
        self._condition = task.gather.condition
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        # Guarded by the condition; `attention` of the buffer is set when one of them has changed.
        self._paused = False
        self._stopped = False
        self._position = task.acknowledged
        self._tokens: list[object] = []
        self._undecided: tuple[Unsendable, Callable[[], None]] | None = None
        self._next_backlog = 0.0
        self._thread = threading.Thread(target=self._main, name=f"headrace {task.stream}", daemon=True)
        self._thread.start()

    @property
    def working(self) -> Sequence[asyncio.Future[None]]:
        """As `Reader.working`."""
        return (self._closed,)

    def pause(self) -> None:
        """As `Reader.pause`."""
        with self._condition:
            self._paused = self._gather.attention = True
            self._condition.notify_all()

    def acknowledge(self, position: Position, tokens: Sequence[object]) -> None:
        """As `Reader.acknowledge`."""
        with self._condition:
            self._position = position
            self._tokens.extend(tokens)
            self._gather.attention = True
            self._condition.notify_all()

    def decide(self, unsendable: Unsendable, left_out: Callable[[], None]) -> None:
        """As `Reader.decide`."""
        with self._condition:
            self._undecided = unsendable, left_out
            self._gather.attention = True
            self._condition.notify_all()

    async def stop(self, give_up: asyncio.Event) -> None:
        """As `Reader.stop`."""
        with self._condition:
            self._stopped = self._gather.attention = True
            self._condition.notify_all()
        while not self._closed.done():
            await asyncio.wait({self._closed}, timeout=self._task.stuck_seconds)
            if not self._closed.done():
                log.warning("stream %s: read() has not yielded for %s s; it must yield None when there is nothing",
                            self._task.stream, self._task.stuck_seconds,
                            extra={"stream": self._task.stream})  # fmt: skip
                if give_up.is_set():
                    return

    def _main(self) -> None:
        """Runs the thread."""
        stream = self._task.stream
        try:
            with self._calls.on_thread(f"stream {stream}", stream, self._gather.progress) as self._call:
                self._deliver()
                if self._read():
                    self._wait_stopped()
        except BaseException as error:  # the connector must be notified of any error
            failure = error if isinstance(error, _Lost) else source_failed(self._task, error)
            self._post(self._task.ended_badly, failure.lost if isinstance(failure, _Lost) else failure)
        finally:
            self._post(self._closed.set_result, None)

    def _read(self) -> bool:
        """Reads until the source ends, returning True, or the reader is stopped, returning False."""
        gather, last = self._gather, None
        if not self._attend():
            return False
        try:
            iterator = self._source.read(self._task.partition, self._task.position)
            try:
                items = iter(iterator)
                # Most messages are added within `add_plain`: the clock is read only where the sender is woken too.
                while (item := gather.add_plain(items)) is not ENDED:
                    if item is None:
                        self._pass_idle_time()
                    elif isinstance(item, Close):
                        last = item
                        break
                    elif (item is ADDED or gather.add(item)) and clock.monotonic() >= self._next_backlog:
                        self._report_backlog(caught_up=False)
                    if (gather.attention or gather.full) and not self._attend():
                        return False
            finally:
                close = getattr(iterator, "close", None)
                if close is not None:
                    close()
        except PositionLost as lost:
            raise _Lost(lost) from lost
        gather.end(last)
        return True

    def _attend(self) -> bool:
        """Delivers acknowledgements, and waits while the reader is paused or full. Returns False if it was stopped."""
        self._call.turn += 1
        while True:
            self._deliver()
            with self._condition:
                if self._has_news:
                    continue
                if self._stopped:
                    return False
                if not self._paused and not self._gather.full:
                    self._gather.attention = False
                    return True
                self._condition.wait(BACKLOG_S)
            if clock.monotonic() >= self._next_backlog and not self._paused:
                self._report_backlog(caught_up=False)

    def _wait_stopped(self) -> None:
        """Delivers acknowledgements until the reader is stopped."""
        while True:
            self._deliver()
            with self._condition:
                if not self._has_news:
                    if self._stopped:
                        return
                    self._condition.wait()

    @property
    def _has_news(self) -> bool:
        """Whether a call to the source is pending; guarded by the condition."""
        return self._position is not None or self._undecided is not None

    def _deliver(self) -> None:
        """Calls the source with pending acknowledgements, and with the message that cannot be sent."""
        with self._condition:
            position, tokens, undecided = self._position, self._tokens, self._undecided
            self._position, self._tokens, self._undecided = None, [], None
        if position is not None:
            if tokens:
                self._source.settle(self._task.partition, tokens)
                self._call.turn += 1
            self._source.acknowledged(self._task.partition, position)
            self._call.turn += 1
        if undecided is not None:
            unsendable, left_out = undecided
            self._source.unsendable(self._task.partition, unsendable.message, unsendable.error)
            self._call.turn += 1
            self._post(left_out)

    def _pass_idle_time(self) -> None:
        """Waits `idle_seconds` after the source yielded None, or until something needs attention."""
        self._call.turn += 1
        self._report_backlog(caught_up=True)
        deadline = clock.monotonic() + self._source.idle_seconds
        with self._condition:
            while not self._gather.attention and (left := deadline - clock.monotonic()) > 0:
                self._condition.wait(left)

    def _report_backlog(self, *, caught_up: bool) -> None:
        """Asks the source for its backlog, about once a second, or when it has just caught up."""
        now = clock.monotonic()
        if not (caught_up and self._gather.caught_up) or now >= self._next_backlog:
            self._next_backlog = now + BACKLOG_S
            self._gather.report(self._source.backlog(self._task.partition), caught_up=caught_up)
            self._call.turn += 1

    def _post(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls a function on the event loop, unless the loop is closed: an abandoned thread may outlive it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


class _Lost(Exception):
    """Wraps a PositionLost from `read`, to distinguish it from one that another method raised."""

    def __init__(self, loss: PositionLost) -> None:
        """Wraps `loss`."""
        super().__init__(str(loss))
        self.lost = loss
