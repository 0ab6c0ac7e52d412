"""What each bundled sink writes to, with a network in front of it that fails, and which can be frozen itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial

import psycopg
import pytest
from scripts.brokers import Broker, Kafka, Nats, PostgreSQL, RabbitMQ
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
ANSWERS_WITHIN_S = 5.0
"""How long an answer may take, where that is a setting, so that a system which is frozen is noticed soon."""

OUTAGES = ("refuses", "frozen")
AT_LEAST_ONCE = {"http-sink", "nats-sink", "rabbitmq-sink"}
"""They may write again what they had sent before an outage."""
LIMITS = {
    "http-sink": ("retry_seconds", 0.5),
    "kafka-sink": ("retry_seconds", 15.0),
    "kafka-sink-librdkafka": ("retry_seconds", 15.0),
    "nats-sink": ("retry_seconds", 0.5),
    "rabbitmq-sink": ("wait_seconds", 0.5),
}
"""The setting that limits how long each sink waits, and a low value; sinks of PostgreSQL wait without a limit."""

Network = Callable[..., FaultyNetwork]


@dataclass(frozen=True)
class System:
    """The system that a sink writes to.

    Attributes:
        network: The network in front of it.
        told: The parameters of a sink that writes to it.
        stored: Gives the values that it has now, as others read them.
        freeze: Has it stand still: it keeps its connections, and its kernel accepts new ones; nobody answers.
        thaw: Ends that.
    """

    network: FaultyNetwork
    told: Mapping[str, object]
    stored: Callable[[], Awaitable[list[bytes]]]
    freeze: Callable[[], None]
    thaw: Callable[[], None]

    def fail(self, outage: str) -> None:
        """Begins an outage of `OUTAGES`."""
        self.network.refuse() if outage == "refuses" else self.freeze()

    def repair(self, outage: str) -> None:
        """Ends it."""
        self.network.restore() if outage == "refuses" else self.thaw()


def of_broker(
    broker: Broker, network: FaultyNetwork, stored: Callable[[], Awaitable[list[bytes]]], told: Mapping[str, object]
) -> System:
    return System(network, told, stored, broker.freeze, broker.thaw)


@asynccontextmanager
async def http(_: None, network: Network, __: str) -> AsyncIterator[System]:
    async with receiving() as receiver:
        between = network(int(receiver.url.rpartition(":")[2].partition("/")[0]))

        async def stored() -> list[bytes]:
            return receiver.bodies

        def freeze() -> None:
            receiver.hold = asyncio.Event()

        def thaw() -> None:
            if receiver.hold is not None:
                receiver.hold.set()
                receiver.hold = None

        told = {"url": f"http://{between.address}/in", "retry_seconds": PATIENCE, "max_backoff_seconds": 1.0}
        yield System(between, {**told, "timeout_seconds": ANSWERS_WITHIN_S}, stored, freeze, thaw)
        thaw()


@asynccontextmanager
async def kafka(broker: Kafka, network: Network, client: str) -> AsyncIterator[System]:
    between = network(broker)
    with closing(Log(broker.url)) as log:
        topic = await asyncio.to_thread(log.create)
        own = {"topic": topic, "state_topic": f"{topic}.ids", "transactional_id": topic, "client": client}
        told = {"bootstrap_servers": [between.address], "retry_seconds": PATIENCE, **own}
        yield of_broker(broker, between, lambda: asyncio.to_thread(log.values, topic), told)


@asynccontextmanager
async def nats(broker: Nats, network: Network, _: str) -> AsyncIterator[System]:
    between = network(broker.port)
    async with nats_client(broker.url) as client:
        stream = await client.stream()

        async def stored() -> list[bytes]:
            await client.answers()
            return [message.data for message in await client.stored(stream)]

        told = {**connection(broker, between.port), "subject": f"{stream}.x", "retry_seconds": PATIENCE}
        yield of_broker(broker, between, stored, told)


@asynccontextmanager
async def postgresql(broker: PostgreSQL, network: Network, name: str) -> AsyncIterator[System]:
    between = network(broker.port)
    with temporary_schema(broker.url, unused("outages").replace("-", "_")) as schema:
        table = f"{schema}.t"
        in_database(broker.url, f"CREATE TABLE {table} (k text PRIMARY KEY, value bytea)")

        def select() -> list[bytes]:
            with psycopg.connect(broker.url) as database:
                return [value for (value,) in database.execute(f"SELECT value FROM {table}")]

        keys = {"key_columns": ["k"]} if name == "postgresql-upsert" else {"key_column": "k"}
        told = {"url": broker.url_at(between.port), "table": table, "value_column": "value", **keys}
        stored = partial(asyncio.to_thread, select)
        yield of_broker(broker, between, stored, {**told, "timeout_seconds": ANSWERS_WITHIN_S})


@asynccontextmanager
async def rabbitmq(broker: RabbitMQ, network: Network, _: str) -> AsyncIterator[System]:
    between = network(broker.port)
    with closing(Rabbit(broker)) as rabbit:
        queue = await asyncio.to_thread(rabbit.declare, "classic")
        told = {"url": broker.url_at(between.port), "routing_key": queue, "wait_seconds": PATIENCE}
        yield of_broker(broker, between, lambda: asyncio.to_thread(rabbit.look, queue), told)


CASES: dict[str, tuple[str, str, str | None, Callable[..., AbstractAsyncContextManager[System]]]] = {
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
) -> AsyncIterator[tuple[object, System]]:
    """A sink of a name that waits for some seconds, and the system behind a network that it writes to."""
    _, variant, broker, system = CASES[case]
    async with system(broker and request.getfixturevalue(broker), network, variant) as found:
        yield sink_to(case, sink, found, patience), found


def sink_to(case: str, sink: str, system: System, patience: float = PATIENCE) -> object:
    """Makes a sink of a name that writes to a system, and waits for some seconds."""
    (implementation,) = (known.load() for known in CONNECTORS if known.name == CASES[case][0])
    own = {name: patience if value is PATIENCE else value for name, value in system.told.items()}
    return implementation.build(implementation.parameters.model_validate({"sink": sink, **own}))
