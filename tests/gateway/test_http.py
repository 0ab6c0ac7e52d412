"""The HTTP server: whom it answers, what it refuses, and that nobody can hold its connections or its shutdown."""

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send
from tests.captured_logs import capture_logs
from tests.gateway.certificates import Authority
from tests.gateway.http_server import get, serve_http, until_closed
from tests.gateway.processes import gateway_process, headrace
from tests.gateway.test_config import problems, write
from tests.gateway.test_rights import token

from headrace.configuration import ConfigurationError, Flag
from headrace.gateway import Config, Http, Limits, ListenError, Tls, load_config
from headrace.gateway import config as configuration
from headrace.gateway.core import Gateway
from headrace.gateway.http import http_server, server
from headrace.gateway.listen import listen_http
from headrace.gateway.tls import server_context


@pytest.fixture
async def http() -> AsyncIterator[str]:
    async with serve_http(Gateway(Limits())) as address:
        yield address


def http_address(log: str) -> str:
    """The address that a gateway's log says it serves HTTP on."""
    return log.partition("http://")[2].partition('"')[0]


# Where it listens


@pytest.mark.parametrize(
    ("listen", "http", "expected"),
    [
        ("127.0.0.1:7433", "auto", "127.0.0.1:7434"),
        ("127.0.0.1:9000", "auto", None),
        ("127.0.0.1:0", "auto", None),
        ("127.0.0.1:7433", "off", None),
        ("127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9001"),
    ],
)
def test_only_the_first_gateway_of_a_machine_has_an_http_server_unasked(listen: str, http: str, expected: str | None) -> None:
    assert Config(listen=listen, http=Http(listen=http)).http_address() == expected


def test_other_machines_are_served_with_tls_and_credentials_or_if_the_network_is_trusted(tmp_path: Path) -> None:
    Authority(tmp_path, "authority").issue("gateway")
    http, tls = '[http]\nlisten = "0.0.0.0:7434"\n', '[tls]\ncert = "gateway.pem"\nkey = "gateway.key"\n'
    tokens = f'[[tokens]]\nname = "operator"\nsha256 = "{"0" * 64}"\nadmin = true\n'
    (in_clear,) = problems(write(tmp_path, http + tokens))
    assert in_clear.startswith("gateway.toml:1: http: 0.0.0.0:7434 can be reached from other machines, and without TLS tokens")
    (without_tokens,) = problems(write(tmp_path, http + tls))
    assert "without tokens anyone may read the status; configure tokens or tls.client_ca" in without_tokens
    for text in (http + tls + tokens, http + tls + 'client_ca = "authority.pem"\n', "insecure = true\n" + http):
        assert load_config(write(tmp_path, text)).http_address() == "0.0.0.0:7434"


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--http-listen: 'everywhere' is not host:port"):
        load_config(flags={("http", "listen"): Flag("--http-listen", "everywhere")})


def test_a_taken_port_is_an_error_if_it_was_configured_and_otherwise_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match=f"cannot listen on {address}: another program .* with --http-listen"):
            listen_http(Config(http=Http(listen=address)))
        monkeypatch.setattr(configuration, "DEFAULT_HTTP", address)
        assert not listen_http(Config())
        ended = headrace("gateway", "--listen", "127.0.0.1:0", "--http-listen", address)
    assert ended.returncode == 3
    assert f"cannot listen on {address}" in ended.stderr


# Whom it answers


async def test_probes_need_no_token() -> None:
    async with serve_http(Gateway(Limits()), [token("operator", admin=True)]) as address:
        for caller in (None, "nobody", "operator"):
            for path in ("/healthz", "/readyz"):
                status, _ = await get(address, path, caller)
                assert status == 200


async def test_a_gateway_that_stops_is_alive_and_not_ready() -> None:
    gateway = Gateway(Limits())
    gateway.draining = True
    async with serve_http(gateway) as address:
        assert (await get(address, "/healthz"))[0] == 200
        assert (await get(address, "/readyz"))[0] == 503


async def test_unknown_paths_and_methods_are_answered_with_problems(http: str) -> None:
    for method, path, expected in (("GET", "/secret", 404), ("POST", "/healthz", 405), ("GET", "/healthz/", 404)):
        status, document = await get(http, path, method=method, allow_redirects=False)
        assert (status, document["status"]) == (expected, expected)
        assert document["detail"].startswith(f"{method} {path}: ")


@pytest.mark.parametrize("header", [b"content-length: 1", b"content-length: 1000000000", b"transfer-encoding: chunked"])
async def test_bodies_are_refused_before_they_are_sent(header: bytes, http: str) -> None:
    reader, writer = await asyncio.open_connection(*http.split(":"))
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + header + b"\r\n\r\n")
    assert (await until_closed(reader)).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_long_headers_are_refused(http: str) -> None:
    reader, writer = await asyncio.open_connection(*http.split(":"))
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * (server.MAX_HEADER_BYTES + 2**16))
    assert (await until_closed(reader)).startswith((b"HTTP/1.1 4", b""))
    assert (await get(http, "/healthz"))[0] == 200
    writer.close()


