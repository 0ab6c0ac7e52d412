"""Whether an open stream has stalled: its connector reports messages that are left, may send them, and sends none."""

from dataclasses import dataclass

from headrace.contract import clock

STALLED_AFTER_S = 20.0
"""After how many seconds without a frame a stream has stalled. Connectors report their backlog about once a second."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of a stream that should send, as a round sees it.

    Attributes:
        last_sequence: The last sequence that its connector has sent.
        messages: How many messages its source has left.
        bytes: How many bytes its source has left.
    """

    last_sequence: int
    messages: int
    bytes: int

    def has_progressed(self, before: "Outlook") -> bool:
        """Whether frames have arrived since, or the source has passed over messages that it does not send."""
        return self.last_sequence != before.last_sequence or self.messages < before.messages or self.bytes < before.bytes


class Stall:
    """For how long a stream that is attached to a session has sent nothing although it should.

    The gateway's own rounds decide whether it has stalled, not a clock: a gateway that was held up itself blames no connector.
    """

    def __init__(self) -> None:
        self._outlook: Outlook | None = None
        self._since = 0.0
        self._rounds_s = 0.0

    def pass_round(self, seconds: float, outlook: Outlook | None, *, has_credit: bool) -> None:
        """Notes that a round of this many seconds has passed, in which the gateway was able to receive.

        Args:
            seconds: The time that the round took.
            outlook: The state that the round has seen; None if the stream need not send.
            has_credit: Whether the stream may send. A round without credit does not count, and does not begin anew either: other
                streams of the session may use up the credit again and again.
        """
        if outlook is None or self._outlook is None or outlook.has_progressed(self._outlook):
            self._since, self._rounds_s = clock.monotonic(), 0.0
        elif has_credit:
            self._rounds_s += seconds
        self._outlook = outlook

    @property
    def stalled_ms(self) -> int | None:
        """For how long nothing has arrived, in milliseconds; None if the stream has not stalled."""
        return int((clock.monotonic() - self._since) * 1000) if self._rounds_s >= STALLED_AFTER_S else None
