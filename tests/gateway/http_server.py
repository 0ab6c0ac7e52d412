"""The HTTP server of a gateway in this process, and requests to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from tests.gateway.wire import DEADLINE_S

from headrace.gateway import Config, Http, Token
from headrace.gateway.core import Gateway
from headrace.gateway.http import http_server, new_app
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.listen import listen_http
from headrace.gateway.observer import Recording


@asynccontextmanager
async def serve_http(
    gateway: Gateway,
    tokens: Sequence[Token] = (),
    *,
    loopback: bool = True,
    tls: ssl.SSLContext | None = None,
    recording: Recording | None = None,
    **config: Any,
) -> AsyncIterator[str]:
    """Serves HTTP for a gateway, on a free port; yields the address, as `host:port`."""
    (listener,) = listen_http(Config(http=Http(listen="127.0.0.1:0")))
    host, port = listener.getsockname()
    app = new_app(gateway, TokenRegistry(tokens), Http(**config), "127.0.0.1:7433", loopback=loopback, recording=recording)
    async with http_server(app, [listener], tls):
        yield f"{host}:{port}"


async def get(address: str, path: str, token: str | None = None, method: str = "GET", **more: Any) -> tuple[int, Any]:
    """The status and the document that a request is answered with; text where it is not JSON."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(method, f"http://{address}{path}", headers={**headers, **more.pop("headers", {})}, **more) as response,
    ):
        assert response.headers["cache-control"] == "no-store"
        is_json = response.content_type.endswith("json")
        return response.status, await (response.json(content_type=None) if is_json else response.text())


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Everything that a server sends until it closes the connection."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def post(address: str, path: str, body: Any, token: str | None = None, **more: Any) -> tuple[int, Any]:
    """The status and the document that a change is answered with."""
    return await get(address, path, token, "POST", json=body, **more)
