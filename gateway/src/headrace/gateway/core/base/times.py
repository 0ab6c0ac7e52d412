"""Time as the gateway measures it: the longest of some durations, and whether somebody has set the clock of the machine."""

from dataclasses import dataclass

from headrace.contract import clock

JUMP_S = 1.0
"""A smaller difference is no jump: time services correct a clock in small steps."""
REPORTED_S = 60.0
"""How long a jump is reported that nobody takes back."""


@dataclass(slots=True)
class Longest:
    """The longest of some durations, in seconds, until it is taken."""

    seconds: float | None = None

    def note(self, seconds: float) -> None:
        """Notes a duration."""
        if self.seconds is None or seconds > self.seconds:
            self.seconds = seconds

    def take(self) -> float | None:
        """Returns the longest duration since it was last taken, in seconds; None if there was none."""
        found, self.seconds = self.seconds, None
        return found


class ClockJumps:
    """Checks the clock of this machine once a second. Nothing in the gateway depends on it, except the times that it shows."""

    def __init__(self) -> None:
        """Begins with the clock as it is."""
        self._offset = _offset()
        self._jump_s = 0.0
        self._jumped_at = 0.0

    def check(self) -> None:
        """Looks for a jump. Adds it to the last one, so that a clock that is set right again has not jumped."""
        offset = _offset()
        moved, self._offset = offset - self._offset, offset
        if abs(moved) >= JUMP_S:
            self._jump_s += moved
            self._jumped_at = clock.monotonic()
        if abs(self._jump_s) < JUMP_S or clock.monotonic() - self._jumped_at >= REPORTED_S:
            self._jump_s = 0.0

    @property
    def jump(self) -> tuple[int, int] | None:
        """By how much the clock was set, and how long ago, in milliseconds; None if it was not."""
        if not self._jump_s:
            return None
        return round(self._jump_s * 1000), int((clock.monotonic() - self._jumped_at) * 1000)


def _offset() -> float:
    """Returns how far the time of day is ahead of the monotonic clock, in seconds."""
    return clock.now() - clock.monotonic()
