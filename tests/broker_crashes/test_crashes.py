"""Connectors on a real broker, while all of them, the broker, the gateway and Spark are killed in turn.

Messages are published to all pairs of a source and a sink of one system. The query between them keeps a count and a checksum of
each key of each pair, so that whatever is lost or read twice shows. Everything is killed once with SIGKILL, in an order that a
seed decides, each time with some results of what was published last visible and some not, and started again.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from tests.broker_crashes.conftest import shared_victims
from tests.broker_crashes.schedule import BROKER, SINKS, SOURCES, Victim
from tests.broker_crashes.world import World
from tests.selection.turns import in_turns

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("system", in_turns(["rabbitmq", "nats", "kafka", "postgresql"], of=4))
def test_results_are_as_the_pages_promise(
    system: str, killed: Callable[[str], AbstractContextManager[World]], pytestconfig: pytest.Config
) -> None:
    with killed(system) as world:
        victims = [Victim(role, system) for role in (SOURCES, SINKS, BROKER)]
        assert {*world.kills} == {*shared_victims(system, pytestconfig), *victims}
        for kills in world.kills.values():
            # Each was killed with work under way.
            assert all(0 < visible < published for published, visible in kills.values())
        for name, pair in world.pairs.items():
            assert pair.findings(pair.rows(), world.published[name]) == [], name
            # Everything is acknowledged, and nothing left behind; a broker may still deliver again what it was not told of.
            world.wait_for(f"{name} is acknowledged", lambda pair=pair: not world.unacknowledged(pair))
            assert pair.left() is None, name
