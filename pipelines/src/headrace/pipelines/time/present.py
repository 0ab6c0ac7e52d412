"""When a micro-batch was planned: the clock by which steps act. It is in the checkpoint, so a repeat finds the same time."""

from typing import NamedTuple


class Present(NamedTuple):
    """The clock in a micro-batch, in microseconds since 1970.

    Attributes:
        before: The clock in the micro-batch before; None in the first micro-batch.
        now: The clock in this one, not before that.
    """

    before: int | None
    now: int

    def begins(self, every: int) -> bool:
        """Whether a period of some length since 1970 has begun since the micro-batch before."""
        return self.before is not None and self.before // every < self.now // every
