"""How to go on while something does not work: how long to wait, and how often to say so."""

import logging
import random
import time

_REPEAT_SECONDS = 30.0


class Backoff:
    """Exponential backoff with full jitter."""

    def __init__(self, first: float = 0.1, longest: float = 5.0) -> None:
        """Begins with waits of up to `first` seconds."""
        self._first = first
        self._longest = longest
        self._limit = first

    def next(self) -> float:
        """How long to wait now, in seconds."""
        wait = random.uniform(0, self._limit)
        self._limit = min(self._longest, self._limit * 2)
        return wait

    def reset(self) -> None:
        """Begins anew."""
        self._limit = self._first


class Complaint:
    """Warns of a trouble when it comes and now and then while it lasts, and tells when it is over."""

    def __init__(self, log: logging.Logger) -> None:
        """Has nothing to complain of."""
        self._log = log
        self._text: str | None = None
        self._said_at = 0.0

    def say(self, text: str) -> None:
        """There is, or still is, this trouble."""
        now = time.monotonic()
        if text != self._text or now - self._said_at >= _REPEAT_SECONDS:
            self._log.warning("%s", text)
            self._text, self._said_at = text, now

    def over(self, text: str) -> None:
        """There is none any more."""
        if self._text is not None:
            self._log.info("%s", text)
            self._text = None
