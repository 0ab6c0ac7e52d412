"""The join of values whose event times are close to each other."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from headrace.pipelines.joins.step import Join
from headrace.pipelines.joins.waiting import Entry
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.time.time import END, in_words

_AT = attrgetter("at")


@dataclass(frozen=True, eq=False)
class JoinWithin(Join):
    """Has each value of the left side meet all values of the right side around its event time.

    Attributes:
        before: How long before it, in microseconds.
        after: How long after it, in microseconds.
    """

    before: int
    after: int

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "join_within"

    @property
    def divided(self) -> str:
        """Which values meet, and how long they wait."""
        spans = f"from {in_words(self.before)} before to {in_words(self.after)} after"
        return f"{spans}, {in_words(self.left.held)} and {in_words(self.right.held)} late"

    @property
    def bound(self) -> Bound:
        """How long values of each side wait."""
        wait, both = self.after + self.right.held, self.before + self.left.held
        left, right = in_words(wait), in_words(both + wait)
        return Bound(f"left values for {left} and right values for {right} of event time (before, after and delay)")

    def partners(self, left: Entry, rights: Sequence[Entry]) -> Sequence[int]:
        """All within the span."""
        first = bisect_left(rights, left.at - self.before, key=_AT)
        return range(first, bisect_right(rights, left.at + self.after, first, key=_AT))

    def are_met(self, right: Entry, lefts: Sequence[int]) -> bool:
        """Whether it is within the span of one."""
        first = bisect_left(lefts, right.at - self.after)
        return first < len(lefts) and lefts[first] <= right.at + self.before

    def expired(self, rights: Sequence[Entry], watermark: int) -> int:
        """Those that no value can have within its span that is not late, nor waits."""
        return bisect_right(rights, watermark - self._stay, key=_AT)

    def expires(self, rights: Sequence[Entry]) -> int:
        """When the first one expires."""
        return rights[0].at + self._stay if rights else END

    @property
    def _stay(self) -> int:
        """How long a value of the right side stays: until the last value within whose span it is has come, and is due."""
        return self.before + self.left.held + self.left.wait
