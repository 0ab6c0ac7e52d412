"""How a supervisor backs off: when a process that has failed is started again."""

from headrace.contract.backoff import Backoff

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 30.0
STABLE_S = 10.0
"""A process that was connected for this long is considered stable: a later failure does not count as one in a row."""


def wait_s(failures: int) -> float:
    """Returns the delay before the next start, in seconds; it doubles with each consecutive failure, with jitter."""
    return Backoff(FIRST_WAIT_S, MAX_WAIT_S, jitter=0.25, attempts=failures - 1).next()
