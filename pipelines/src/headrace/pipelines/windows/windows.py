"""The kinds of windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.time.time import in_words, span

Bounds = tuple[int, int]
"""The start (inclusive) and the end (exclusive) of a window, in microseconds."""

MAX_OVERLAPPING = 100_000
"""How many windows may contain a value, which is added to each of them."""


@dataclass(frozen=True)
class Grid:
    """Windows that start at every multiple of a duration since 1970.

    Attributes:
        size: The length of each, in microseconds.
        every: The time between the starts of two, in microseconds.
    """

    size: int
    every: int

    @property
    def described(self) -> str:
        """The windows in words."""
        return f"{in_words(self.size)} every {in_words(self.every)}"

    def around(self, time: int) -> Bounds:
        """Returns the last window that contains a time."""
        start = time - time % self.every
        return start, start + self.size

    def open(self, time: int, closed: int) -> Sequence[Bounds]:
        """Returns the windows that contain a time and end after `closed`, the last one first."""
        start = time - time % self.every
        if self.every == self.size:
            end = start + self.size
            return ((start, end),) if end > closed else ()
        after = max(time, closed) - self.size
        return [(begin, begin + self.size) for begin in range(start, after, -self.every)]

    def oldest(self, closed: int) -> Bounds:
        """Returns the first window that ends after `closed`."""
        start = ((closed - self.size) // self.every + 1) * self.every
        return start, start + self.size


@dataclass(frozen=True)
class Session:
    """Windows that end after a gap without values.

    Attributes:
        gap: The gap, in microseconds.
    """

    gap: int

    @property
    def described(self) -> str:
        """The windows in words."""
        return f"sessions with gaps of {in_words(self.gap)}"

    def around(self, time: int) -> Bounds:
        """Returns the session of a single value."""
        return time, time + self.gap

    def oldest(self, closed: int) -> Bounds:
        """Returns the session of the earliest value that is not late."""
        return self.around(closed - self.gap + 1)


@dataclass(frozen=True)
class Count:
    """Windows of a number of values of a key.

    Attributes:
        values: The number of values.
        ttl: The event time without a value after which an incomplete window produces its result, in microseconds; None for never.
        clock_ttl: The same by the clock.
    """

    values: int
    ttl: int | None = None
    clock_ttl: int | None = None


def tumbling(size: timedelta | str) -> Grid:
    """Returns consecutive windows of the same length.

    Args:
        size: The length: a timedelta, or text such as "5 minutes".

    Raises:
        GraphError: `size` is not a positive duration.
    """
    found = span(size, "tumbling(...): size")
    return Grid(found, found)


def sliding(size: timedelta | str, every: timedelta | str) -> Grid:
    """Returns overlapping windows of the same length.

    Args:
        size: The length: a timedelta, or text such as "5 minutes".
        every: The time between the starts of two windows, at most `size`.

    Raises:
        GraphError: `size` or `every` are not positive durations, `every` is longer than `size`, or more than 100,000 windows
            overlap.
    """
    grid = Grid(span(size, "sliding(...): size"), span(every, "sliding(...): every"))
    if grid.size // grid.every > MAX_OVERLAPPING:
        raise GraphError(
            f"sliding(...): windows of {size!r} that start every {every!r} contain each value {grid.size // grid.every:,} times; "
            f"at most {MAX_OVERLAPPING:,} may overlap"
        )
    if grid.every > grid.size:
        raise GraphError(
            f"sliding(...): windows of {size!r} that start every {every!r} leave gaps: some values would not be in any window"
        )
    return grid


def session(gap: timedelta | str) -> Session:
    """Returns windows that end when a key has no value for some time.

    Args:
        gap: The time without values, in event time: a timedelta, or text such as "30 minutes".

    Raises:
        GraphError: `gap` is not a positive duration.
    """
    return Session(span(gap, "session(...): gap"))


def count_window(values: int, *, ttl: timedelta | str | None = None, clock_ttl: timedelta | str | None = None) -> Count:
    """Returns consecutive windows of a number of values of a key. Without `ttl`, they do not depend on event time.

    An incomplete window produces its result at the end of event time.

    Args:
        values: The number of values, at least 1.
        ttl: The event time without a value of the key after which an incomplete window produces its result: a timedelta, or text
            such as "1 hour". By default, it waits for more values.
        clock_ttl: The same by the clock: after the micro-batch of the last value, by when micro-batches were planned. A value
            in the micro-batch in which the window would end is in it, also after an outage.

    Raises:
        GraphError: `values` is not a whole number, or less than 1, a duration is not positive, or both are given.
    """
    where = "count_window(...)"
    size = check.count(where, "values", values)
    lives = None if ttl is None else span(ttl, f"{where}: ttl")
    by_clock = None if clock_ttl is None else span(clock_ttl, f"{where}: clock_ttl")
    if lives is not None and by_clock is not None:
        raise GraphError(f"{where}: pass either ttl, by event time, or clock_ttl, by the clock")
    return Count(size, lives, by_clock)
