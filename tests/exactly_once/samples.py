"""Chooses by a seed which of all deaths one run of the tests plays; `make chaos` plays all of them."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.exactly_once.points import Point


@dataclass(frozen=True)
class Sample:
    """Deaths of one run.

    Attributes:
        alone: The points at which a process dies and nothing else happens.
        pairs: The points of two deaths, the second during the recovery from the first.
    """

    alone: list[str]
    pairs: list[tuple[str, str]]


def sample(points: Sequence[Point], seed: str) -> Sample:
    """Each event once, before or after it; each role once as the first of a pair, once as the second, and alone with the rest.

    Args:
        points: All of them, with at least two events for each role.
        seed: What decides; the same one gives the same sample.
    """
    chance = random.Random(seed)
    of_event: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        of_event[point.role][point.event].append(point.name)
    of_role = [[chance.choice(names) for names in events.values()] for events in of_event.values()]
    for names in of_role:
        chance.shuffle(names)
    seconds = [names[1] for names in of_role]
    chance.shuffle(seconds)
    alone = [name for names in of_role for name in names[2:]]
    return Sample(alone, list(zip((names[0] for names in of_role), seconds, strict=True)))
