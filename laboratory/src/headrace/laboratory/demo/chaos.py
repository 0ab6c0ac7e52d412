"""Which processes are killed, and when."""

import random
from dataclasses import dataclass
from itertools import combinations

CONNECTOR = "connector"
GATEWAY = "gateway"
DRIVER = "driver"
PROCESSES = (GATEWAY, CONNECTOR, DRIVER)

_FIRST, _LAST = 0.15, 0.75
_SPREAD = 0.05


@dataclass(frozen=True)
class Kill:
    """A SIGKILL that is to come."""

    victims: tuple[str, ...]
    at: float
    """The share of all messages that is committed when it comes."""


@dataclass(frozen=True)
class Killed:
    """A SIGKILL that has come."""

    victims: tuple[str, ...]
    pids: tuple[int, ...]
    elapsed_s: float
    received: int
    committed: int
    recovered_s: float | None = None
    """How long it took until more was committed; None until then."""


def plan_kills(seed: int) -> tuple[Kill, ...]:
    """Each process, and two at the same time; the seed decides on order, pair and exact moments.

    The driver is killed once, alone or with another: a JVM takes far longer to start than anything else here.
    """
    choose = random.Random(seed)
    pair = choose.choice(list(combinations(PROCESSES, 2)))
    victims = [pair, *((name,) for name in PROCESSES if name != DRIVER or DRIVER not in pair)]
    choose.shuffle(victims)
    step = (_LAST - _FIRST) / (len(victims) - 1)
    return tuple(Kill(who, _FIRST + index * step + choose.uniform(-_SPREAD, _SPREAD)) for index, who in enumerate(victims))
