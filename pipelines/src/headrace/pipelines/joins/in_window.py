"""The join of values that are in the same window."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from headrace.pipelines.joins.step import Join, Side
from headrace.pipelines.joins.waiting import Entry
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.time.time import END, in_words
from headrace.pipelines.windows.windows import Grid

_AT = attrgetter("at")


@dataclass(frozen=True, eq=False)
class JoinInWindow(Join):
    """Has each value of the left side meet all values of the right side that are in its window.

    Attributes:
        windows: The windows, which do not overlap.
    """

    windows: Grid

    @property
    def label(self) -> str:
        """The names of the methods that add it."""
        return "window join"

    @property
    def divided(self) -> str:
        """The windows, and how long they wait."""
        return f"{self.windows.described}, {in_words(self.left.held)} and {in_words(self.right.held)} late"

    @property
    def bound(self) -> Bound:
        """When windows are closed."""
        return Bound(f"values for {in_words(self.windows.size + self._held)} of event time at most (the window and delay)")

    def placed(self, of: Side, time: int, mark: int) -> tuple[int, int, bool]:
        """A late value, whose window its mark has closed, is in the oldest window that is open, or alone."""
        closed = mark - of.held
        is_late = self.windows.around(time)[1] <= closed
        at = self.windows.oldest(closed)[0] if is_late else time
        return at, self._closes(at), is_late

    def partners(self, left: Entry, rights: Sequence[Entry]) -> Sequence[int]:
        """All in its window."""
        start, end = self.windows.around(left.at)
        first = bisect_left(rights, start, key=_AT)
        return range(first, bisect_left(rights, end, first, key=_AT))

    def are_met(self, right: Entry, lefts: Sequence[int]) -> bool:
        """Whether one is in its window, which is due later only if windows had another size when it came."""
        start, end = self.windows.around(right.at)
        first = bisect_left(lefts, start)
        return first < len(lefts) and lefts[first] < end

    def expired(self, rights: Sequence[Entry], watermark: int) -> int:
        """Those whose windows are closed."""
        return bisect_left(rights, self.windows.around(watermark - self._held)[0], key=_AT)

    def expires(self, rights: Sequence[Entry]) -> int:
        """When the window of the first one closes."""
        return self._closes(rights[0].at) if rights else END

    def _closes(self, at: int) -> int:
        """The watermark at which everything in a window has arrived."""
        return self.windows.around(at)[1] + self._held

    @property
    def _held(self) -> int:
        return max(self.left.held, self.right.held)
