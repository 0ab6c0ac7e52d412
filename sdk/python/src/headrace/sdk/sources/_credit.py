"""What a session may still send."""

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """The credit that is left."""

    bytes: int
    messages: int
    frame_overhead: int = 0
    """What each frame takes besides its own bytes."""

    def grant(self, bytes_: int, messages: int) -> None:
        """Adds what the gateway gave."""
        self.bytes += bytes_
        self.messages += messages

    def spend(self, bytes_: int, messages: int) -> None:
        """Takes what is about to be sent."""
        self.bytes -= bytes_
        self.messages -= messages
