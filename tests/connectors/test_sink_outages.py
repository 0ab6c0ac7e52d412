"""An outage of what a sink writes to fails no micro-batch: each bundled sink reports for whom it waits, and writes then."""

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
from tests.fake_gateway.sinks import frame_of
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Engine
from tests.gateway.wire import serve as gateway
from tests.sdk.test_sinks_with_gateway import serving, visible

from headrace.connectors import CONNECTORS, Connector
from headrace.protocol.v1 import admin_pb2, connector_pb2

SINKS = {known.name: known for known in CONNECTORS if known.kind == "sink"}
WITHOUT_A_SYSTEM = {"file-sink", "stdout-sink"}
"""They write to files of their own machine: there is nobody to wait for."""
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


def test_each_sink_that_has_a_system_is_tried() -> None:
    assert {name for name, *_ in CASES.values()} | WITHOUT_A_SYSTEM == set(SINKS)


async def write(writer: Writer, batch: int) -> None:
    """Writes and commits a micro-batch of one message, as a query does."""
    await writer.deliver_packed(writer.part(batch), frame_of([b"%d" % batch], keys=[b"%d" % batch]))
    await writer.vote(batch)
    await visible(writer, batch)


def reports(status: admin_pb2.GetStatusResponse) -> list[tuple[int, str]]:
    """What the sessions of sinks report."""
    return [(session.reported.state, session.reported.reason) for session in status.sink_sessions]


@pytest.mark.parametrize("batch", [0, 1], ids=["first", "later"])
@pytest.mark.parametrize("case", CASES)
async def test_a_sink_waits_and_reports_for_whom(case: str, batch: int, network: Network, request: pytest.FixtureRequest) -> None:
    name, variant, broker, system = CASES[case]
    known: Connector = SINKS[name]
    async with gateway() as (_, address), system(broker and request.getfixturevalue(broker), network, variant) as (between, told):
        implementation = known.load()
        sink = implementation.build(implementation.parameters.model_validate({"sink": "out", **told}))
        writer, admin = Writer(address), Engine(address)
        async with serving(sink, address):
            await writer.report_commits()
            await admin.status_once(lambda status: len(status.sink_sessions) == 1)
            for done in range(batch):
                await write(writer, done)
            between.refuse()
            writing = asyncio.create_task(write(writer, batch))
            waiting = await admin.status_once(
                lambda status: [state for state, _ in reports(status)] == [connector_pb2.CONNECTOR_STATE_WAITING]
            )
            ((_, reason),) = reports(waiting)
            assert f"127.0.0.1:{between.port}" in reason
            assert not writing.done()
            between.restore()
            await writing
            await admin.status_once(lambda status: reports(status) == [(connector_pb2.CONNECTOR_STATE_RUNNING, "")])
        await writer.close()
        await admin.close()
