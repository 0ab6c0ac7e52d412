"""Bodies that are arriving: what has arrived of them has its place in the room, and the slowest give way to others."""

import asyncio
import contextlib
import time

from headrace.connectors.inbox import Room

_PATIENCE_S = 1.0
"""How long a body may arrive before it gives way to others, if there is no room."""


class Arrival:
    """A body that is arriving. Entered, it has its place in the room."""

    __slots__ = ("_arrivals", "began", "bytes", "gives_way", "limit")

    def __init__(self, arrivals: "Arrivals") -> None:
        """Begins with nothing."""
        self.limit: asyncio.Timeout
        """What ends its wait for the rest."""
        self.began = time.monotonic()
        self.bytes = 0
        self.gives_way = False
        """Whether it must end, so that others find room."""
        self._arrivals = arrivals

    def __enter__(self) -> "Arrival":
        """Takes its place."""
        self._arrivals.room.take(1, 0)
        self._arrivals.there[self] = None
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves its place."""
        self._arrivals.there.pop(self, None)
        self._arrivals.room.give(1, self.bytes)

    def has(self, bytes_: int) -> bool:
        """Takes note of how much has arrived; returns whether there is room for more."""
        self._arrivals.room.take(0, bytes_ - self.bytes)
        self.bytes = bytes_
        if self._arrivals.room.is_full_besides(1, bytes_) and not self._arrivals.give_way():
            self.gives_way = True
        return not self.gives_way


class Arrivals:
    """The bodies that are arriving, the first one first."""

    def __init__(self, room: Room) -> None:
        """Takes the room that they share with the messages that wait."""
        self.room = room
        self.there: dict[Arrival, None] = {}
        """The bodies that may be asked to give way."""

    def give_way(self) -> bool:
        """Ends the wait for the body that has been arriving longest; returns whether one has had its time."""
        first = next(iter(self.there), None)
        if first is None or time.monotonic() - first.began < _PATIENCE_S:
            return False
        del self.there[first]
        first.gives_way = True
        # It fails if the time of this body is over anyway.
        with contextlib.suppress(RuntimeError):
            first.limit.reschedule(asyncio.get_running_loop().time())
        return True
