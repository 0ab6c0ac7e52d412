from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripts.brokers import Broker
from tests.broker_crashes import kafka, nats, postgresql, rabbitmq
from tests.broker_crashes.pairs import Pair
from tests.broker_crashes.schedule import schedule
from tests.broker_crashes.world import World

SEED = 5
PAIRS: dict[str, Sequence[Callable[[Any], Pair]]] = {
    "rabbitmq": (rabbitmq.QueuePair, rabbitmq.StreamPair),
    "nats": (nats.StreamPair, nats.ConsumerPair),
    "kafka": (kafka.KafkaPair,),
    "postgresql": (postgresql.TablePair, postgresql.OutboxPair),
}
"""Of each system, what makes its pairs at its broker."""


@pytest.fixture
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], AbstractContextManager[World]]:
    """Makes a world of one system in which everything was killed, and that has come to rest since."""

    @contextmanager
    def make(system: str) -> Iterator[World]:
        broker: Broker = request.getfixturevalue(system)
        world = World(tmp_path, [pair(broker) for pair in PAIRS[system]], {system: broker})
        try:
            world.start()
            for victims in schedule(SEED, [system]):
                world.send_kill(victims)
            world.rest()
            yield world
        finally:
            world.dispose()

    return make
