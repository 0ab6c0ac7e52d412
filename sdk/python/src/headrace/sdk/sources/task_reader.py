"""The reader of an async source's partition."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from headrace.contract import clock
from headrace.sdk._errors import PositionLost
from headrace.sdk.calls import Calls
from headrace.sdk.sources.reader import BACKLOG_S, ReaderTask, source_failed
from headrace.sdk.sources.source import AsyncSource
from headrace.sdk.sources.unsendable import Unsendable
from headrace.sdk.wire import Close, Position

log = logging.getLogger("headrace.sdk")


class TaskReader:
    """Reads a partition of an async source in one task, and acknowledges in another."""

    def __init__(self, source: AsyncSource, task: ReaderTask, calls: Calls) -> None:
        """Starts the tasks."""
        self._calls = calls
        self._source = source
        self._task = task
        self._gather = task.gather
        self._position: Position | None = None
        self._tokens: list[object] = []
        self._undecided: tuple[Unsendable, Callable[[], None]] | None = None
        self._acknowledged = asyncio.Event()
        """Wakes the task that acknowledges."""
        self._news = asyncio.Event()
        """Wakes a source that has nothing, once an acknowledgement has arrived."""
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._stopped = False
        self._next_backlog = 0.0
        self._told_earlier = asyncio.Event()
        if task.acknowledged is not None:
            self.acknowledge(task.acknowledged, ())
        else:
            self._told_earlier.set()
        self._acknowledging = asyncio.create_task(self._acknowledge(), name=f"headrace acks of {task.stream}")
        self._reading = asyncio.create_task(self._read(), name=f"headrace {task.stream}")

    @property
    def working(self) -> Sequence[asyncio.Future[None]]:
        """As `Reader.working`."""
        return self._acknowledging, self._reading

    def pause(self) -> None:
        """As `Reader.pause`."""
        self._may_read.clear()

    def acknowledge(self, position: Position, tokens: Sequence[object]) -> None:
        """As `Reader.acknowledge`."""
        self._position = position
        self._tokens.extend(tokens)
        self._acknowledged.set()

    def decide(self, unsendable: Unsendable, left_out: Callable[[], None]) -> None:
        """As `Reader.decide`."""
        self._undecided = unsendable, left_out
        self._acknowledged.set()

    async def stop(self, give_up: asyncio.Event) -> None:
        """As `Reader.stop`."""
        self._stopped = True
        self._acknowledged.set()
        while not self._acknowledging.done():
            await asyncio.wait({self._acknowledging}, timeout=self._task.stuck_seconds)
            if give_up.is_set():
                break
        self._acknowledging.cancel()
        while True:
            # Again, since an iterator that takes a cancellation for an error of its own would read for ever, and no session end.
            self._reading.cancel()
            await asyncio.wait({self._acknowledging, self._reading}, timeout=self._task.stuck_seconds)
            if self._reading.done() or give_up.is_set():
                break
            log.warning("stream %s: read() has not ended for %s s after its cancellation; it must not catch CancelledError",
                        self._task.stream, self._task.stuck_seconds, extra={"stream": self._task.stream})  # fmt: skip

    def _called(self) -> AbstractContextManager[object]:
        return self._calls.on_task(f"stream {self._task.stream}", self._task.stream)

    async def _acknowledge(self) -> None:
        """Calls the source with acknowledgements, and with messages that cannot be sent, until the reader is stopped."""
        try:
            while True:
                position, tokens = self._position, self._tokens
                self._position, self._tokens = None, []
                if position is not None:
                    if tokens:
                        with self._called():
                            await self._source.settle(self._task.partition, tokens)
                    with self._called():
                        await self._source.acknowledged(self._task.partition, position)
                    self._told_earlier.set()
                    self._news.set()
                elif self._undecided is not None:
                    (unsendable, left_out), self._undecided = self._undecided, None
                    with self._called():
                        await self._source.unsendable(self._task.partition, unsendable.message, unsendable.error)
                    left_out()
                elif self._stopped:
                    return
                else:
                    await self._acknowledged.wait()
                self._acknowledged.clear()
        except Exception as error:
            self._task.ended_badly(source_failed(self._task, error))

    async def _read(self) -> None:
        """Reads until the source ends."""
        gather, last = self._gather, None
        await self._told_earlier.wait()
        try:
            iterator = self._source.read(self._task.partition, self._task.position)
            try:
                async for item in iterator:
                    if isinstance(item, Close):
                        last = item
                        break
                    if item is None:
                        await self._pass_idle_time()
                    elif gather.add(item):
                        # Not for each message, but where the sender is woken too.
                        if clock.monotonic() >= self._next_backlog:
                            await self._report_backlog(caught_up=False)
                        if gather.full:
                            await gather.room.wait()
                        elif gather.enough:
                            # An iterator that never waits must not starve the sender.
                            await asyncio.sleep(0)
                    if not self._may_read.is_set():
                        await self._may_read.wait()
            finally:
                close = getattr(iterator, "aclose", None)
                if close is not None:
                    await close()
            gather.end(last)
        except PositionLost as lost:
            self._task.ended_badly(lost)
        except Exception as error:
            self._task.ended_badly(source_failed(self._task, error))

    async def _pass_idle_time(self) -> None:
        """Waits `idle_seconds` after the source yielded None, or until an acknowledgement arrives."""
        # Cleared here: if it stayed set, a source that never waits itself would keep the event loop from everything else.
        self._news.clear()
        await self._report_backlog(caught_up=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._source.idle_seconds):
                await self._news.wait()

    async def _report_backlog(self, *, caught_up: bool) -> None:
        """Asks the source for its backlog, about once a second, or when it has just caught up."""
        now = clock.monotonic()
        if not (caught_up and self._gather.caught_up) or now >= self._next_backlog:
            self._next_backlog = now + BACKLOG_S
            with self._called():
                backlog = await self._source.backlog(self._task.partition)
            self._gather.report(backlog, caught_up=caught_up)
