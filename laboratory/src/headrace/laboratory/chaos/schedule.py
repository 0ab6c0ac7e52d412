"""Which processes, by their roles, are killed, in which order, and when. Pure: the seed determines everything."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The role of a process, or of several."""

    REPLAYABLE = "replayable"
    """The connector of the replayable source."""
    REDELIVERING = "redelivering"
    """The connector of the queue."""
    GATEWAY = "gateway"
    DRIVER = "driver"
    """Spark's driver, with all its descendants."""
    EXECUTOR = "executor"
    TWO_PHASE = "two-phase"
    """The sink that writes files."""
    IDEMPOTENT = "idempotent"
    """The sink that writes to a database."""


_MAX_PAUSE_S = 2.0
_MAX_RECOVERY_S = 6.0
_AT_ONCE, _IN_RECOVERY = 0.2, 0.5
"""The probability that two are killed at once, and the probability of this or of a kill during the recovery from another one."""


class How(StrEnum):
    """What happens to a victim."""

    KILL = "kill"
    RIVAL = "rival"
    """It continues while another one starts; it must end on its own."""
    STALE = "stale"
    """It is paused while another one takes its place, and then continues as if nothing had happened; it must end on its own."""


@dataclass(frozen=True)
class Strike:
    """Kills that belong together.

    Attributes:
        pause_s: Seconds without a kill before this strike.
        first: The roles that are killed first, simultaneously.
        second: The role that is killed while those recover; None for none.
        second_after_s: Seconds between the first and the second.
        how: What happens to the first; other than KILL only for the driver alone.
    """

    pause_s: float
    first: tuple[Role, ...]
    second: Role | None = None
    second_after_s: float = 0.0
    how: How = How.KILL


def schedule(seed: int) -> Iterator[Strike]:
    """Yields strikes endlessly. Each round kills every role once: alone, together with another, or while another recovers.

    A driver alone may instead be replaced by another one that starts on its checkpoints.
    """
    chance = random.Random(seed)
    while True:
        victims = list(Role)
        chance.shuffle(victims)
        while victims:
            pause_s, kind = chance.uniform(0, _MAX_PAUSE_S), chance.random()
            first, other = victims.pop(), victims.pop() if victims and kind < _IN_RECOVERY else None
            if other is None:
                yield Strike(pause_s, (first,), how=chance.choice(list(How)) if first == Role.DRIVER else How.KILL)
            elif kind < _AT_ONCE:
                yield Strike(pause_s, (first, other))
            else:
                yield Strike(pause_s, (first,), other, chance.uniform(0, _MAX_RECOVERY_S))
