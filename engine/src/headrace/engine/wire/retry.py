"""Retries while the gateway, a sink or a stream is unavailable: how long to wait, and when to give up."""

import logging
import threading
import time
from collections.abc import Mapping

from headrace.contract.backoff import Backoff
from headrace.engine._errors import GatewayAway

FIRST_PAUSE_S = 0.02

log = logging.getLogger("headrace.engine")


class Retry:
    """Waits with growing pauses for something unavailable, and gives up after a timeout.

    Args:
        timeout_s: How long to wait in total, in seconds.
        max_pause_s: The longest pause between two attempts, in seconds.
        awaited: The connectors that are unavailable, for the log.
        advice: The remedy, for the error.
        option: The option that sets the timeout, for the error.
        fields: The fields of its log lines.
    """

    def __init__(
        self,
        timeout_s: float,
        max_pause_s: float,
        awaited: str = "the gateway",
        advice: str = "Start it or check the option gateway",
        option: str = "gatewayTimeout",
        *,
        fields: Mapping[str, object],
    ) -> None:
        self._fields = fields
        self._awaited = awaited
        self._advice = advice
        self._option = option
        self._timeout_s = timeout_s
        self._backoff = Backoff(FIRST_PAUSE_S, max_pause_s)
        self._away_since: float | None = None
        self._never = threading.Event()

    @property
    def timeout_s(self) -> float:
        """How long it waits in total, in seconds."""
        return self._timeout_s

    def reset(self) -> None:
        """Records that an attempt succeeded: the timeout and the pauses start again with the next failure."""
        if self._away_since is not None:
            log.warning(
                "%s is available again after %.1f s", self._awaited, time.monotonic() - self._away_since, extra=self._fields
            )
            self._away_since = None
            self._backoff.reset()

    def wait(self, error: GatewayAway) -> None:
        """Pauses after a failed attempt, on average longer each time.

        Raises:
            GatewayAway: The timeout has passed; an error of the type of `error`.
        """
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            log.warning("%s; retrying for up to %g s", error, self._timeout_s, extra=self._fields)
        left = self._away_since + self._timeout_s - now
        if left <= 0:
            raise type(error)(
                f"{error}; gave up after {now - self._away_since:.0f} s. {error.advice or self._advice}; "
                f"the option {self._option} sets how long to wait"
            ) from None
        self._never.wait(min(self._backoff.next(), left))
