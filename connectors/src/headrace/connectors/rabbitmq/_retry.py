"""How long to wait before a broker is tried again, and what people are told meanwhile."""

import asyncio
import logging
import math
import random
import time

log = logging.getLogger(__name__)

_FIRST_SECONDS = 0.1
_MAX_SECONDS = 5.0
_STOOD_SECONDS = 2.0
_TELL_SECONDS = 10.0


class Retry:
    """Waits that grow, with full jitter. Says why, at first and about every ten seconds; and when it is over."""

    def __init__(self, what: str) -> None:
        """Takes what is waited for, as people call it."""
        self._what = what
        self._limit = _FIRST_SECONDS
        self._stands_since = math.inf
        self._told_at = -math.inf
        self._complained = False

    def stands(self) -> None:
        """An attempt has succeeded."""
        self._stands_since = time.monotonic()
        if self._complained:
            log.info("%s: connected again", self._what)
            self._complained = False

    async def wait(self, error: Exception) -> None:
        """Waits because an attempt has failed, or because what stood has broken."""
        now = time.monotonic()
        if now - self._stands_since >= _STOOD_SECONDS:
            self._limit, self._told_at = _FIRST_SECONDS, -math.inf
        self._stands_since = math.inf
        if now - self._told_at >= _TELL_SECONDS:
            log.warning("%s: %s; trying again", self._what, error)
            self._told_at, self._complained = now, True
        await asyncio.sleep(random.uniform(0, self._limit))
        self._limit = min(_MAX_SECONDS, 2 * self._limit)
