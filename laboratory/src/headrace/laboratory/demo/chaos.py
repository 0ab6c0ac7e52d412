"""Plans which processes are killed, and when."""

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
    """A planned SIGKILL."""

    victims: tuple[str, ...]
    at: float
    """The share of all messages that is committed when it is sent, from 0 to 1."""


@dataclass(frozen=True)
class Killed:
    """A SIGKILL that was sent."""

    victims: tuple[str, ...]
    pids: tuple[int, ...]
    elapsed_s: float
    received: int
    committed: int
    recovered_s: float | None = None
    """Seconds until more was committed; None until then."""


def plan_kills(seed: int) -> tuple[Kill, ...]:
    """Plans to kill each process, and two at the same time; the seed determines order, pair and exact times.

    The driver is killed only once, alone or with another: its JVM takes far longer to start than the other processes.
    """
    choose = random.Random(seed)
    pair = choose.choice(list(combinations(PROCESSES, 2)))
    victims = [pair, *((name,) for name in PROCESSES if name != DRIVER or DRIVER not in pair)]
    choose.shuffle(victims)
    step = (_LAST - _FIRST) / (len(victims) - 1)
    return tuple(Kill(who, _FIRST + index * step + choose.uniform(-_SPREAD, _SPREAD)) for index, who in enumerate(victims))
