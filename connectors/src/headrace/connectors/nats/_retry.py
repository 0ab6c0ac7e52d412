"""How long to wait before a server is tried again."""

import asyncio
import logging
import random
import time

from headrace.connectors.nats._client import heed_cancellation

log = logging.getLogger(__name__)

_FIRST_SECONDS = 0.1
_MAX_SECONDS = 5.0
_TELL_SECONDS = 10.0


class Retry:
    """Waits that grow, with jitter, and what people are told meanwhile."""

    def __init__(self, what: str) -> None:
        """Takes what waits, for people."""
        self._what = what
        self._limit = _FIRST_SECONDS
        self._told_at = float("-inf")
        self._told = False

    def succeeded(self) -> None:
        """It works again: the next wait is a short one."""
        if self._told:
            log.warning("%s: goes on", self._what)
        self._limit, self._told, self._told_at = _FIRST_SECONDS, False, float("-inf")

    async def wait(self, error: Exception) -> None:
        """Waits after something has failed."""
        heed_cancellation()
        if time.monotonic() - self._told_at >= _TELL_SECONDS:
            log.warning("%s: %s; trying again", self._what, error)
            self._told, self._told_at = True, time.monotonic()
        await asyncio.sleep(random.uniform(self._limit / 2, self._limit))
        self._limit = min(2 * self._limit, _MAX_SECONDS)
