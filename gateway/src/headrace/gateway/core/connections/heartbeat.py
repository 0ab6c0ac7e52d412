"""Decides whether a regular caller is silent: its network is cut, its process hangs, or its host is gone."""

from collections.abc import Iterable

from headrace.contract import clock
from headrace.protocol.v1.source_pb2 import CAPABILITY_HEARTBEAT

SILENT_AFTER_S = 6.0
"""A connector is silent after this time without a message. It sends a heartbeat every 2 s, so two are missing by then."""


class Silence:
    """Measures how long a caller is silent.

    The time counts only while the gateway makes its rounds: a gateway that was held up itself blames no caller.
    """

    def __init__(self) -> None:
        """Begins with a call."""
        self._heard_at = clock.monotonic()
        self._rounds_s = 0.0
        """Seconds of the gateway's rounds since then."""

    def _end(self) -> None:
        """Notes a call."""
        self._heard_at = clock.monotonic()
        self._rounds_s = 0.0

    def pass_round(self, seconds: float) -> None:
        """Adds a round of the gateway that took `seconds`, in which it was able to receive."""
        self._rounds_s += seconds

    @property
    def _seconds(self) -> float:
        return clock.monotonic() - self._heard_at


class Heartbeat(Silence):
    """Judges the connector of one session."""

    def __init__(self, capabilities: Iterable[int]) -> None:
        """Begins a session.

        Args:
            capabilities: The capabilities of the connector, from its Hello.
        """
        super().__init__()
        self._promised = CAPABILITY_HEARTBEAT in capabilities
        self.proves_life = not self._promised
        """Whether a message has followed its Hello, which may arrive after its process is gone. None need, without heartbeats."""

    def heard(self) -> None:
        """Notes that the connector has sent a message after its Hello, of whatever kind."""
        self._end()
        self.proves_life = True

    @property
    def silent_ms(self) -> int | None:
        """Milliseconds since the last message, if the connector is silent; None if it is not, or promises no heartbeats."""
        if not self._promised or self._rounds_s < SILENT_AFTER_S:
            return None
        return int(self._seconds * 1000)
