"""Messages from clients that do not store them: held in memory until they are in the checkpoint, and resent after a fault."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.sdk import Backlog, Batch, Message

T = TypeVar("T", bound=Message | Batch)


@dataclass(eq=False, slots=True)
class Ticket:
    """A group of messages that were received together. It is the token of the last one.

    Attributes:
        messages: The number of messages.
        bytes: Their size, in bytes.
        settled: Done once all of them are in the checkpoint; None if nothing waits for it.
        wanted: False if the waiting client has disconnected, and will send them again.
    """

    messages: int
    bytes: int
    settled: asyncio.Future[None] | None = None
    wanted: bool = True


class Room:
    """The limit on the messages and bytes that are held at the same time."""

    def __init__(self, messages: int, bytes_: int, on_room: Callable[[], None] = lambda: None) -> None:
        """Begins empty.

        Args:
            messages: Maximum number of messages.
            bytes_: Maximum number of bytes.
            on_room: Called whenever room is released.
        """
        self.messages = 0
        self.bytes = 0
        self._max_messages = messages
        self._max_bytes = bytes_
        self._on_room = on_room

    @property
    def full(self) -> bool:
        """Whether nothing more should be accepted."""
        return self.messages >= self._max_messages or self.bytes >= self._max_bytes

    def is_full_besides(self, messages: int, bytes_: int) -> bool:
        """Whether nothing more should be accepted even without these, which have their place in it."""
        return self.messages - messages >= self._max_messages or self.bytes - bytes_ >= self._max_bytes

    def take(self, messages: int, bytes_: int) -> None:
        """Reserves room; sizes that are known only afterwards may exceed the limit."""
        self.messages += messages
        self.bytes += bytes_

    def give(self, messages: int, bytes_: int) -> None:
        """Releases room."""
        self.messages -= messages
        self.bytes -= bytes_
        self._on_room()


class Inbox(Generic[T]):
    """The received messages of one stream that are not yet in the checkpoint."""

    def __init__(self, room: Room) -> None:
        """Begins empty."""
        self.is_read = False
        """Whether a query currently reads the stream."""
        self._room = room
        self._waiting: OrderedDict[Ticket, T] = OrderedDict()
        self._open_tickets: OrderedDict[Ticket, T] = OrderedDict()
        self._arrived = asyncio.Event()

    def put(self, ticket: Ticket, item: T) -> None:
        """Adds received messages, and reserves room for them; `item` has the ticket as the token of its last message."""
        self._room.take(ticket.messages, ticket.bytes)
        self._waiting[ticket] = item
        self._arrived.set()

    async def items(self) -> AsyncIterator[T | None]:
        """Yields all unsettled messages, in order, then new ones; None whenever there are none. For `read` of a source."""
        self._begin_again()
        self.is_read = True
        try:
            while True:
                while self._waiting:
                    ticket, item = self._waiting.popitem(last=False)
                    self._open_tickets[ticket] = item
                    yield item
                yield None
                self._arrived.clear()
                if not self._waiting:
                    await self._arrived.wait()
        finally:
            self.is_read = False

    def backlog(self) -> Backlog:
        """Returns how much waits to be read."""
        return Backlog(
            messages=sum(ticket.messages for ticket in self._waiting), bytes=sum(ticket.bytes for ticket in self._waiting)
        )

    def settle(self, tokens: Iterable[object]) -> None:
        """Removes messages that are in the checkpoint, and notifies their waiters."""
        for token in tokens:
            assert isinstance(token, Ticket)
            if self._open_tickets.pop(token, None) is not None:
                self._room.give(token.messages, token.bytes)
            if token.settled is not None and not token.settled.done():
                token.settled.set_result(None)

    def refuse(self, token: object, error: Exception) -> None:
        """Removes messages that cannot be sent, and notifies their waiters of the reason."""
        assert isinstance(token, Ticket)
        if self._open_tickets.pop(token, None) is not None:
            self._room.give(token.messages, token.bytes)
        if token.settled is not None and not token.settled.done():
            token.settled.set_exception(error)

    def abandon(self, ticket: Ticket) -> None:
        """Removes the messages of a client that disconnected while it waited, unless a query already has them."""
        ticket.wanted = False
        if self._waiting.pop(ticket, None) is not None:
            self._room.give(ticket.messages, ticket.bytes)

    def _begin_again(self) -> None:
        """Requeues the messages that a lost session has read, before all others."""
        again, self._open_tickets = self._open_tickets, OrderedDict()
        for ticket, item in reversed(again.items()):
            if ticket.wanted:
                self._waiting[ticket] = item
                self._waiting.move_to_end(ticket, last=False)
            else:
                self._room.give(ticket.messages, ticket.bytes)
