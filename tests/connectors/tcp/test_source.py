"""The TCP source, with a gateway in this process and real clients."""

import asyncio
import logging
import random
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.brokers.network import FaultyNetwork
from tests.connectors.programs import free_port, listening
from tests.connectors.query import Query, querying, serving
from tests.fake_gateway.server import until
from tests.gateway.certificates import Authority
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

from headrace.connectors.tcp import TCP, TcpParameters, TcpSource
from headrace.connectors.tcp.client import cut
from headrace.sdk import InvalidSource


def framed(*values: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(value)) + value for value in values)


@dataclass
class Rig:
    """A source that a query reads."""

    source: TcpSource
    query: Query
    network: FaultyNetwork
    """Between the source and the gateway."""
    stack: AsyncExitStack

    async def client(self, **options: object) -> asyncio.StreamWriter:
        return (await self.both(**options))[1]

    async def both(self, **options: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.source.port, **options)
        self.stack.callback(writer.close)
        return reader, writer

    async def read(self, count: int) -> list[bytes | None]:
        values = await self.query.values("trades/0", count)
        await self.query.commit()
        return values


@pytest.fixture
async def rig(network) -> AsyncIterator[Callable[..., object]]:
    async with AsyncExitStack() as stack:

        async def make(**parameters: object) -> Rig:
            _, address = await stack.enter_async_context(gateway())
            between = network(int(address.rpartition(":")[2]))
            query = await stack.enter_async_context(querying(address, "trades/*"))
            source = TcpSource(TcpParameters(source="trades", listen="127.0.0.1:0", **parameters))
            await stack.enter_async_context(serving(source, between.address))
            await until(lambda: source.port is not None)
            return Rig(source, query, between, stack)

        yield make


async def ended(reader: asyncio.StreamReader) -> None:
    """Waits until the other side has ended a connection."""
    async with asyncio.timeout(DEADLINE_S):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""


# What is received


async def test_messages_arrive_in_order_however_they_are_cut(rig):
    tcp = await rig()
    values = [b"", b"x", bytes(range(256)), *(b"%d" % n for n in range(100)), bytes(1 << 20)]
    writer = await tcp.client()
    data, choice = framed(*values), random.Random(7)
    while data:
        size = choice.choice([1, 3, 100, 70_000])
        writer.write(data[:size])
        await writer.drain()
        data = data[size:]
    assert await tcp.read(len(values)) == values


async def test_many_clients_at_a_time_keep_their_order(rig):
    tcp = await rig()

    async def send(name: int) -> None:
        writer = await tcp.client()
        for number in range(50):
            writer.write(framed(b"%d %d" % (name, number)))
            await writer.drain()

    await asyncio.gather(*map(send, range(40)))
    values = await tcp.read(2000)
    for name in range(40):
        assert [value for value in values if value.split()[0] == b"%d" % name] == [b"%d %d" % (name, n) for n in range(50)]


async def test_messages_have_the_time_of_their_arrival(rig):
    tcp = await rig()
    (await tcp.client()).write(framed(b"one", b"two"))
    messages = await tcp.query.batch("trades/0", 2)
    assert len({message.event_time for message in messages}) == 1
    assert messages[0].event_time > 1_700_000_000_000_000


@given(values=st.lists(st.binary(max_size=20)), chunks=st.lists(st.integers(1, 30)))
def test_bytes_cut_anywhere_give_the_same_messages(values, chunks):
    data, rest, joined, lengths = framed(*values), b"", b"", []
    while data:
        size = chunks.pop() if chunks else len(data)
        rest, data = rest + data[:size], data[size:]
        found = cut(rest, 20)
        joined += found.values.data
        lengths += found.values.lengths
        rest = rest[found.end :]
        assert found.too_long is None
        assert len(rest) < found.needed
    assert (joined, lengths, rest) == (b"".join(values), list(map(len, values)), b"")


# Faults


async def test_what_a_lost_session_was_given_comes_again(rig):
    tcp = await rig()
    writer = await tcp.client()
    writer.write(framed(b"one", b"two"))
    assert await tcp.query.values("trades/0", 2) == [b"one", b"two"]
    tcp.network.refuse()
    writer.write(framed(b"three"))
    tcp.network.restore()
    assert await tcp.read(3) == [b"one", b"two", b"three"]


