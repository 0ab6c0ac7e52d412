"""Connectors on their real brokers are named when they stop reading: here, each is made to forget to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import psycopg
import pytest
from scripts.brokers import Kafka, Nats, PostgreSQL, RabbitMQ
from tests.connectors.kafka.rig import Log
from tests.connectors.nats.rig import connection, server
from tests.connectors.rabbitmq.rig import Rabbit
from tests.health.site import Site
from tests.health.test_parts import querying

from headrace.connectors.kafka import KafkaParameters, KafkaSource
from headrace.connectors.nats import NatsConsumerParameters, NatsConsumerSource, NatsParameters, NatsSource
from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource
from headrace.connectors.rabbitmq import RabbitMQParameters, RabbitMQQueueSource
from headrace.sdk import AsyncSource, Position, serve

MESSAGES = 30_000
"""More than any of them reads at once."""
Read = Callable[[str, Position | None], AsyncIterator[Any]]


def forgetful(read: Read) -> Read:
    """Reads until there is something, and never again, although the source seems to work."""

    async def only_a_little(partition: str, position: Position | None) -> AsyncIterator[Any]:
        items = read(partition, position)
        async for item in items:
            if item is not None:
                break
            yield None
        try:
            while True:
                yield None
        finally:
            await items.aclose()  # type: ignore[attr-defined]

    return only_a_little


@pytest.mark.timeout(900)
async def test_each_connector_that_stops_reading_is_named(
    kafka: Kafka, nats: Nats, postgresql: PostgreSQL, rabbitmq: RabbitMQ, here: Site
) -> None:
    log, rabbit = Log(kafka.url), Rabbit(rabbitmq)
    topic, queue, table = log.create(), rabbit.declare("classic"), "stalls"
    await asyncio.to_thread(log.append, topic, [b"%d" % number for number in range(MESSAGES)])
    await asyncio.to_thread(rabbit.publish, queue, [b"%d" % number for number in range(1000)])
    with psycopg.connect(postgresql.url, autocommit=True) as database:
        database.execute(f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value text)")
        database.execute(f"INSERT INTO {table} (value) SELECT 'x' FROM generate_series(1, {MESSAGES})")
    async with server(nats.url) as others, AsyncExitStack() as stack:
        stream, work = await others.stream(), await others.stream(retention="workqueue")
        for name in (stream, work):
            await others.numbers(f"{name}.x", MESSAGES)
        sources: dict[str, AsyncSource] = {
            f"kafka/{topic}-0": KafkaSource(KafkaParameters(source="kafka", bootstrap_servers=log.servers, topics=(topic,))),
            f"nats/{stream}": NatsSource(NatsParameters.model_validate({"source": "nats", "stream": stream, **connection(nats)})),
            f"consumer/{work}": NatsConsumerSource(
                NatsConsumerParameters.model_validate({"source": "consumer", "stream": work, "consumer": "c", **connection(nats)})
            ),
            "postgresql/0": PostgreSQLSource(
                PostgreSQLParameters.model_validate(
                    {"source": "postgresql", "url": postgresql.url, "table": table, "value_column": "value"}
                )
            ),
            f"rabbitmq/{queue}": RabbitMQQueueSource(RabbitMQParameters(source="rabbitmq", url=rabbitmq.url, queue=(queue,))),
        }
        tasks = []
        for name, source in sources.items():
            source.read = forgetful(source.read)  # type: ignore[method-assign]
            await stack.enter_async_context(querying(here, name.partition("/")[0]))
            tasks.append(asyncio.create_task(serve(source, gateway=here.address)))
        for name in sources:
            await here.names("source-stalled", f"stream {name}", "it lags by ")
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    rabbit.close()
    log.close()
