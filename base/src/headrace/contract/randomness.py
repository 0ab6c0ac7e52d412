"""The one source of randomness of the gateway and the SDK, so that a test or a simulation can repeat what it chose.

Secrets do not come from here but from the module `secrets`.
"""

import contextlib
import random
from collections.abc import Iterator

_random = random.Random()


def uniform(low: float, high: float) -> float:
    """Returns a random number from `low` to `high`."""
    return _random.uniform(low, high)


@contextlib.contextmanager
def use(source: random.Random) -> Iterator[None]:
    """Draws from another source, in the whole process, until the block ends."""
    global _random
    before, _random = _random, source
    try:
        yield
    finally:
        _random = before
