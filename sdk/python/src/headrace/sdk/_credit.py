"""What a session may still send."""

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """The credit that is left, and the credit that the session began with."""

    bytes: int
    messages: int
    first_bytes: int
    first_messages: int

    @classmethod
    def of(cls, bytes_: int, messages: int) -> "Window":
        """A window with nothing outstanding."""
        return cls(bytes_, messages, bytes_, messages)

    @property
    def whole(self) -> bool:
        """True where everything that was sent has been given back."""
        return self.bytes >= self.first_bytes and self.messages >= self.first_messages

    def grant(self, bytes_: int, messages: int) -> None:
        """Adds what the gateway gave."""
        self.bytes += bytes_
        self.messages += messages

    def spend(self, bytes_: int, messages: int) -> None:
        """Takes what is about to be sent."""
        self.bytes -= bytes_
        self.messages -= messages
