"""A client of the HTTP port that is frozen while it reads a large answer holds one answer, for a time, and nobody else."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.gateway.http_server import get, serve_http
from tests.gateway.wire import DEADLINE_S
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Http, Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.status import HISTORY_S, INTERVAL_S
from headrace.gateway.http import server
from headrace.gateway.observer import Observer, Recording

STREAMS = 1_000
HISTORY = "/api/v1/history?kind=stream&name=orders/0"
PATHS = ("/api/v1/status", "/metrics", HISTORY)
"""For the stream of events, see `test_events`."""
ASKS = 2_000
"""How often it asks before it reads anything: for more than a kernel keeps."""
MARK_BYTES = 2**16
"""What a transport may hold before whoever writes to it must wait."""

CLIENT = """
import os, signal, socket, sys
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
client.connect(("127.0.0.1", int(sys.argv[1])))
client.sendall(f"GET {sys.argv[2]} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".encode() * int(sys.argv[3]))
client.recv(1)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def frozen_client(http: str, path: str) -> Iterator[None]:
    """A process that has asked for something, and is frozen after the first byte of the answer."""
    with subprocess.Popen([sys.executable, "-c", CLIENT, http.rpartition(":")[2], path, str(ASKS)]) as client:
        try:
            yield
        finally:
            client.kill()


async def frozen() -> server._Connection:
    """Waits until a connection holds an answer that nobody reads, and returns it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = [one for one in gc.get_objects() if type(one) is server._Connection and one.transport is not None]
            held = [one for one in found if not one.transport.is_closing() and one.transport.get_write_buffer_size()]
            if held:
                return held[0]
            await asyncio.sleep(0.2)


@asynccontextmanager
async def large_site(path: str) -> AsyncIterator[str]:
    """The HTTP server of a gateway with many streams; with an hour of history of one, if that is asked for."""
    streams, moments = (1, round(HISTORY_S / INTERVAL_S)) if path == HISTORY else (STREAMS, 1)
    with clock.use(VirtualClock()) as time:
        gateway = Gateway(Limits())
        for number in range(streams):
            gateway.stream(f"orders/{number}")
        recording = Recording(gateway, Observer(gateway, Http()))
        for _ in range(moments):
            time.advance(INTERVAL_S)
            await recording.take()
        async with serve_http(gateway, recording=recording) as http:
            yield http


@pytest.mark.parametrize("path", PATHS)
async def test_it_holds_one_answer_and_others_are_served(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", DEADLINE_S)
    async with large_site(path) as http:
        size = len(str((await get(http, path))[1])) * 2
        with frozen_client(http, path):
            for _ in range(3):
                held = await frozen()
                assert held.transport.get_write_buffer_size() <= size + 2 * MARK_BYTES
                assert (await get(http, path))[0] == 200


@pytest.mark.parametrize("path", PATHS)
async def test_it_is_ended_after_a_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped, real = list[server._Connection](), server._Connection._drop

    def drop(connection: server._Connection, transport: asyncio.Transport) -> None:
        if transport.get_write_buffer_size():
            dropped.append(connection)
        real(connection, transport)

    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 1.0)
    monkeypatch.setattr(server._Connection, "_drop", drop)
    async with large_site(path) as http:
        with frozen_client(http, path):
            async with asyncio.timeout(DEADLINE_S):
                while not dropped or dropped[0] in dropped[0].connections:  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(0.05)
