"""What was received from clients that do not keep it: held in memory until it is in the checkpoint, given again after a fault."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.sdk import Batch, Message

T = TypeVar("T", bound=Message | Batch)


@dataclass(eq=False, slots=True)
class Ticket:
    """Stands for what was received at once; it is the token of its last message.

    Attributes:
        messages: How many messages that is.
        bytes: How much room they take.
        settled: Done once all of them are in the checkpoint; None where nobody waits for that.
        wanted: False where whoever waited has gone, and will send it again.
    """

    messages: int
    bytes: int
    settled: asyncio.Future[None] | None = None
    wanted: bool = True


class Room:
    """How much may be held at the same time."""

    def __init__(self, messages: int, bytes_: int, made: Callable[[], None] = lambda: None) -> None:
        """Begins empty.

        Args:
            messages: How many messages there is room for.
            bytes_: How many bytes there is room for.
            made: Called whenever something has been let go of.
        """
        self.messages = 0
        self.bytes = 0
        self._max_messages = messages
        self._max_bytes = bytes_
        self._made = made

    @property
    def full(self) -> bool:
        """Whether nothing more should be taken."""
        return self.messages >= self._max_messages or self.bytes >= self._max_bytes

    def take(self, messages: int, bytes_: int) -> None:
        """Takes room; what is known only afterwards may take more than there is."""
        self.messages += messages
        self.bytes += bytes_

    def give(self, messages: int, bytes_: int) -> None:
        """Gives it back."""
        self.messages -= messages
        self.bytes -= bytes_
        self._made()


class Inbox(Generic[T]):
    """What was received for one stream and is not in the checkpoint yet."""

    def __init__(self, room: Room) -> None:
        """Begins empty."""
        self.is_read = False
        """Whether a query reads it now."""
        self._room = room
        self._waiting: OrderedDict[Ticket, T] = OrderedDict()
        self._given: OrderedDict[Ticket, T] = OrderedDict()
        self._arrived = asyncio.Event()

    def put(self, ticket: Ticket, item: T) -> None:
        """Adds what was received, and takes room for it; `item` has the ticket as the token of its last message."""
        self._room.take(ticket.messages, ticket.bytes)
        self._waiting[ticket] = item
        self._arrived.set()

    async def items(self) -> AsyncIterator[T | None]:
        """All that is not settled, in order, then what arrives; None whenever there is nothing left. What `read` gives back."""
        self._begin_again()
        self.is_read = True
        try:
            while True:
                while self._waiting:
                    ticket, item = self._waiting.popitem(last=False)
                    self._given[ticket] = item
                    yield item
                yield None
                self._arrived.clear()
                if not self._waiting:
                    await self._arrived.wait()
        finally:
            self.is_read = False

    def settle(self, tokens: Iterable[object]) -> None:
        """Lets go of what is in the checkpoint, and tells who waits for it."""
        for token in tokens:
            assert isinstance(token, Ticket)
            if self._given.pop(token, None) is not None:
                self._room.give(token.messages, token.bytes)
            if token.settled is not None and not token.settled.done():
                token.settled.set_result(None)

    def refuse(self, token: object, error: Exception) -> None:
        """Lets go of what cannot be taken, and tells who waits for it why."""
        assert isinstance(token, Ticket)
        if self._given.pop(token, None) is not None:
            self._room.give(token.messages, token.bytes)
        if token.settled is not None and not token.settled.done():
            token.settled.set_exception(error)

    def abandon(self, ticket: Ticket) -> None:
        """Whoever waited for it has gone: it is not given any more, unless a query has it already."""
        ticket.wanted = False
        if self._waiting.pop(ticket, None) is not None:
            self._room.give(ticket.messages, ticket.bytes)

    def _begin_again(self) -> None:
        """Puts back what a lost session was given, before all else."""
        again, self._given = self._given, OrderedDict()
        for ticket, item in reversed(again.items()):
            if ticket.wanted:
                self._waiting[ticket] = item
                self._waiting.move_to_end(ticket, last=False)
            else:
                self._room.give(ticket.messages, ticket.bytes)
