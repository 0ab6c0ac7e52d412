"""Passes what arrives on the event loop to whoever works on it, a bounded amount at a time."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class Dropped(Exception):
    """Nobody wants the result any more."""

    def __init__(self) -> None:
        """Says so."""
        super().__init__("the part was dropped")


class _End(Enum):
    """How a hand-off ended."""

    WHOLE = "all of it has been put in"
    DROPPED = "nobody wants it any more"


class Handoff(Generic[T]):
    """A queue between the event loop and one consumer, which is a thread or a task.

    Whoever puts in waits while more than a limit is held. A single item may be larger than the limit.
    """

    def __init__(self, limit: int, moved: Callable[[], None] = lambda: None) -> None:
        """Holds up to about `limit` bytes.

        Args:
            limit: In bytes.
            moved: Called, on any thread, where there is room again, and where the consumer has nothing more to work on.
        """
        self._limit = limit
        self._moved = moved
        self._starving = False
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._items: deque[tuple[T, int]] = deque()
        self._held = 0
        self._end: _End | None = None
        self._discarding = False
        self._room = asyncio.Event()
        self._ready = asyncio.Event()

    async def put(self, item: T, size: int) -> None:
        """Puts an item in, then waits until there is room for more."""
        self.offer(item, size)
        with self._changed:
            if full := self.full:
                self._room.clear()
        if full:
            await self._room.wait()

    def offer(self, item: T, size: int) -> None:
        """Puts an item in, whether there is room or not."""
        with self._changed:
            if self._end is None and not self._discarding:
                self._items.append((item, size))
                self._held += size
            self._changed.notify()
        self._ready.set()

    def end(self) -> None:
        """Says that this was all."""
        self._finish(_End.WHOLE)

    def drop(self) -> None:
        """Makes the consumer's next step raise `Dropped`, unless it has the end already."""
        self._finish(_End.DROPPED)

    def discard(self) -> None:
        """Throws away what is held and whatever is still put in: the consumer is gone."""
        with self._changed:
            self._discarding = True
            self._items.clear()
            self._held = 0
        self._room.set()
        self._moved()

    @property
    def full(self) -> bool:
        """True while more is held than shall be, and somebody may want it."""
        return self._held >= self._limit and self._end is not _End.DROPPED

    @property
    def starving(self) -> bool:
        """True while the consumer waits for more to come."""
        return self._starving and not self._items and self._end is None

    @property
    def ended(self) -> bool:
        """True once all has been put in."""
        return self._end is _End.WHOLE

    @property
    def dropped(self) -> bool:
        """True once nobody wants the result any more."""
        return self._end is _End.DROPPED

    def items(self) -> Iterator[T]:
        """The items, for a thread that waits for them.

        Raises:
            Dropped: Nobody wants the result any more.
        """
        while True:
            with self._changed:
                if not self._items and self._end is None:
                    self._starve()
                    self._changed.wait_for(lambda: self._items or self._end is not None)
                    self._starving = False
                if not (item := self._take()):
                    return
            yield item[0]

    async def items_on_loop(self) -> AsyncIterator[T]:
        """The items, for a task.

        Raises:
            Dropped: Nobody wants the result any more.
        """
        while True:
            with self._changed:
                idle = not self._items and self._end is None
                item = None if idle else self._take()
                self._ready.clear()
            if idle:
                self._starve()
                await self._ready.wait()
                self._starving = False
            elif item is None:
                return
            else:
                yield item[0]

    def _take(self) -> tuple[T, int] | None:
        """The next item; None at the end."""
        if self._end is _End.DROPPED:
            raise Dropped
        if not self._items:
            return None
        item = self._items.popleft()
        self._held -= item[1]
        if self._held < self._limit <= self._held + item[1]:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and nobody waits any more
                self._loop.call_soon_threadsafe(self._make_room)
            self._moved()
        return item

    def _starve(self) -> None:
        """Says that the consumer has nothing more to work on."""
        self._starving = True
        self._moved()

    def _make_room(self) -> None:
        """Lets whoever waits put more in."""
        with self._changed:
            if self._held < self._limit:
                self._room.set()

    def _finish(self, end: _End) -> None:
        """Ends it; being dropped has the last word."""
        with self._changed:
            if self._end is not _End.DROPPED:
                self._end = end
            self._changed.notify()
        self._ready.set()
        if end is _End.DROPPED:
            self._room.set()
            self._moved()
