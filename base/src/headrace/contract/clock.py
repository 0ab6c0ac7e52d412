"""The one clock of the gateway and the SDK, which read the time only here, so that a test or a simulation can set it."""

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol, TypeVar


class Clock(Protocol):
    """Tells the time."""

    def monotonic(self) -> float:
        """Returns seconds since a moment of its own; it never goes back."""

    def now_ns(self) -> int:
        """Returns the time of day, in nanoseconds since 1970 in UTC; it jumps when somebody sets the clock."""


class _Machine:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ns(self) -> int:
        return time.time_ns()


_clock: Clock = _Machine()
_Other = TypeVar("_Other", bound=Clock)


def monotonic() -> float:
    """Returns seconds since a moment of the clock's own; it never goes back."""
    return _clock.monotonic()


def now() -> float:
    """Returns the time of day, in seconds since 1970 in UTC; it jumps when somebody sets the clock."""
    return _clock.now_ns() / 1e9


def now_ns() -> int:
    """Returns the time of day, in nanoseconds since 1970 in UTC."""
    return _clock.now_ns()


@contextlib.contextmanager
def use(clock: _Other) -> Iterator[_Other]:
    """Reads the time from another clock, in the whole process, until the block ends."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield clock
    finally:
        _clock = before