async def test_a_web_page_cannot_give_this_machine_a_name_of_its_own(http: str) -> None:
    port = http.split(":")[1]
    for host, expected in (("rebound.example", 421), (f"localhost:{port}", 200), (f"[::1]:{port}", 200), ("127.0.0.2", 200)):
        assert (await get(http, "/healthz", headers={"Host": host}))[0] == expected, host
    async with serve_http(Gateway(Limits()), loopback=False) as address:
        assert (await get(address, "/healthz", headers={"Host": "gateway.example"}))[0] == 200


# Slow clients


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nhost: loc", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"]
)
async def test_a_client_that_does_not_go_on_is_dropped(sent: bytes, monkeypatch: pytest.MonkeyPatch, http: str) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.2)
    reader, writer = await asyncio.open_connection(*http.split(":"))
    writer.write(sent)
    answer = await until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 200 ") == sent.endswith(b"\r\n\r\n")
    writer.close()


async def test_a_client_that_does_not_read_its_response_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.2)
    dropped = asyncio.Event()

    async def long_answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 2**26, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        dropped.set()

    (listener,) = listen_http(Config(http=Http(listen="127.0.0.1:0")))
    async with http_server(long_answer, [listener]):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(120):
            await dropped.wait()
        writer.close()


HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"


async def held(http: str, sent: bytes = b"", of: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has sent something, and says nothing more."""
    host, port = http.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(of, 0))
    writer.write(sent)
    if sent.endswith(b"\r\n\r\n"):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    return reader, writer


@pytest.mark.parametrize(
    "sent",
    [b"", HEAD, HEAD + b"\r\n", b"POST /api/v1/sign-in HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"],
    ids=["nothing", "unfinished-head", "idle", "unfinished-body"],
)
@pytest.mark.parametrize("of", ["127.0.0.1", "127.0.0.2"], ids=["same-address", "other-address"])
async def test_connections_that_wait_make_room(sent: bytes, of: str, monkeypatch: pytest.MonkeyPatch, http: str) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 6)
    monkeypatch.setattr(server, "MAX_OF_ADDRESS", 4)
    with capture_logs() as logs:
        strangers = [await held(http, sent, of) for _ in range(10)]
        for _ in range(20):
            assert (await get(http, "/healthz"))[0] == 200
    assert {line["event"] for line in logs} == {"connection dropped"}
    assert len([line for line in logs if line["peer"].startswith(of)]) >= 6
    for _, writer in strangers:
        writer.close()


async def test_the_connections_of_one_address_make_room_before_those_of_others(
    monkeypatch: pytest.MonkeyPatch, http: str
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 6)
    reader, writer = await held(http, of="127.0.0.3")
    strangers = [await held(http, of="127.0.0.2") for _ in range(20)]
    writer.write(HEAD + b"\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    for _, other in [(reader, writer), *strangers]:
        other.close()


async def test_requests_of_known_callers_make_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 6)
    gateway, tokens = Gateway(Limits()), (token("admin", admin=True),)
    listening = b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer admin\r\n\r\n"
    async with serve_http(gateway, tokens) as http:
        owners = [await held(http, listening) for _ in range(3)]
        strangers = [await held(http, HEAD) for _ in range(30)]
        assert (await get(http, "/healthz"))[0] == 200
        assert len(gateway.open_calls) == 3
        owners += [await held(http, listening) for _ in range(2)]
        assert len(gateway.open_calls) == 5
        for _, writer in [*owners, *strangers]:
            writer.close()


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/status", "/nowhere"])
async def test_a_client_that_closes_its_sending_side_gets_its_answer(path: str) -> None:
    async with serve_http(Gateway(Limits())) as address:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(2 * f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        writer.write_eof()
        assert (await until_closed(reader)).count(b"HTTP/1.1 ") == 2
        writer.close()


# Its end


def test_sigterm_ends_a_gateway_whose_http_clients_stay() -> None:
    with gateway_process("--http-listen", "127.0.0.1:0", "--log-format", "json") as gateway:
        host, port = http_address(gateway.log).split(":")
        with socket.create_connection((host, int(port))) as silent, socket.create_connection((host, int(port))) as idle:
            silent.sendall(b"GET /healthz HTTP/1.1\r\nhost: loc")
            idle.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
            gateway.process.send_signal(signal.SIGTERM)
            assert gateway.wait() == 0
        assert "Traceback" not in gateway.log
        assert '"level": "error"' not in gateway.log


# TLS


async def test_https_follows_new_certificates(tmp_path: Path) -> None:
    first = Authority(tmp_path, "first")
    pair = first.issue("gateway")
    context = server_context(Tls(cert=pair.cert, key=pair.key))
    async with serve_http(Gateway(Limits()), loopback=False, tls=context) as address:
        assert await handshake(address, first)
        second = Authority(tmp_path, "second")
        second.issue("gateway")
        assert await handshake(address, second)
        assert not await handshake(address, first)


async def handshake(address: str, authority: Authority) -> bool:
    """Whether the server has a certificate of an authority, and answers."""
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=str(authority.cert))
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
    except ssl.SSLCertVerificationError:
        return False
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: gateway.example\r\nconnection: close\r\n\r\n")
    assert (await until_closed(reader)).startswith(b"HTTP/1.1 200 ")
    writer.close()
    return True
