from collections.abc import Iterator

import pytest
from scripts.brokers import Kafka, Nats, PostgreSQL, RabbitMQ
from tests.broker_crashes import kafka as kafka_pairs
from tests.broker_crashes import nats as nats_pairs
from tests.broker_crashes import postgresql as postgresql_pairs
from tests.broker_crashes import rabbitmq as rabbitmq_pairs
from tests.broker_crashes.schedule import schedule
from tests.broker_crashes.world import World

SEED = 5


@pytest.fixture(scope="module")
def world(
    rabbitmq: RabbitMQ, nats: Nats, kafka: Kafka, postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A world in which everything was killed, and that has come to rest since."""
    brokers = {"rabbitmq": rabbitmq, "nats": nats, "kafka": kafka, "postgresql": postgresql}
    pairs = [
        rabbitmq_pairs.QueuePair(rabbitmq),
        rabbitmq_pairs.StreamPair(rabbitmq),
        nats_pairs.StreamPair(nats),
        nats_pairs.ConsumerPair(nats),
        kafka_pairs.KafkaPair(kafka),
        postgresql_pairs.TablePair(postgresql),
        postgresql_pairs.OutboxPair(postgresql),
    ]
    world = World(tmp_path_factory.mktemp("world"), pairs, brokers)
    try:
        world.start()
        for victims in schedule(SEED, list(brokers)):
            world.send_kill(victims)
        world.rest()
        yield world
    finally:
        world.dispose()
