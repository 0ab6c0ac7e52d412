"""Counts of what streams have received since the gateway started; they include streams that it has forgotten."""

from dataclasses import dataclass

from headrace.gateway.core.streams.stream import Stream


@dataclass(slots=True)
class Totals:
    """Counts of some streams."""

    received_messages: int = 0
    received_bytes: int = 0
    acknowledged_messages: int = 0
    duplicate_messages: int = 0
    losses: int = 0

    def add(self, stream: Stream) -> None:
        """Adds the counts of a stream."""
        self.received_messages += stream.received_messages
        self.received_bytes += stream.received_bytes
        self.acknowledged_messages += stream.tally.total
        self.duplicate_messages += stream.duplicate_messages
        self.losses += stream.losses

    def plus(self, others: "Totals") -> "Totals":
        """Returns the sums of these counts and others."""
        return Totals(
            self.received_messages + others.received_messages,
            self.received_bytes + others.received_bytes,
            self.acknowledged_messages + others.acknowledged_messages,
            self.duplicate_messages + others.duplicate_messages,
            self.losses + others.losses,
        )
