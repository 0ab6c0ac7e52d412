"""Who dies when: named fault points, at which the gateway or the driver dies, or has a connector die that is not in Python."""

import random
from collections.abc import Mapping

from tests.exactly_once.episodes import Death
from tests.exactly_once.points import POINTS

_BY_NAME = {point.name: point for point in POINTS}


def _deaths(role: str, *events: str) -> list[Death]:
    """The deaths of a role before and after events."""
    return [Death(role, _BY_NAME[f"{event}.{when}"]) for event in events for when in ("before", "after")]


DEATHS: Mapping[str, list[Death]] = {
    "source": _deaths("source", "gateway.frame-accepted", "gateway.range-planned", "gateway.ack-sent"),
    # The sink stages what arrives, and shows what the driver has committed.
    "sink": _deaths("sink", "gateway.rows-delivered", "gateway.vote", "driver.commits-written", "gateway.commit-told"),
    "gateway": [Death("gateway", point) for point in POINTS if point.role == "gateway"],
    # The query keeps its states in Spark's store, and so writes no manifest.
    "driver": [Death("driver", point) for point in POINTS if point.role == "driver" and point.event != "manifest-written"],
}
"""All of them, by role."""


def sample(seed: str) -> list[Death]:
    """One death of each role, in any order."""
    chance = random.Random(seed)
    chosen = [chance.choice(deaths) for deaths in DEATHS.values()]
    chance.shuffle(chosen)
    return chosen


def everything(seed: str) -> list[Death]:
    """All of them, in any order."""
    deaths = [death for of_role in DEATHS.values() for death in of_role]
    random.Random(seed).shuffle(deaths)
    return deaths
