"""Every source, on its real broker, has one policy for a message that the gateway cannot take, and continues with the next."""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import psycopg
import pytest
from pydantic import ValidationError
from tests.connectors.kafka.rig import Log
from tests.connectors.nats.rig import connection
from tests.connectors.nats.rig import server as nats_server
from tests.connectors.rabbitmq.rig import Query, Rabbit, serving, until, values
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors import CONNECTORS, dead_letters
from headrace.connectors.bad_records import BadRecordParameters
from headrace.connectors.file import FILE, FileParameters
from headrace.connectors.http import HTTP, HttpParameters
from headrace.connectors.kafka import KafkaParameters, KafkaSource
from headrace.connectors.nats import (
    NatsConsumerParameters,
    NatsConsumerSource,
    NatsCoreParameters,
    NatsCoreSource,
    NatsParameters,
    NatsSource,
)
from headrace.connectors.postgresql import (
    PostgreSQLOutboxParameters,
    PostgreSQLOutboxSource,
    PostgreSQLParameters,
    PostgreSQLSource,
)
from headrace.connectors.rabbitmq import RabbitMQStreamParameters, RabbitMQStreamSource
from headrace.connectors.tcp import TCP, TcpParameters
from headrace.gateway.config import Limits
from headrace.sdk import AsyncSource, MessageTooLarge, serve

LARGE = b"x" * 70_000
NAME = f"bad{os.getpid()}"

Publish = Callable[[bytes], Awaitable[object]]


async def goes_on(source: AsyncSource, publish: Publish, folder: Path | None, stream: str) -> None:
    """A large message among small ones is kept, or counted, and the small ones arrive."""
    async with gateway_serving(Limits(max_frame_bytes=65_536)) as (_, address):
        reader = Query(address)
        async with serving(source, address) as task:
            await publish(b"first")
            assert values(await reader.read(1)) == [b"first"]
            await publish(LARGE)
            await publish(b"last")
            assert values(await reader.read(2)) == [b"first", b"last"]
            assert not task.done()
        await reader.close()
    assert source.bad_records.total == 1
    if folder is not None:
        (letter,) = dead_letters(folder)
        assert (letter.message.value, letter.sink, letter.stream) == (LARGE, "s", stream)
        assert "makes a frame of 70" in letter.reason


def kept(folder: Path) -> dict[str, object]:
    return {"source": "s", "bad_records": "dead-letter", "dead_letters": folder}


async def test_rabbitmq_stream(rabbitmq, tmp_path):
    rabbit = Rabbit(rabbitmq)
    queue = rabbit.declare("stream")
    source = RabbitMQStreamSource(RabbitMQStreamParameters(url=rabbitmq.url, queue=(queue,), **kept(tmp_path / "dead")))
    await goes_on(source, lambda value: asyncio.to_thread(rabbit.publish, queue, [value]), tmp_path / "dead", f"s/{queue}")
    rabbit.close()


@pytest.mark.behaviour(
    "README",
    "a record above the gateway's `max_frame_bytes`",
    "leaves that record to `bad_records`, and sends the next",
)
async def test_kafka(kafka, tmp_path):
    log = Log(kafka.url)
    topic = log.create()
    source = KafkaSource(KafkaParameters(bootstrap_servers=log.servers, topics=(topic,), **kept(tmp_path / "dead")))
    await goes_on(source, lambda value: asyncio.to_thread(log.append, topic, [value]), tmp_path / "dead", f"s/{topic}-0")
    log.close()


async def test_nats(nats, tmp_path):
    async with nats_server(nats.url) as server:
        stream = await server.stream()
        source = NatsSource(NatsParameters(stream=stream, **connection(nats), **kept(tmp_path / "dead")))
        await goes_on(source, lambda value: server.js.publish(f"{stream}.x", value), tmp_path / "dead", f"s/{stream}")


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
async def test_nats_consumer(nats, tmp_path, policy):
    async with nats_server(nats.url) as server:
        stream = await server.stream(retention="workqueue")
        options = {"source": "s"} if policy == "skip" else kept(tmp_path / "dead")
        source = NatsConsumerSource(NatsConsumerParameters(stream=stream, consumer="c", **connection(nats), **options))
        folder = None if policy == "skip" else tmp_path / "dead"
        await goes_on(source, lambda value: server.js.publish(f"{stream}.x", value), folder, f"s/{stream}")

        async def is_given_up() -> bool:
            info = await server.js.consumer_info(stream, "c")
            # Messages that were unacknowledged when the connector was ended come again; the large message does not.
            return (info.num_ack_pending or 0) + (info.num_pending or 0) <= 1

        await until(is_given_up)


async def test_nats_core(nats):
    async with nats_server(nats.url) as server, gateway_serving(Limits(max_frame_bytes=65_536)) as (_, address):
        source = NatsCoreSource(NatsCoreParameters(source="s", subjects=(NAME,), **connection(nats)))
        reader = Query(address)
        async with serving(source, address):
            async with asyncio.timeout(120):
                while not await reader.batch():
                    await server.client.publish(NAME, b"hello")
            await server.client.publish(NAME, LARGE)
            await server.client.publish(NAME, b"last")
            await reader.read_to(b"last")
        await reader.close()
    assert source.bad_records.total == 1


