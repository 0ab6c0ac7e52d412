"""Positions in a stream, and their order."""

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A position in a stream: everything up to it was received. Ordered by epoch and sequence, regardless of the cursor.

    Attributes:
        epoch: The generation of the stream's sequences; 0 for a replayable source.
        sequence: The sequence of the last message at or before this position; -1 before the first message.
        cursor: The last cursor that the source supplied at or before this position, if any.
        moves: How often the cursor has moved since the message of this sequence, by frames without messages.
        begin: Of a resumable source, where the micro-batch begins that ends here, as long as its checkpoint does not record that
            it was read as it was planned; None otherwise.
    """

    epoch: int
    sequence: int
    cursor: bytes | None = field(default=None, compare=False)
    moves: int = field(default=0, compare=False)
    begin: "Position | None" = field(default=None, compare=False)

    @property
    def delivered(self) -> "Position":
        """The last position up to which everything was delivered, as the checkpoint says."""
        return self if self.begin is None else self.begin

    def is_past(self, other: "Position") -> bool:
        """Returns whether it is after another one, or at the same place with a later cursor."""
        return (self.epoch, self.sequence, self.moves) > (other.epoch, other.sequence, other.moves)

    def __str__(self) -> str:
        if self.sequence < 0:
            return "the beginning"
        return f"sequence {self.sequence}" + (f" of epoch {self.epoch}" if self.epoch else "")
