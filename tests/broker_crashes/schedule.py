"""Who is killed, in which order. Pure: the seed decides everything."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

GATEWAY, DRIVER, SOURCES, SINKS, BROKER = "gateway", "driver", "sources", "sinks", "broker"
"""What can be killed: one gateway, one driver, and of each system the source connectors, the sink connectors, and the broker."""


@dataclass(frozen=True)
class Victim:
    """The victim.

    Attributes:
        role: Its purpose.
        system: Whose; None for what all share.
    """

    role: str
    system: str | None = None

    def __str__(self) -> str:
        return self.role if self.system is None else f"{self.system}'s {self.role}"


def schedule(seed: int, systems: Sequence[str]) -> list[list[Victim]]:
    """Rounds. In each of them the gateway, the driver, or something of each system is killed; in the end, everything was once."""
    chance = random.Random(seed)
    shuffled = {system: chance.sample([SOURCES, SINKS, BROKER], 3) for system in systems}
    rounds = [[Victim(GATEWAY)], [Victim(DRIVER)]]
    rounds += [[Victim(shuffled[system][nth], system) for system in systems] for nth in range(3)]
    for victims in rounds:
        chance.shuffle(victims)
    chance.shuffle(rounds)
    return rounds
