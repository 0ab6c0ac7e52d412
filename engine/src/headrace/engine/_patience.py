"""How long a gateway that is away is waited for, or a sink, or a stream."""

import logging
import threading
import time

from headrace.engine._errors import GatewayAway

FIRST_PAUSE_S = 0.02

log = logging.getLogger("headrace.engine")


class Patience:
    """Remembers since when the gateway has been away, and gives up after a while."""

    def __init__(
        self,
        timeout_s: float,
        longest_pause_s: float,
        awaited: str = "the gateway",
        advice: str = "Start it or check the option gateway",
        option: str = "gatewayTimeout",
    ) -> None:
        self._awaited = awaited
        self._advice = advice
        self._option = option
        self._timeout_s = timeout_s
        self._longest_pause_s = longest_pause_s
        self._away_since: float | None = None
        self._pause_s = FIRST_PAUSE_S
        self._never = threading.Event()

    @property
    def timeout_s(self) -> float:
        """For how long it waits, in seconds."""
        return self._timeout_s

    def answered(self) -> None:
        """Notes that the gateway is there."""
        if self._away_since is not None:
            log.warning("%s is back after %.1f s", self._awaited, time.monotonic() - self._away_since)
            self._away_since, self._pause_s = None, FIRST_PAUSE_S

    def wait(self, error: GatewayAway) -> None:
        """Notes that the gateway is away, and pauses, a little longer each time.

        Raises:
            GatewayAway: it has been away for too long.
        """
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            log.warning("%s; waiting for it for up to %g s", error, self._timeout_s)
        left = self._away_since + self._timeout_s - now
        if left <= 0:
            raise type(error)(
                f"{error}; it has been for {now - self._away_since:.0f} s. {error.advice or self._advice}; "
                f"the option {self._option} says how long to wait"
            ) from None
        self._never.wait(min(self._pause_s, left))
        self._pause_s = min(2 * self._pause_s, self._longest_pause_s)
