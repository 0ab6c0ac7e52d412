"""Positions in a stream, and their order."""

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A position in a stream: everything up to it was received. Ordered by epoch and sequence, regardless of the cursor.

    Attributes:
        epoch: The generation of the stream's sequences; 0 for a replayable source.
        sequence: The sequence of the last message at or before this position; -1 before the first message.
        cursor: The last cursor that the source supplied at or before this position, if any.
    """

    epoch: int
    sequence: int
    cursor: bytes | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.sequence < 0:
            return "the beginning"
        return f"sequence {self.sequence}" + (f" of epoch {self.epoch}" if self.epoch else "")
