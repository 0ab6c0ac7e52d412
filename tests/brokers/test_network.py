"""The network in front of brokers: what clients see while it is cut, refuses, and is whole again."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest
from kafka.admin import KafkaAdminClient
from scripts.brokers import Kafka
from tests.brokers.network import FaultyNetwork

DEADLINE_S = 90.0


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """The port of a server that gives back what it is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def said(reader: asyncio.StreamReader, count: int) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        return await reader.readexactly(count)


async def test_everything_passes_in_both_directions_to_the_end(echo: int, network: Callable[[int], FaultyNetwork]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", network(echo).port)
    data = bytes(range(256)) * 20_000
    writer.write(data)
    writer.write_eof()
    assert await said(reader, len(data)) == data
    assert await reader.read() == b""
    writer.close()


async def test_what_is_cut_hangs_and_arrives_later(echo: int, network: Callable[[int], FaultyNetwork]) -> None:
    net = network(echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", net.port)
    writer.write(b"one")
    assert await said(reader, 3) == b"one"
    net.cut()
    writer.write(b"two")
    new_reader, new_writer = await asyncio.open_connection("127.0.0.1", net.port)
    new_writer.write(b"new")
    waiting = [asyncio.create_task(said(each, 3)) for each in (reader, new_reader)]
    done, _ = await asyncio.wait(waiting, timeout=0.1)
    assert not done
    net.restore()
    assert [await each for each in waiting] == [b"two", b"new"]
    for each in (writer, new_writer):
        each.close()


async def test_what_is_refused_is_reset(echo: int, network: Callable[[int], FaultyNetwork]) -> None:
    net = network(echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", net.port)
    writer.write(b"one")
    assert await said(reader, 3) == b"one"
    net.refuse()
    with pytest.raises(ConnectionResetError):
        await said(reader, 1)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", net.port)
    net.restore()
    reader, writer = await asyncio.open_connection("127.0.0.1", net.port)
    writer.write(b"two")
    assert await said(reader, 3) == b"two"
    net.reset()
    with pytest.raises(ConnectionResetError):
        await said(reader, 1)
    writer.close()


async def test_a_server_that_is_away_resets(network: Callable[[int], FaultyNetwork]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    port = network(port).port

    async def connected() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            await said(reader, 1)

    # The reset may be there before the connection has been taken note of.
    with pytest.raises(ConnectionResetError):
        await connected()


def test_clients_of_kafka_go_on_by_the_network_that_they_came_by(kafka: Kafka, network: Callable[[Kafka], FaultyNetwork]) -> None:
    net = network(kafka)
    client = KafkaAdminClient(bootstrap_servers=kafka.url_at(net.port))
    assert [broker["port"] for broker in client.describe_cluster()["brokers"]] == [net.port]
    client.close()
