"""Event time of quiet streams, which follows the clock.

The clock counts the time in which the application ran and every stream had a connector, and is in the checkpoint: a micro-batch
that is repeated finds the same time. While the streams that reach the same steps have no element, their marks advance some time
behind it, as if each had an element without a value. So later values are not late if they take no longer than that to arrive.
"""

from dataclasses import dataclass

from headrace.pipelines.elements.message import NO_TIME


@dataclass
class Quiet:
    """When the streams that reach the same steps were last heard of.

    Attributes:
        behind: How far event time is behind the clock, in microseconds; None if it does not follow it.
        since: The clock in the last micro-batch with an element; None if the clock has not been seen since.
        furthest: The largest mark of all streams then.
    """

    behind: int | None = None
    since: int | None = None
    furthest: int = NO_TIME

    def hear(self) -> None:
        """Notes that a stream has an element, or is waited for from now on."""
        self.since = None

    def mark(self, clock: int, furthest: int) -> int:
        """The mark that the streams have at least; NO_TIME while they are not quiet for long enough.

        Args:
            clock: The clock in this micro-batch, in microseconds.
            furthest: The largest mark of all streams.
        """
        if self.since is None:
            self.since, self.furthest = clock, furthest
        if self.behind is None or self.furthest == NO_TIME or clock - self.since < self.behind:
            return NO_TIME
        return self.furthest + clock - self.since - self.behind
