"""A set of ids that are mostly assigned in order, so that a few ranges hold millions of them."""

from bisect import bisect_right

from headrace.gateway.core.base.errors import TooManyStreams

MAX_RANGES = 10_000


class IdRanges:
    """Ids, as disjoint, non-adjacent ranges."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """The id after the last of each range."""

    def add(self, id_: int) -> None:
        """Adds an id.

        Raises:
            TooManyStreams: the ids are too scattered.
        """
        if id_ in self:
            return
        at = bisect_right(self._starts, id_)
        after_one = at > 0 and self._ends[at - 1] == id_
        before_one = at < len(self._starts) and self._starts[at] == id_ + 1
        if after_one and before_one:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif after_one:
            self._ends[at - 1] = id_ + 1
        elif before_one:
            self._starts[at] = id_
        elif len(self._starts) >= MAX_RANGES:
            raise TooManyStreams(
                f"stream id {id_}: too many non-consecutive ids were rejected; increase ids by one",
                limit="stream_id_ranges",
                maximum=MAX_RANGES,
            )
        else:
            self._starts.insert(at, id_)
            self._ends.insert(at, id_ + 1)

    def __contains__(self, id_: int) -> bool:
        at = bisect_right(self._starts, id_)
        return at > 0 and id_ < self._ends[at - 1]

    def __len__(self) -> int:
        """Returns the number of ranges."""
        return len(self._starts)
