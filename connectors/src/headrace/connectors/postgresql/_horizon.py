"""Which rows of a growing table are final, so that nothing can appear before them any more. Pure."""

from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Barrier:
    """Rows that become final once some transactions have ended."""

    newest: int
    running: Set[str]


class Horizon:
    """Up to where a table can be read without ever skipping a row.

    Numbers are drawn in order, but transactions commit in any order: a row may appear before one that has long been visible.
    Whoever draws a number can be seen running from before the draw until after the row is visible. So look at the largest number
    that is visible, and after that at who is running: once all of these have ended, rows up to that number are visible, or never
    will be. A number whose transaction was rolled back leaves a gap, and needs no other care.
    """

    def __init__(self) -> None:
        """Begins with nothing final."""
        self.settled = 0
        """Snapshots taken after the last look show all rows up to this number that will ever exist."""
        self.newest = 0
        """The largest number that was seen."""
        self._barrier: _Barrier | None = None

    def look(self, newest: int, running: Set[str]) -> None:
        """Takes in a look at the table.

        Args:
            newest: The largest number that was visible; 0 where there was none.
            running: The transactions that ran after that.
        """
        self.newest = max(self.newest, newest)
        if self._barrier is not None and not self._barrier.running & running:
            self.settled = max(self.settled, self._barrier.newest)
            self._barrier = None
        if not running:
            self.settled = self.newest
        elif self._barrier is None and self.newest > self.settled:
            self._barrier = _Barrier(self.newest, frozenset(running))

    def final(self, after: int, numbers: Sequence[int]) -> int:
        """How many of the visible rows after a final one are final.

        Args:
            after: Everything up to this number has been read.
            numbers: The numbers of the rows that follow, increasing strictly, from a snapshot taken after the last look.
        """
        count = bisect_right(numbers, self.settled)
        base = max(after, self.settled)
        # Rows whose numbers leave nothing out are final, whoever runs. What is left out shifts all that follows.
        return bisect_right(range(len(numbers)), 0, lo=count, key=lambda at: numbers[at] - base - 1 - (at - count))
