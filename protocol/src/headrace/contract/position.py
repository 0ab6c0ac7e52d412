"""The order of positions in a stream."""

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place in a stream: everything at or before it has been seen. Ordered by epoch and sequence; the cursor does not count.

    Attributes:
        epoch: The generation of the stream's sequences; 0 for a replayable source.
        sequence: The sequence of the last message at or before this position; -1 before the first message.
        cursor: The last cursor that the source gave at or before this position, if any.
    """

    epoch: int
    sequence: int
    cursor: bytes | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.sequence < 0:
            return "the beginning"
        return f"sequence {self.sequence}" + (f" of epoch {self.epoch}" if self.epoch else "")
