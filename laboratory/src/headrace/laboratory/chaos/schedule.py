"""Who is killed, in which order, and when. Pure: the seed decides everything."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.laboratory.chaos.roles import Role

_LONGEST_PAUSE_S = 2.0
_LONGEST_RECOVERY_S = 6.0
_AT_ONCE, _IN_RECOVERY = 0.2, 0.5
"""How often two are killed at once; how often that or the one during the recovery from the other."""


class How(StrEnum):
    """What becomes of a victim."""

    KILL = "kill"
    RIVAL = "rival"
    """It goes on, and another one starts beside it; it has to end by itself."""
    STALE = "stale"
    """It stands still while another one takes its place, and then goes on as if nothing had been; it has to end by itself."""


@dataclass(frozen=True)
class Strike:
    """Kills that belong together.

    Attributes:
        pause_s: For how long all has been well when it comes.
        first: Who is killed then, at the same moment.
        second: Who is killed while those recover; None for nobody.
        second_after_s: How long after the first.
        how: What becomes of the first; another thing than a kill of the driver alone only.
    """

    pause_s: float
    first: tuple[Role, ...]
    second: Role | None = None
    second_after_s: float = 0.0
    how: How = How.KILL


def schedule(seed: int) -> Iterator[Strike]:
    """Strikes without end: in each round everybody is killed once, alone, together with another, or while another recovers.

    A driver whose turn it is alone may be killed, or find that another one has started on its checkpoints.
    """
    chance = random.Random(seed)
    while True:
        victims = list(Role)
        chance.shuffle(victims)
        while victims:
            pause_s, kind = chance.uniform(0, _LONGEST_PAUSE_S), chance.random()
            first, other = victims.pop(), victims.pop() if victims and kind < _IN_RECOVERY else None
            if other is None:
                yield Strike(pause_s, (first,), how=chance.choice(list(How)) if first == Role.DRIVER else How.KILL)
            elif kind < _AT_ONCE:
                yield Strike(pause_s, (first, other))
            else:
                yield Strike(pause_s, (first,), other, chance.uniform(0, _LONGEST_RECOVERY_S))
