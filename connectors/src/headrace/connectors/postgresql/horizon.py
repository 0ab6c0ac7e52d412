"""Determines which rows of a growing table are final, so that no row can still appear before them. Pure functions."""

from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Barrier:
    """Rows that become final once some transactions have ended."""

    newest: int
    running: Set[str]


class Horizon:
    """The limit up to which a table can be read without ever skipping a row.

    Numbers are generated in order, but transactions commit in any order: a row may appear before one that has long been visible.
    A transaction that generates a number is visible as running from before that until after its row is visible. So first read the
    largest visible number, and then the running transactions. Once all of them have ended, rows up to that number are visible, or
    never will be. A number whose transaction was rolled back leaves a gap, and needs no further treatment.
    """

    def __init__(self) -> None:
        """Creates a horizon without final rows."""
        self.all_final_to = 0
        """Snapshots taken after the last check show all rows up to this number that will ever exist."""
        self.newest = 0
        """The largest number that was seen so far."""
        self._barrier: _Barrier | None = None

    def look(self, newest: int, running: Set[str]) -> None:
        """Evaluates a check of the table.

        Args:
            newest: The largest visible number; 0 if there was none.
            running: The transactions that were running after that.
        """
        self.newest = max(self.newest, newest)
        if self._barrier is not None and not self._barrier.running & running:
            self.all_final_to = max(self.all_final_to, self._barrier.newest)
            self._barrier = None
        if not running:
            self.all_final_to = self.newest
        elif self._barrier is None and self.newest > self.all_final_to:
            self._barrier = _Barrier(self.newest, frozenset(running))

    def final(self, after: int, numbers: Sequence[int]) -> int:
        """Returns the number of final rows among the visible rows after a final one.

        Args:
            after: Everything up to this number has been read.
            numbers: The numbers of the rows that follow, increasing strictly, from a snapshot taken after the last look.
        """
        count = bisect_right(numbers, self.all_final_to)
        base = max(after, self.all_final_to)
        # Consecutive numbers are final, whichever transactions run. A missing number ends the sequence.
        return bisect_right(range(len(numbers)), 0, lo=count, key=lambda at: numbers[at] - base - 1 - (at - count))
