"""What each bundled sink writes to, with a network in front of it that fails."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing

import pytest
from scripts.brokers import Kafka, Nats, PostgreSQL, RabbitMQ
from tests.brokers.network import FaultyNetwork
from tests.connectors.http.receiver import receiving
from tests.connectors.kafka.rig import Log
from tests.connectors.nats.rig import connection, unused
from tests.connectors.nats.rig import server as nats_client
from tests.connectors.postgresql.rig import in_database, temporary_schema
from tests.connectors.rabbitmq.rig import Rabbit

from headrace.connectors import CONNECTORS

PATIENCE = 3600.0
"""How long a micro-batch may wait, in seconds: longer than any test."""

Network = Callable[..., FaultyNetwork]
Told = Mapping[str, object]


@asynccontextmanager
async def http(_: None, network: Network, __: str) -> AsyncIterator[tuple[FaultyNetwork, Told]]:
    async with receiving() as receiver:
        between = network(int(receiver.url.rpartition(":")[2].partition("/")[0]))
        yield between, {"url": f"http://{between.address}/in", "retry_seconds": PATIENCE, "max_backoff_seconds": 1.0}


@asynccontextmanager
async def kafka(broker: Kafka, network: Network, client: str) -> AsyncIterator[tuple[FaultyNetwork, Told]]:
    between = network(broker)
    with closing(Log(broker.url)) as log:
        topic = await asyncio.to_thread(log.create)
        own = {"topic": topic, "state_topic": f"{topic}.ids", "transactional_id": topic, "client": client}
        yield between, {"bootstrap_servers": [between.address], "retry_seconds": PATIENCE, **own}


@asynccontextmanager
async def nats(broker: Nats, network: Network, _: str) -> AsyncIterator[tuple[FaultyNetwork, Told]]:
    between = network(broker.port)
    async with nats_client(broker.url) as client:
        stream = await client.stream()
        yield between, {**connection(broker, between.port), "subject": f"{stream}.x", "retry_seconds": PATIENCE}


@asynccontextmanager
async def postgresql(broker: PostgreSQL, network: Network, name: str) -> AsyncIterator[tuple[FaultyNetwork, Told]]:
    between = network(broker.port)
    with temporary_schema(broker.url, unused("outages").replace("-", "_")) as schema:
        table = f"{schema}.t"
        in_database(broker.url, f"CREATE TABLE {table} (k text PRIMARY KEY, value bytea)")
        keys = {"key_columns": ["k"]} if name == "postgresql-upsert" else {"key_column": "k"}
        yield between, {"url": broker.url_at(between.port), "table": table, "value_column": "value", **keys}


@asynccontextmanager
async def rabbitmq(broker: RabbitMQ, network: Network, _: str) -> AsyncIterator[tuple[FaultyNetwork, Told]]:
    between = network(broker.port)
    with closing(Rabbit(broker)) as rabbit:
        queue = await asyncio.to_thread(rabbit.declare, "classic")
        yield between, {"url": broker.url_at(between.port), "routing_key": queue, "wait_seconds": PATIENCE}


CASES: dict[str, tuple[str, str, str | None, Callable[..., AbstractAsyncContextManager[tuple[FaultyNetwork, Told]]]]] = {
    "http-sink": ("http-sink", "", None, http),
    "kafka-sink": ("kafka-sink", "kafka-python", "kafka", kafka),
    "kafka-sink-librdkafka": ("kafka-sink", "librdkafka", "kafka", kafka),
    "nats-sink": ("nats-sink", "", "nats", nats),
    "postgresql-sink": ("postgresql-sink", "postgresql-sink", "postgresql", postgresql),
    "postgresql-upsert": ("postgresql-upsert", "postgresql-upsert", "postgresql", postgresql),
    "rabbitmq-sink": ("rabbitmq-sink", "", "rabbitmq", rabbitmq),
}
"""The name, the variant, the broker and the system of each sink."""


@asynccontextmanager
async def sink_behind_a_network(
    case: str, sink: str, network: Network, request: pytest.FixtureRequest, patience: float = PATIENCE
) -> AsyncIterator[tuple[object, FaultyNetwork]]:
    """A sink of a name that waits for so long, in seconds, and the network between it and its system."""
    name, variant, broker, system = CASES[case]
    async with system(broker and request.getfixturevalue(broker), network, variant) as (between, told):
        (implementation,) = (known.load() for known in CONNECTORS if known.name == name)
        own = {name: patience if value is PATIENCE else value for name, value in told.items()}
        yield implementation.build(implementation.parameters.model_validate({"sink": sink, **own})), between
