"""Exponential backoff with jitter, so that clients do not all reconnect to a restarted server at the same time.

Whatever the gateway and the SDK choose at random they draw here, so that a test or a simulation can repeat what they chose.
Secrets come from the module `secrets`.
"""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

_random = random.Random()


def uniform(low: float, high: float) -> float:
    """Returns a random number from `low` to `high`."""
    return _random.uniform(low, high)


@contextlib.contextmanager
def draw_from(source: random.Random) -> Iterator[None]:
    """Draws from another source, in the whole process, until the block ends."""
    global _random
    before, _random = _random, source
    try:
        yield
    finally:
        _random = before


@dataclass
class Backoff:
    """Computes how long to wait before each attempt.

    Attributes:
        first: The upper bound of the first wait, in seconds. It doubles with each further wait.
        longest: The upper bound of all waits, in seconds.
        jitter: The random fraction of the bound: with 1, waits are between 0 and the bound; with 0.25, within its last quarter.
        attempts: The number of consecutive failed attempts.
    """

    first: float
    longest: float
    jitter: float = 1.0
    attempts: int = 0

    def next(self) -> float:
        """Returns how long to wait before the next attempt, in seconds, and counts the attempt."""
        # The bound is `longest` long before 2**60, and a larger power would overflow a float.
        bound = min(self.longest, self.first * 2.0 ** min(self.attempts, 60))
        self.attempts += 1
        return bound * uniform(1 - self.jitter, 1)

    def reset(self) -> None:
        """Starts over with the first wait, after an attempt has succeeded."""
        self.attempts = 0
