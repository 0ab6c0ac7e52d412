"""Clients whose machine is gone, without closing their connections. The machine is a network namespace, which needs root."""

import asyncio
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

import aiohttp
import pytest
from tests.absent import absent
from tests.cluster.hosts import NoOtherHost, OtherHost, other_host
from tests.connectors.query import querying, serving
from tests.fake_gateway.server import until
from tests.gateway.wire import serve as gateway

from headrace.connectors.http import HttpParameters, HttpSource
from headrace.connectors.tcp import TcpParameters, TcpSource

DEADLINE_S = 200.0
CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.sendall(bytes.fromhex(sys.argv[3]))
connection.recv(1)
"""


@pytest.fixture
def host() -> Iterator[OtherHost]:
    try:
        with other_host() as host:
            yield host
    except NoOtherHost as reason:
        absent(str(reason))


@pytest.mark.behaviour("tcp", "the machine of a client vanishes", "the connection ends within a minute")
@pytest.mark.behaviour("http", "the machine of a client vanishes", "connection and message end within a minute")
async def test_clients_that_vanish_make_room(host: OtherHost) -> None:
    tcp = TcpSource(TcpParameters(source="tcp", listen=f"{host.here}:0", max_clients=1))
    http = HttpSource(HttpParameters(source="http", listen="[::]:0", answer_seconds=600))

    async def client(port: int | None, data: bytes) -> asyncio.subprocess.Process:
        words = [sys.executable, "-c", CLIENT, host.here, str(port), data.hex()]
        return await asyncio.create_subprocess_exec(*host.command(*words))

    async def waiting() -> int:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{http.port}/health") as response:
            found = await response.json()
            return int(found["waiting_messages"])

    async with gateway() as (_, address), querying(address, "tcp/*") as query, serving(tcp, address), serving(http, address):
        await until(lambda: tcp.port is not None and http.port is not None)
        clients = [
            await client(tcp.port, struct.pack(">I", 3) + b"one"),
            await client(http.port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo"),
        ]
        try:
            assert await query.values("tcp/0", 1) == [b"one"]
            await query.commit()
            async with asyncio.timeout(DEADLINE_S):
                while await waiting() != 1:  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(0.1)
            host.vanish()
            async with asyncio.timeout(DEADLINE_S):
                while not await _is_served(host.here, tcp.port):  # noqa: ASYNC110
                    await asyncio.sleep(1)
                while await waiting():  # noqa: ASYNC110
                    await asyncio.sleep(1)
            assert await query.values("tcp/0", 1) == [b"new"]
        finally:
            for each in clients:
                each.kill()
                await each.wait()


async def _is_served(host: str, port: int | None) -> bool:
    """Whether a new client is let in, and stays."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(struct.pack(">I", 3) + b"new")
    with suppress(ConnectionResetError, TimeoutError):
        async with asyncio.timeout(2):
            await reader.read(1)
        return False
    served = not reader.at_eof() and reader.exception() is None
    writer.close()
    return served
