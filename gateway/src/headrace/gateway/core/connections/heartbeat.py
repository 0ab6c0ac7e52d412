"""Whether a connector that promises heartbeats has become silent: its network was cut, its process hangs, or its host is gone."""

from collections.abc import Iterable

from headrace.contract import clock
from headrace.protocol.v1.source_pb2 import CAPABILITY_HEARTBEAT

SILENT_AFTER_S = 6.0
"""After how many seconds without a message a connector is silent. It sends one every 2 s, so that two have been missed."""


class Heartbeat:
    """The reports of the connector of one session.

    The gateway's own rounds decide whether it is silent, not a clock: a gateway that was held up itself blames no connector.
    """

    def __init__(self, capabilities: Iterable[int]) -> None:
        """Begins a session.

        Args:
            capabilities: The capabilities of the connector, from its Hello.
        """
        self._promised = CAPABILITY_HEARTBEAT in capabilities
        self._heard_at = clock.monotonic()
        self._rounds_s = 0.0
        """How many seconds of the gateway's rounds have passed since."""

    def heard(self) -> None:
        """Notes that the connector has sent a message, of whatever kind."""
        self._heard_at = clock.monotonic()
        self._rounds_s = 0.0

    def pass_round(self, seconds: float) -> None:
        """Notes that a round of this many seconds has passed, in which the gateway was able to receive."""
        self._rounds_s += seconds

    @property
    def silent_ms(self) -> int | None:
        """For how long the connector has been silent, in milliseconds; None if it is not, or promises no heartbeats."""
        if not self._promised or self._rounds_s < SILENT_AFTER_S:
            return None
        return int((clock.monotonic() - self._heard_at) * 1000)