async def test_a_gateway_that_is_away_is_waited_for_while_clients_send(rig):
    tcp = await rig()
    writer = await tcp.client()
    tcp.network.refuse()
    values = [b"%d" % number for number in range(1000)]
    writer.write(framed(*values))
    await writer.drain()
    (await tcp.client()).write(framed(b"other"))
    tcp.network.restore()
    received = await tcp.read(1001)
    assert [value for value in received if value != b"other"] == values


async def test_clients_are_not_read_while_too_much_waits(rig):
    tcp = await rig(buffer_bytes=100_000)
    writer = await tcp.client()
    values = [bytes([n]) * 100_000 for n in range(100)]
    writer.write(framed(*values))
    draining = asyncio.create_task(writer.drain())
    received: list[bytes | None] = []
    (await tcp.client()).write(framed(b"other"))
    assert not draining.done()
    while len(received) < 101:
        received += await tcp.read(1)
        assert sum(map(len, received[-100:])) <= 101 * 100_000
    await draining
    assert [value for value in received if value != b"other"] == values


@pytest.mark.behaviour(
    "tcp",
    "a length above `max_message_bytes`, or an HTTP request",
    "ends that connection, and logs the length",
)
@pytest.mark.parametrize(
    ("hostile", "length"),
    [
        (b"GET / HTTP/1.1\r\n", 1195725856),
        (b"\0\0\0\x0bhello world", 11),
        (b"\x80\0\0\0", 1 << 31),
        (b"\xff\xff\xff\xff", (1 << 32) - 1),
    ],
)
async def test_a_length_that_is_too_large_ends_only_its_connection(rig, caplog, hostile, length):
    tcp = await rig(max_message_bytes=10)
    good = await tcp.client()
    good.write(framed(b"0123456789"))
    reader, bad = await tcp.both()
    bad.write(framed(b"before") + hostile)
    await ended(reader)
    assert f"announced a message of {length} bytes; the limit is 10" in caplog.text
    good.write(framed(b"after"))
    assert sorted(await tcp.read(3)) == [b"0123456789", b"after", b"before"]


@pytest.mark.behaviour("tcp", "a connection that breaks within a message", "loses and logs that message")
async def test_a_connection_that_is_cut_within_a_message_loses_only_that_one(rig, caplog):
    tcp = await rig()
    writer = await tcp.client()
    writer.write(framed(b"whole") + framed(b"half")[:6])
    assert await tcp.read(1) == [b"whole"]
    writer.transport.abort()
    await until(lambda: "disconnected within a message, which is lost" in caplog.text)
    (await tcp.client()).write(framed(b"next"))
    assert await tcp.read(1) == [b"next"]


async def test_a_message_that_does_not_come_ends_its_connection(rig, caplog):
    tcp = await rig(message_seconds=0.1)
    idle = await tcp.client()
    idle.write(framed(b"one"))
    reader, slow = await tcp.both()
    slow.write(b"\0\0")
    await ended(reader)
    assert "did not arrive within 0.1 s (message_seconds)" in caplog.text
    idle.write(framed(b"two"))
    assert await tcp.read(2) == [b"one", b"two"]


async def test_a_connector_that_is_killed_breaks_its_connections_and_begins_anew():
    port = free_port()

    async def start() -> asyncio.subprocess.Process:
        arguments = ("--listen", f"127.0.0.1:{port}", "--source", "trades", "--gateway", address)
        command = [sys.executable, "-m", "headrace.cli", "connector", "run", "tcp", *arguments]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        await listening(port)
        return process

    async with gateway() as (_, address), querying(address, "trades/*") as query:
        for number in range(2):
            process = await start()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(framed(b"%d" % number))
            assert await query.values("trades/0", 1) == [b"%d" % number]
            await query.commit()
            process.kill()
            await process.wait()
            await ended(reader)
            writer.close()
            await query.until_alone()


async def test_more_clients_than_are_allowed_are_turned_away(rig, caplog):
    tcp = await rig(max_clients=1)
    first = await tcp.client()
    first.write(framed(b"one"))
    assert await tcp.read(1) == [b"one"]
    reader, _ = await tcp.both()
    await ended(reader)
    assert "1 clients are already connected (max_clients)" in caplog.text
    with caplog.at_level(logging.INFO):
        first.close()
        await until(lambda: ": disconnected" in caplog.text)
    (await tcp.client()).write(framed(b"two"))
    assert await tcp.read(1) == [b"two"]


