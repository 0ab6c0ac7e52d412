"""One direction of a call: messages arrive in order, each after a delay, and wait until they are read."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import grpc

from headrace.simulation.loop import Loop, Process

MAX_QUEUE: Final = 10**9


class End:
    """The end of the messages."""


END: Final = End()


@dataclass(frozen=True)
class Status:
    """How a call ended."""

    code: grpc.StatusCode
    details: str = ""
    trailing: tuple[tuple[str, str | bytes], ...] = field(default=())


Item = bytes | Status | End


class Pipe:
    """Carries messages to a process."""

    def __init__(self, loop: Loop, reader: Process, delay: Callable[[], float], window: int) -> None:
        """Creates a pipe.

        Args:
            loop: The loop.
            reader: The process that reads.
            delay: Returns how long a message takes, in seconds.
            window: How many messages may be under way or unread.
        """
        self._loop = loop
        self._reader = reader
        self._delay = delay
        self.window = window
        self.items = deque[Item]()
        self.last_arrival = 0.0
        self.is_cut = False
        """Whether nothing more arrives."""
        self.has_ended = False
        """Whether nothing follows what has arrived."""
        self._under_way = 0
        self._waiting: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []

    def send(self, item: Item) -> None:
        """Sends a message."""
        self.last_arrival = max(self.last_arrival + 1e-9, self._loop.now + self._delay())
        self._under_way += 1
        self._loop.call_at(self.last_arrival, self._arrive, item, context=self._reader.context)

    async def room(self) -> None:
        """Waits until a message can be sent; returns at once when nobody reads."""
        while self._under_way + len(self.items) >= self.window and not self.is_cut and not self.has_ended:
            waiting = self._loop.create_future()
            self._writers.append(waiting)
            await waiting

    async def get(self) -> Item:
        """Returns the next message; END if there is none."""
        while not self.items:
            if self.has_ended:
                return END
            self._waiting = self._loop.create_future()
            await self._waiting
        item = self.items.popleft()
        self._wake_writers()
        return item

    def end(self) -> None:
        """Ends it: what has arrived can still be read."""
        self.has_ended = True
        self._wake_reader()
        self._wake_writers()

    def cut(self) -> None:
        """Loses what is under way and what is still sent."""
        self.is_cut = True
        self._wake_writers()

    def _arrive(self, item: Item) -> None:
        self._under_way -= 1
        if self.is_cut:
            return
        if item is END:
            self.has_ended = True
        else:
            self.items.append(item)
        self._wake_reader()

    def _wake_reader(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for waiting in writers:
            if not waiting.done():
                waiting.set_result(None)
