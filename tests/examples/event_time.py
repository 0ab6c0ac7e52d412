"""Windows by the book, for comparison: one loop that shares no code with the pipelines."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Windows:
    """Values by key and start of window.

    Attributes:
        size: How long a window is.
        every: How far apart windows begin.
        delay: How long after its end a window takes values.
        place: Whether late values go into the oldest open window.
    """

    size: timedelta
    every: timedelta
    delay: timedelta
    place: bool = False
    values: dict[tuple[Any, datetime], list[Any]] = field(default_factory=lambda: defaultdict(list))
    late: list[tuple[Any, datetime, Any]] = field(default_factory=list)
    """Key, start of the last window that it would have been in, and value, of values that went into none."""

    def take(self, rows: Iterable[tuple[Any, datetime, Any]]) -> None:
        """Takes all messages of a stream, in its order: key, time and value."""
        mark = EPOCH
        for key, time, value in rows:
            mark = max(mark, time)
            closed = mark - self.delay
            start = EPOCH + (time - EPOCH) // self.every * self.every
            last, found = start, False
            while start + self.size > time:
                if start + self.size > closed:
                    self.values[key, start].append(value)
                    found = True
                start -= self.every
            if found:
                continue
            if self.place:
                oldest = EPOCH + (closed - EPOCH) // self.every * self.every
                while oldest - self.every + self.size > closed:
                    oldest -= self.every
                self.values[key, oldest].append(value)
            else:
                self.late.append((key, last, value))