async def test_tls_with_certificates_of_clients(rig, tmp_path: Path):
    authority = Authority(tmp_path, "authority")
    server, client = authority.issue("server"), authority.issue("client")
    tcp = await rig(tls_certificate=server.cert, tls_key=server.key, tls_client_ca=authority.cert)
    context = ssl.create_default_context(cafile=authority.cert)
    context.load_cert_chain(client.cert, client.key)
    plain_reader, plain = await tcp.both()
    plain.write(framed(b"plain"))
    await ended(plain_reader)
    (await tcp.client(ssl=context, server_hostname="localhost")).write(framed(b"secret"))
    assert await tcp.read(1) == [b"secret"]


async def test_a_port_that_is_taken_is_told(rig):
    tcp = await rig()
    parameters = TcpParameters(source="more", listen=f"127.0.0.1:{tcp.source.port}")
    with pytest.raises(InvalidSource, match=r"cannot listen on .*: Address already in use; set listen to another address"):
        await TcpSource(parameters).partitions()
    assert TCP.check is not None
    with pytest.raises(InvalidSource, match="Address already in use"):
        TCP.check(parameters)


# Clients that hold something


async def test_a_client_that_has_never_sent_a_message_makes_room(rig, caplog):
    tcp = await rig(max_clients=2)
    sender = await tcp.client()
    sender.write(framed(b"one"))
    assert await tcp.read(1) == [b"one"]
    silent, _ = await tcp.both()
    late = await tcp.client()
    late.write(framed(b"two"))
    await ended(silent)
    assert "it waits longest" in caplog.text
    sender.write(framed(b"three"))
    assert sorted(await tcp.read(2)) == [b"three", b"two"]


async def test_a_silent_client_ends_if_that_is_asked_for(rig, caplog):
    tcp = await rig(idle_seconds=0.1)
    reader, _ = await tcp.both()
    await ended(reader)
    assert "it has sent nothing for 0.1 s (idle_seconds)" in caplog.text


async def test_what_has_arrived_of_messages_is_bounded(rig, caplog):
    tcp = await rig(buffer_bytes=2500, max_message_bytes=1000)
    clients = []
    for _ in range(3):
        reader, writer = await tcp.both()
        writer.write(framed(b"x" * 1000)[:-1])
        clients.append((reader, writer))
        await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE_S):
        done, _ = await asyncio.wait([asyncio.create_task(ended(reader)) for reader, _ in clients], return_when="FIRST_COMPLETED")
    assert len(done) == 1
    assert "its own began first" in caplog.text
    for _, writer in clients:
        writer.write(b"x")
    assert await tcp.read(2) == [b"x" * 1000] * 2


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.behaviour("tcp", "a client that closes its sending side", "keeps all messages before")
async def test_what_was_sent_before_the_end_of_sending_is_kept(rig, tmp_path, encrypted):
    pair = Authority(tmp_path, "authority").issue("server")
    tcp = await rig(**({"tls_certificate": pair.cert, "tls_key": pair.key} if encrypted else {}))
    context = ssl.create_default_context(cafile=tmp_path / "authority.pem") if encrypted else None
    writer = await tcp.client(**({"ssl": context, "server_hostname": "localhost"} if encrypted else {}))
    writer.write(framed(b"one", b"two"))
    writer.close()
    assert await tcp.read(2) == [b"one", b"two"]


@pytest.mark.parametrize("sizes", [(0, 1, 100_000, 3), (1 << 20, 5, 1 << 20)])
async def test_tls_carries_messages_of_all_sizes_whole_and_in_order(rig, tmp_path, sizes):
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server")
    tcp = await rig(tls_certificate=pair.cert, tls_key=pair.key, buffer_bytes=100_000)
    context = ssl.create_default_context(cafile=authority.cert)
    writer = await tcp.client(ssl=context, server_hostname="localhost")
    values = [random.Random(size).randbytes(size) for size in sizes * 3]
    writer.write(framed(*values))
    received: list[bytes | None] = []
    while len(received) < len(values):
        received += await tcp.read(1)
    assert received == values
