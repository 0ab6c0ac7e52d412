"""A session's credit: how much it may still send."""

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """The remaining credit."""

    bytes: int
    messages: int
    frame_overhead: int = 0
    """The credit that each frame costs besides its own size, in bytes."""

    def grant(self, bytes_: int, messages: int) -> None:
        """Adds credit."""
        self.bytes += bytes_
        self.messages += messages

    def spend(self, bytes_: int, messages: int) -> None:
        """Subtracts the credit of a frame."""
        self.bytes -= bytes_
        self.messages -= messages
