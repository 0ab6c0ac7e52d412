"""Real-time mode: SIGKILL of source, gateway, driver and sinks at named points, each during the recovery from the one before."""

import random
from collections.abc import Iterator, Mapping

import pytest
from tests.exactly_once.episodes import Death, play
from tests.exactly_once.points import POINTS, REAL_TIME_POINTS
from tests.real_time.world import World

pytestmark = pytest.mark.timeout(1800)

_BY_NAME = {point.name: point for point in (*POINTS, *REAL_TIME_POINTS)}


def _deaths(role: str, *points: str) -> list[Death]:
    return [Death(role, _BY_NAME[name]) for name in points]


def _around(role: str, *events: str) -> list[Death]:
    return _deaths(role, *(f"{event}.{when}" for event in events for when in ("before", "after")))


DEATHS: Mapping[str, list[Death]] = {
    "source": [*_around("source", "gateway.frame-accepted"), *_deaths("source", "driver.message-processed.after")],
    "gateway": [
        *_around("gateway", "gateway.frame-accepted", "gateway.rows-delivered", "gateway.vote", "gateway.commit-told"),
        *_around("gateway", "gateway.ack-sent"),
        *_deaths("gateway", "gateway.frames-followed.before", "driver.states-saved.after"),
    ],
    "driver": [
        *_around("driver", "driver.message-processed", "driver.results-delivered", "driver.states-saved"),
        *_around("driver", "driver.manifest-written", "driver.commits-written"),
        *_deaths("driver", "driver.offsets-written.before", "driver.batch-processed.after"),
    ],
    "worker": _around("worker", "worker.rows-processed", "worker.share-saved"),
    "sink": [
        *_around("sink", "gateway.rows-delivered", "driver.commits-written"),
        *_deaths("sink", "gateway.commit-told.before"),
    ],
}


def sample(seed: str) -> list[Death]:
    """Two deaths of the driver and one of each other role, in any order."""
    chance = random.Random(seed)
    chosen = [death for role, deaths in DEATHS.items() for death in chance.sample(deaths, 2 if role == "driver" else 1)]
    chance.shuffle(chosen)
    return chosen


def pairs() -> list[list[Death]]:
    """All ordered pairs of deaths."""
    deaths = [death for of_role in DEATHS.values() for death in of_role]
    return [[first, second] for first in deaths for second in deaths]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world that continues from test to test."""
    world = World(tmp_path_factory.mktemp("real-time"))
    try:
        world.start()
        yield world
    finally:
        world.rig.dispose()


def test_results_are_told_before_they_are_committed_and_kept_once_they_are(world: World) -> None:
    for _ in range(5):
        world.offer()
        world.finish()
    assert world.told_early


def test_nothing_is_lost_or_counted_twice_whoever_is_killed(world: World, request: pytest.FixtureRequest) -> None:
    chosen = [sample(str(request.config.getoption("kill_seed")))]
    if request.config.getoption("every_pair"):
        shard, shards = request.config.getoption("shard")
        chosen = pairs()[shard - 1 :: shards]
    for deaths in chosen:
        play(world, deaths)
        world.finish()
