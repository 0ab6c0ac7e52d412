"""The windows that there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from headrace.pipelines._errors import GraphError
from headrace.pipelines._time import in_words, span

Bounds = tuple[int, int]
"""The start and the end of a window, in microseconds; the end is the first one after it."""


class Late(Enum):
    """What happens to a value whose windows are all closed."""

    DROP = "drop"
    """It is left out."""
    FIRE = "fire"
    """It makes a result of its own, at once: that of the last window that it would have been in."""
    PLACE_IN_OLDEST = "place-in-oldest"
    """It goes into the oldest window that is still open at its mark."""


@dataclass(frozen=True)
class Grid:
    """Windows that begin at every multiple of a span since 1970.

    Attributes:
        size: How long each is.
        every: How far apart they begin.
    """

    size: int
    every: int

    @property
    def described(self) -> str:
        """The windows in words."""
        return f"{in_words(self.size)} every {in_words(self.every)}"

    def around(self, time: int) -> Bounds:
        """The last window that a time is in."""
        start = time - time % self.every
        return start, start + self.size

    def open(self, time: int, closed: int) -> Sequence[Bounds]:
        """The windows that a time is in, the last one first, of those that end after `closed`."""
        start = time - time % self.every
        if self.every == self.size:
            end = start + self.size
            return ((start, end),) if end > closed else ()
        after = max(time, closed) - self.size
        return [(begin, begin + self.size) for begin in range(start, after, -self.every)]

    def oldest(self, closed: int) -> Bounds:
        """The first window that ends after `closed`."""
        start = ((closed - self.size) // self.every + 1) * self.every
        return start, start + self.size


@dataclass(frozen=True)
class Session:
    """Windows that end where no value came for so long.

    Attributes:
        gap: How long, in microseconds.
    """

    gap: int

    @property
    def described(self) -> str:
        """The windows in words."""
        return f"sessions with gaps of {in_words(self.gap)}"

    def around(self, time: int) -> Bounds:
        """The session of one value."""
        return time, time + self.gap

    def oldest(self, closed: int) -> Bounds:
        """The session of the earliest value that is not late."""
        return self.around(closed - self.gap + 1)


@dataclass(frozen=True)
class Count:
    """Windows of so many values of a key."""

    values: int


def tumbling(size: timedelta | str) -> Grid:
    """Windows one after the other, each so long."""
    found = span(size, "a window's size")
    return Grid(found, found)


def sliding(size: timedelta | str, every: timedelta | str) -> Grid:
    """Windows that overlap: each so long, and a new one begins `every` so often."""
    grid = Grid(span(size, "a window's size"), span(every, "how often a window begins"))
    if grid.every > grid.size:
        raise GraphError(f"windows of {size!r} that begin every {every!r} leave gaps: values would be in no window")
    return grid


def session(gap: timedelta | str) -> Session:
    """Windows that end when a key had no value for so long."""
    return Session(span(gap, "a session's gap"))


def count_window(values: int) -> Count:
    """Windows of so many values of a key, one after the other. They need no event times."""
    if values < 1:
        raise GraphError(f"a window must count at least one value, and counts {values}")
    return Count(values)
