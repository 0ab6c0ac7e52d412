"""The longest of some durations since somebody last took it."""

from dataclasses import dataclass


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
