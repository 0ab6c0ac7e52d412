import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripts.brokers import Broker
from tests.broker_crashes import kafka, nats, postgresql, rabbitmq
from tests.broker_crashes.pairs import Pair
from tests.broker_crashes.schedule import DRIVER, GATEWAY, Victim, schedule
from tests.broker_crashes.world import World

SEED = 5
PAIRS: dict[str, Sequence[Callable[[Any], Pair]]] = {
    "rabbitmq": (rabbitmq.QueuePair, rabbitmq.StreamPair),
    "nats": (nats.StreamPair, nats.ConsumerPair),
    "kafka": (kafka.KafkaPair,),
    "postgresql": (postgresql.TablePair, postgresql.OutboxPair),
}
"""Of each system, what makes its pairs at its broker."""


def shared_victims(system: str, config: pytest.Config) -> set[Victim]:
    """What is killed though no system owns it: with one system by `--kill-seed`, or all with `--every-pair`, the driver, too.

    Brokers and connectors do not notice that a driver dies; they notice that the gateway does.
    """
    chosen = random.Random(str(config.getoption("kill_seed"))).choice([*PAIRS])
    return {Victim(GATEWAY), *([Victim(DRIVER)] if system == chosen or config.getoption("every_pair") else [])}


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
                if victims != [Victim(DRIVER)] or {*victims} <= shared_victims(system, request.config):
                    world.send_kill(victims)
            world.rest()
            yield world
        finally:
            world.dispose()

    return make
