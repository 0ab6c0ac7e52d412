"""Connectors on their real brokers are named when they stop reading: here, each is made to forget to."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from scripts.brokers import Kafka, Nats, PostgreSQL, RabbitMQ
from tests.connectors.kafka.rig import Log
from tests.connectors.nats.rig import connection, server
from tests.connectors.rabbitmq.rig import Rabbit
from tests.health.flows import querying
from tests.health.site import Site

from headrace.connectors.file import FileSource
from headrace.connectors.http import HttpParameters, HttpSource
from headrace.connectors.kafka import KafkaParameters, KafkaSource
from headrace.connectors.nats import (
    NatsConsumerParameters,
    NatsConsumerSource,
    NatsCoreParameters,
    NatsCoreSource,
    NatsParameters,
    NatsSource,
)
from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource
from headrace.connectors.rabbitmq import (
    RabbitMQParameters,
    RabbitMQQueueSource,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
)
from headrace.connectors.tcp import TcpParameters, TcpSource
from headrace.sdk import AsyncSource, Position, serve

MESSAGES = 30_000
"""More than any of them reads at once."""
Read = Callable[[str, Position | None], AsyncIterator[Any]]


def forgetful(read: Read, again: asyncio.Event) -> Read:
    """Reads until there is something, and then no more until the test lets it, although the source seems to work."""

    async def only_a_little(partition: str, position: Position | None) -> AsyncIterator[Any]:
        items = read(partition, position)
        async for item in items:
            if item is not None:
                break
            yield None
        try:
            while not again.is_set():
                yield None
            yield item
            async for item in items:
                yield item
        finally:
            await items.aclose()  # type: ignore[attr-defined]

    return only_a_little


@pytest.mark.timeout(900)
async def test_each_connector_that_stops_reading_is_named(
    kafka: Kafka, nats: Nats, postgresql: PostgreSQL, rabbitmq: RabbitMQ, here: Site
) -> None:
    log, rabbit = Log(kafka.url), Rabbit(rabbitmq)
    topic, queue, offsets, table = log.create(), rabbit.declare("classic"), rabbit.declare("stream"), "stalls"
    await asyncio.to_thread(log.append, topic, [b"%d" % number for number in range(MESSAGES)])
    for each in (queue, offsets):
        await asyncio.to_thread(rabbit.publish, each, [b"%d" % number for number in range(1000)])
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
            # All messages of the queue could arrive before the first look, and be read at once.
            f"rabbitmq/{queue}": RabbitMQQueueSource(
                RabbitMQParameters(source="rabbitmq", url=rabbitmq.url, queue=(queue,), prefetch=100)
            ),
            f"offsets/{offsets}": RabbitMQStreamSource(
                RabbitMQStreamParameters(source="offsets", url=rabbitmq.url, queue=(offsets,), prefetch=10)
            ),
        }
        tasks, again = [], asyncio.Event()
        for name, source in sources.items():
            source.read = forgetful(source.read, again)  # type: ignore[method-assign]
            await stack.enter_async_context(querying(here, name.partition("/")[0]))
            tasks.append(asyncio.create_task(serve(source, gateway=here.address)))
        for name in sources:
            await here.names("source-stalled", f"stream {name}", "it lags by ")
        again.set()
        await here.clears(*(f"stream {name}" for name in sources))
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    rabbit.close()
    log.close()


@pytest.mark.timeout(600)
async def test_each_connector_that_stops_passing_on_what_it_receives_is_named(nats: Nats, here: Site, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes((b"x" * 499 + b"\n") * MESSAGES)
    http = HttpSource(HttpParameters(source="http", listen="127.0.0.1:0", streams="one", answer_seconds=600))
    tcp = TcpSource(TcpParameters(source="tcp", listen="127.0.0.1:0"))
    core = NatsCoreSource(NatsCoreParameters.model_validate({"source": "core", "subjects": ["stalls.>"], **connection(nats)}))
    sources: dict[str, AsyncSource] = {
        "file/lines": FileSource("file", [tmp_path / "lines"], root=tmp_path),
        "http/0": http,
        "tcp/0": tcp,
        "core/0": core,
    }
    async with server(nats.url) as others, AsyncExitStack() as stack:
        tasks, again = [], asyncio.Event()
        for name, source in sources.items():
            source.read = forgetful(source.read, again)  # type: ignore[method-assign]
            await stack.enter_async_context(querying(here, name.partition("/")[0]))
            tasks.append(asyncio.create_task(serve(source, gateway=here.address)))
        tasks.append(asyncio.create_task(posted(http)))
        tasks.append(asyncio.create_task(sent(tcp)))

        async def published() -> None:
            while True:
                await others.client.publish("stalls.x", b"x")
                await asyncio.sleep(0.05)

        tasks.append(asyncio.create_task(published()))
        for name in sources:
            await here.names("source-stalled", f"stream {name}", "it lags by ")
        again.set()
        await here.clears(*(f"stream {name}" for name in sources))
        # Clients end before the servers that they call.
        for task in reversed(tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def listens(source: HttpSource | TcpSource) -> int:
    """Waits until a source listens; returns its port."""
    while source.port is None:  # noqa: ASYNC110 - there is no event to wait on
        await asyncio.sleep(0.01)
    return source.port


async def posted(source: HttpSource) -> None:
    """Posts messages, and waits for their answers."""
    url = f"http://127.0.0.1:{await listens(source)}/"
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as posts:
        for _ in range(20):
            posts.create_task(session.post(url, data=b"x").__aenter__())


async def sent(source: TcpSource) -> None:
    """Sends messages on connections of their own, and keeps these open."""
    port = await listens(source)
    async with AsyncExitStack() as open_:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            open_.callback(writer.close)
            writer.write(struct.pack(">I", 1) + b"x")
            await writer.drain()
        await asyncio.Event().wait()
