"""Certificates and authorities of clients that change while a connector listens."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.connectors.query import querying, serving
from tests.fake_gateway.server import until
from tests.gateway.certificates import Authority, Pair
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

from headrace.connectors.http import HttpParameters, HttpSource
from headrace.connectors.tcp import TcpParameters, TcpSource
from headrace.contract.certificates import read_again

Make = Callable[..., HttpSource | TcpSource]
MAKES = {
    "http": lambda **told: HttpSource(HttpParameters(source="s", listen="127.0.0.1:0", **told)),
    "tcp": lambda **told: TcpSource(TcpParameters(source="s", listen="127.0.0.1:0", **told)),
}


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKES[request.param]


def install(pair: Pair, cert: Path, key: Path) -> None:
    """Replaces both files as deployments do."""
    for new, old in ((pair.cert, cert), (pair.key, key)):
        fresh = old.with_suffix(".fresh")
        fresh.write_bytes(new.read_bytes())
        fresh.replace(old)


@asynccontextmanager
async def running(source: HttpSource | TcpSource) -> AsyncIterator[int]:
    async with gateway() as (_, address), querying(address, "s/*"), serving(source, address):
        await until(lambda: source.port is not None)
        assert source.port is not None
        yield source.port


async def presented(port: int, client: Pair | None = None) -> bytes | None:
    """The certificate of the server; None if it does not let this client in."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    async with asyncio.timeout(DEADLINE_S):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            # A server that rejects the client reports it after its own part of the handshake.
            writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            certificate = writer.get_extra_info("ssl_object").getpeercert(True)
            if client is not None and not await reader.read(1):
                return None
            writer.close()
        except OSError:
            return None
        return certificate


@pytest.mark.behaviour(
    "http",
    "a certificate and key that are replaced",
    "new connections use them, once both fit together",
)
@pytest.mark.behaviour(
    "tcp",
    "a certificate and key that are replaced",
    "new connections use them, once both fit together",
)
async def test_new_connections_get_the_new_certificate(make, tmp_path, caplog):
    authority = Authority(tmp_path, "authority")
    old, new = authority.issue("old"), authority.issue("new")
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    install(old, cert, key)
    caplog.set_level(logging.INFO)
    async with running(make(tls_certificate=cert, tls_key=key)) as port:
        first = await presented(port)
        cert.write_bytes(new.cert.read_bytes())
        assert await presented(port) == first, "a certificate without its key is not taken"
        assert "new TLS files cannot be used; the old ones stay in force" in caplog.text
        key.write_bytes(b"")
        assert await presented(port) == first
        key.unlink()
        assert await presented(port) == first
        key.write_bytes(new.key.read_bytes())
        second = await presented(port)
        assert second not in (first, None)
        assert "TLS files replaced" in caplog.text
        install(old, cert, key)
        assert await presented(port) == first


async def test_a_hangup_reads_the_files_again(make, tmp_path, caplog):
    authority = Authority(tmp_path, "authority")
    old, new = authority.issue("old"), authority.issue("new")
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    install(old, cert, key)
    caplog.set_level(logging.INFO)
    async with running(make(tls_certificate=cert, tls_key=key)) as port:
        first = await presented(port)
        install(new, cert, key)
        read_again()
        assert "TLS files replaced" in caplog.text
        assert await presented(port) not in (first, None)


@pytest.mark.behaviour("http", "client authorities that are added or removed", "new connections follow")
async def test_authorities_of_clients_come_and_go(tmp_path):
    server = Authority(tmp_path, "servers").issue("server")
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    one, two = first.issue("one"), second.issue("two")
    cas = tmp_path / "cas.pem"
    cas.write_bytes(first.cert.read_bytes())
    source = MAKES["http"](tls_certificate=server.cert, tls_key=server.key, tls_client_ca=cas)
    async with running(source) as port:

        async def let_in() -> tuple[bool, bool]:
            return await presented(port, one) is not None, await presented(port, two) is not None

        assert await let_in() == (True, False)
        cas.write_bytes(first.cert.read_bytes() + second.cert.read_bytes())
        assert await let_in() == (True, True)
        cas.write_bytes(second.cert.read_bytes())
        assert await let_in() == (False, True)
        cas.write_bytes(b"nothing")
        assert await let_in() == (False, True)
