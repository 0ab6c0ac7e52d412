"""Faults of the gateway itself, and of who does not reach it: each is named everywhere, and is gone when it is repaired."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import psutil
from tests.health.site import site

CLOSED = b"HTTP/1.1 403 Forbidden\r\n\r\n"
OPENED = b"HTTP/1.1 200 OK\r\n\r\n"
BEHIND_THE_PROXY = "gateway.invalid:7433"
"""No server of names knows it (RFC 2606), so that only the proxy leads there."""
DESCRIPTORS, LEFT = 400, 25
"""Less than a tenth is left, and enough for those who ask."""


class Proxy:
    """A proxy that refuses every call until a test opens it."""

    def __init__(self) -> None:
        self.leads_to: str | None = None
        self.refused = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its URL."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            assert request.startswith(f"CONNECT {BEHIND_THE_PROXY} ".encode()), request
            if self.leads_to is None:
                self.refused += 1
                writer.write(CLOSED)
                await writer.drain()
                return
            host, _, port = self.leads_to.rpartition(":")
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
            writer.write(OPENED)
            await asyncio.gather(_pass(reader, there_writer), _pass(there_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def test_a_proxy_in_the_environment_that_lets_nothing_connect(tmp_path: Path) -> None:
    proxy = Proxy()
    (tmp_path / "in").mkdir()
    with site(tmp_path) as here:
        async with proxy.listening() as url:
            environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "http_proxy": url, "https_proxy": url}
            words = ("connector", "run", "file", "--path", str(tmp_path / "in" / "*"), "--source", "p")
            command = (sys.executable, "-m", "headrace.cli", *words, "--gateway", BEHIND_THE_PROXY)
            connector = await asyncio.create_subprocess_exec(*command, env=environ, cwd=tmp_path)
            try:
                problem = await here.names("not-connected", "gateway", "nothing is connected to it", waits=None)
                assert "HTTPS_PROXY" in problem["remedy"]
                assert proxy.refused
                proxy.leads_to = here.address
                await here.clears("gateway")
            finally:
                connector.kill()
                await connector.wait()


async def test_a_file_of_the_gateway_that_becomes_invalid(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        config = tmp_path / "gateway.toml"
        valid, part = config.read_text(), f"file {config}"
        for invalid in (valid + "[nonsense]\na = 1\n", valid + "[limits\n"):
            config.write_text(invalid)
            await here.names("configuration-invalid", part, str(config), waits=None)
            config.write_text(valid)
            await here.clears(part)


async def test_a_gateway_with_few_descriptors(tmp_path: Path) -> None:
    with site(tmp_path) as here, ExitStack() as strangers:
        process = psutil.Process(here.gateway.process.pid)
        _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
        process.rlimit(psutil.RLIMIT_NOFILE, (DESCRIPTORS, hard))
        host, port = here.address.rsplit(":", 1)
        for _ in range(DESCRIPTORS - LEFT - process.num_fds()):
            strangers.enter_context(socket.create_connection((host, int(port))))
        await here.names("descriptors-exhausted", "descriptors", f"of {DESCRIPTORS} descriptors", waits=None)
        process.rlimit(psutil.RLIMIT_NOFILE, (min(hard, 4 * DESCRIPTORS), hard))
        await here.clears("descriptors")