@pytest.mark.behaviour(
    "README",
    "a record above the gateway's `max_frame_bytes`",
    "leaves that record to `bad_records`, and sends the next",
)
@pytest.mark.parametrize("outbox", [False, True])
async def test_postgresql(postgresql, tmp_path, outbox):
    table = f"{NAME}_{int(outbox)}"
    async with await psycopg.AsyncConnection.connect(postgresql.url, autocommit=True) as database:
        await database.execute(f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value bytea)")
        options = {"url": postgresql.url, "table": table, "poll_seconds": 0.02, **kept(tmp_path / "dead")}
        source = (
            PostgreSQLOutboxSource(PostgreSQLOutboxParameters(**options))
            if outbox
            else PostgreSQLSource(PostgreSQLParameters(value_column="value", **options))
        )
        await goes_on(
            source, lambda value: database.execute(f"INSERT INTO {table} (value) VALUES (%s)", (value,)), tmp_path / "dead", "s/0"
        )
        await database.execute(f"DROP TABLE {table}")


@pytest.mark.behaviour(
    "postgresql",
    "an event time outside the years 1 to 9999",
    "leaves that row to `bad_records`; an infinite time is null",
)
async def test_a_row_whose_event_time_does_not_fit_is_left_out_alone(postgresql):
    table = f"{NAME}_time"
    async with await psycopg.AsyncConnection.connect(postgresql.url, autocommit=True) as database:
        await database.execute(f"CREATE TABLE {table} (id bigserial PRIMARY KEY, value text, at timestamptz)")
        rows = "('a', '2026-01-31'), ('late', '294276-12-31'), ('b', 'infinity'), ('c', NULL)"
        await database.execute(f"INSERT INTO {table} (value, at) VALUES {rows}")
        options = {"url": postgresql.url, "table": table, "value_column": "value", "event_time_column": "at"}
        source = PostgreSQLSource(PostgreSQLParameters(source="s", bad_records="skip", **options))
        async with gateway_serving() as (_, address):
            reader = Query(address)
            async with serving(source, address):
                messages = await reader.read(3)
            await reader.close()
        assert [(message.value, message.sequence) for message in messages] == [(b"a", 1), (b"b", 3), (b"c", 4)]
        assert source.bad_records.total == 1
        await database.execute(f"DROP TABLE {table}")


async def test_file(tmp_path):
    path = tmp_path / "f"
    source = FILE.build(FileParameters(path=(path,), **kept(tmp_path / "dead")))
    path.touch()

    async def publish(value: bytes) -> None:
        with path.open("ab") as file:
            file.write(value + b"\n")

    await goes_on(source, publish, tmp_path / "dead", "s/f")


@pytest.mark.behaviour(
    "README",
    "a record above the gateway's `max_frame_bytes`",
    "leaves that record to `bad_records`, and sends the next",
)
async def test_tcp(tmp_path):
    source = TCP.build(TcpParameters(listen="127.0.0.1:0", **kept(tmp_path / "dead")))

    async def publish(value: bytes) -> None:
        await until(lambda: source.port is not None)
        _, writer = await asyncio.open_connection("127.0.0.1", source.port)
        writer.write(struct.pack(">I", len(value)) + value)
        writer.close()
        await writer.wait_closed()

    await goes_on(source, publish, tmp_path / "dead", "s/0")


async def test_http(tmp_path):
    source = HTTP.build(HttpParameters(listen="127.0.0.1:0", **kept(tmp_path / "dead")))
    statuses: list[int] = []
    requests: list[asyncio.Task[None]] = []

    async with aiohttp.ClientSession() as client:

        async def post(value: bytes) -> None:
            await until(lambda: source.port is not None)
            async with client.post(f"http://127.0.0.1:{source.port}/", data=value) as response:
                statuses.append(response.status)

        async def publish(value: bytes) -> None:
            requests.append(asyncio.create_task(post(value)))
            if value == LARGE:
                await requests[-1]

        await goes_on(source, publish, tmp_path / "dead", "s/0")
        await asyncio.wait(requests, timeout=120)
    assert 413 in statuses


async def test_fail_ends_the_connector(tmp_path):
    (tmp_path / "f").write_bytes(b"first\n" + LARGE + b"\n")
    async with gateway_serving(Limits(max_frame_bytes=65_536)) as (_, address):
        reader = Query(address)
        task = asyncio.create_task(serve(FILE.build(FileParameters(path=(tmp_path / "f",), source="s")), gateway=address))
        assert values(await reader.read(1)) == [b"first"]
        with pytest.raises(MessageTooLarge, match="stream s/f: message 70007 makes a frame of 70"):
            await asyncio.wait_for(task, 120)
        await reader.close()


def test_every_source_has_the_policy():
    sources = [connector for connector in CONNECTORS if connector.kind == "source"]
    assert len(sources) >= 9
    for connector in sources:
        assert issubclass(connector.load().parameters, BadRecordParameters), connector.name


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bad_records": "dead-letter"}, "name a folder"),
        ({"dead_letters": "dead"}, "set bad_records to dead-letter"),
        ({"bad_records": "drop"}, "fail"),
    ],
)
def test_a_policy_that_cannot_be_is_told(options, said):
    with pytest.raises(ValidationError, match=said):
        FileParameters(path=("f",), source="s", **options)
