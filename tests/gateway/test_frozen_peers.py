"""A peer that is frozen: its kernel keeps the connection, and acknowledges what it is sent; nobody answers."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.docs.pages import ROOT
from tests.gateway.certificates import Authority

from headrace.contract.addresses import keepalive_options, split_address
from headrace.gateway import listen
from headrace.gateway.config import Config, Tls
from headrace.gateway.core.connections import OpenCalls, Refusals
from headrace.gateway.identity import TokenRegistry

GIVEN_UP_S = 58.0
"""When gRPC gives up a ping that has no limit of its own: after 60 s."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, SETTINGS_TAKEN = b"\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\1\0\0\0\0"


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Reads until the other side drops the connection; returns the first bytes."""
    async with asyncio.timeout(GIVEN_UP_S):
        first = await reader.read(1024)
        with suppress(ConnectionError):
            while await reader.read(1024):
                pass
    return first


@pytest.mark.parametrize("has_tls", [False, True])
async def test_a_gateway_drops_a_client_that_is_frozen(has_tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "_IDLE_MS", 200)
    monkeypatch.setattr(listen, "_ANSWERS_WITHIN_MS", 200)
    tls, context = None, None
    if has_tls:
        authority = Authority(tmp_path, "authority")
        pair = authority.issue("gateway")
        tls = Tls(cert=pair.cert, key=pair.key)
        context = ssl.create_default_context(cafile=authority.cert)
        context.set_alpn_protocols(["h2"])
    config = Config(listen="127.0.0.1:0", tls=tls)
    server = listen.new_server(config, TokenRegistry(()), OpenCalls(), Refusals())
    host, port = split_address(listen.listen(server, config))
    await server.start()
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(PREFACE + SETTINGS + SETTINGS_TAKEN)
        assert await until_closed(reader)
        writer.close()
    finally:
        await server.stop(None)


async def test_a_client_drops_a_gateway_that_is_frozen() -> None:
    dropped = asyncio.Event()

    async def freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS + SETTINGS_TAKEN)
        assert (await until_closed(reader)).startswith(PREFACE)
        dropped.set()
        writer.close()

    async with await asyncio.start_server(freeze, "127.0.0.1", 0) as frozen:
        port = frozen.sockets[0].getsockname()[1]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=keepalive_options(200, 200)) as channel:
            method: Any = channel.unary_unary("/a/b")
            call = method(b"")
            async with asyncio.timeout(GIVEN_UP_S):
                assert await call.code() is grpc.StatusCode.UNAVAILABLE
                await dropped.wait()


def test_every_channel_and_server_limits_its_pings_with_its_keepalive() -> None:
    names = [path.name for path in ROOT.glob("*/**/src/headrace/**/*.py") if "grpc.keepalive_time" in path.read_text()]
    assert names == ["addresses.py"]
