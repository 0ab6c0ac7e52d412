"""Exponential backoff with jitter, so that clients of a server that was away do not return all at once."""

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """How long to wait before each attempt.

    Attributes:
        first: The upper bound of the first wait, in seconds. It doubles with each further one.
        longest: The upper bound of all waits, in seconds.
        jitter: The share of the bound that is random: 1 for waits from 0 up to the bound, 0.25 for the last quarter of it.
        attempts: How many attempts have failed in a row.
    """

    first: float
    longest: float
    jitter: float = 1.0
    attempts: int = 0

    def next(self) -> float:
        """How long to wait now, in seconds."""
        # Past 2**60 the bound is `longest` in any case, and the power is no float for ever.
        bound = min(self.longest, self.first * 2.0 ** min(self.attempts, 60))
        self.attempts += 1
        return bound * random.uniform(1 - self.jitter, 1)

    def reset(self) -> None:
        """Starts again with the first wait: an attempt has succeeded."""
        self.attempts = 0
