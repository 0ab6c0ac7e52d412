"""A bounded queue from the event loop to one consumer."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class Dropped(Exception):
    """The part was dropped, so its result is no longer needed."""

    def __init__(self) -> None:
        """Initializes the error."""
        super().__init__("the part was dropped")


class _End(Enum):
    """How a queue ended."""

    WHOLE = "all items have been put in"
    DROPPED = "dropped"


class Handoff(Generic[T]):
    """A queue from the event loop to one consumer, which is a thread or a task.

    `put` waits while the queued items reach the limit. A single item may exceed the limit.
    """

    def __init__(self, limit: int, moved: Callable[[], None] = lambda: None) -> None:
        """Creates an empty queue.

        Args:
            limit: The limit, in bytes.
            moved: Called, on any thread, when there is room again, and when the consumer starts to wait for items.
        """
        self._limit = limit
        self._moved = moved
        self._waiting = False
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
        """Puts an item in, regardless of the limit."""
        with self._changed:
            if self._end is None and not self._discarding:
                self._items.append((item, size))
                self._held += size
            self._changed.notify()
        self._ready.set()

    def end(self) -> None:
        """Marks the end: no more items follow."""
        self._finish(_End.WHOLE)

    def drop(self) -> None:
        """Makes the consumer's next step raise `Dropped`, unless it has already reached the end."""
        self._finish(_End.DROPPED)

    def discard(self) -> None:
        """Discards all items, and all that are put in later: the consumer is gone."""
        with self._changed:
            self._discarding = True
            self._items.clear()
            self._held = 0
        self._room.set()
        self._moved()

    @property
    def full(self) -> bool:
        """Whether the limit is reached and the items were not dropped."""
        return self._held >= self._limit and self._end is not _End.DROPPED

    @property
    def waiting(self) -> bool:
        """Whether the consumer is waiting for an item."""
        return self._waiting and not self._items and self._end is None

    @property
    def ended(self) -> bool:
        """Whether all items have been put in."""
        return self._end is _End.WHOLE

    @property
    def dropped(self) -> bool:
        """Whether the items were dropped."""
        return self._end is _End.DROPPED

    def items(self) -> Iterator[T]:
        """Yields the items, for a thread; blocks until there is one.

        Raises:
            Dropped: The items were dropped.
        """
        while True:
            with self._changed:
                if not self._items and self._end is None:
                    self._note_waiting()
                    self._changed.wait_for(lambda: self._items or self._end is not None)
                    self._waiting = False
                if not (item := self._take()):
                    return
            yield item[0]

    async def items_on_loop(self) -> AsyncIterator[T]:
        """Yields the items, for a task.

        Raises:
            Dropped: The items were dropped.
        """
        while True:
            with self._changed:
                idle = not self._items and self._end is None
                item = None if idle else self._take()
                self._ready.clear()
            if idle:
                self._note_waiting()
                await self._ready.wait()
                self._waiting = False
            elif item is None:
                return
            else:
                yield item[0]

    def _take(self) -> tuple[T, int] | None:
        """Removes and returns the next item; None at the end."""
        if self._end is _End.DROPPED:
            raise Dropped
        if not self._items:
            return None
        item = self._items.popleft()
        self._held -= item[1]
        if self._held < self._limit <= self._held + item[1]:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing is waiting
                self._loop.call_soon_threadsafe(self._make_room)
            self._moved()
        return item

    def _note_waiting(self) -> None:
        """Notes that the consumer is waiting for an item."""
        self._waiting = True
        self._moved()

    def _make_room(self) -> None:
        """Wakes a waiting `put`."""
        with self._changed:
            if self._held < self._limit:
                self._room.set()

    def _finish(self, end: _End) -> None:
        """Ends the queue; a drop overrides an end."""
        with self._changed:
            if self._end is not _End.DROPPED:
                self._end = end
            self._changed.notify()
        self._ready.set()
        if end is _End.DROPPED:
            self._room.set()
            self._moved()
