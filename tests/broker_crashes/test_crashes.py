"""Connectors on the real brokers, while all of them, the brokers, the gateway and Spark are killed in turn.

Messages are published to seven pairs of a source and a sink. The query between them keeps a count and a checksum of each key of
each pair, so that whatever is lost or read twice shows. Everything is killed once with SIGKILL, in an order that a seed decides,
each time with some results of what was published last visible and some not, and started again.
"""

import pytest
from tests.broker_crashes.schedule import BROKER, DRIVER, GATEWAY, SINKS, SOURCES, Victim
from tests.broker_crashes.world import World

PAIRS = ["rabbitmq", "rabbitmq-stream", "nats", "nats-consumer", "kafka", "postgresql", "postgresql-outbox"]
SYSTEMS = ["rabbitmq", "nats", "kafka", "postgresql"]
VICTIMS = [Victim(GATEWAY), Victim(DRIVER), *(Victim(role, system) for system in SYSTEMS for role in (SOURCES, SINKS, BROKER))]

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("name", PAIRS)
def test_results_are_as_the_pages_promise(world: World, name: str) -> None:
    pair = world.pairs[name]
    assert pair.findings(pair.rows(), world.published[name]) == []


@pytest.mark.parametrize("name", PAIRS)
def test_everything_is_acknowledged_and_nothing_left_behind(world: World, name: str) -> None:
    pair = world.pairs[name]
    assert world.unacknowledged(pair) == []
    assert pair.left() is None


@pytest.mark.parametrize("victim", VICTIMS, ids=str)
def test_it_was_killed_with_work_under_way(world: World, victim: Victim) -> None:
    for published, visible in world.kills[victim].values():
        assert 0 < visible < published
