"""A receiver of webhooks, with a gateway in this process and real requests."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import pytest
from tests.brokers.network import FaultyNetwork
from tests.connectors.http.raw import RawClient
from tests.connectors.query import Query, querying, serving
from tests.fake_gateway.server import until
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

from headrace.connectors.http import HttpParameters, HttpSource


@dataclass
class Rig:
    """A receiver that a query reads."""

    source: HttpSource
    query: Query
    client: aiohttp.ClientSession
    network: FaultyNetwork
    """Between the receiver and the gateway."""
    stack: AsyncExitStack

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.source.port}{path}"

    def post(self, body: bytes, path: str = "/", **headers: str) -> "asyncio.Task[aiohttp.ClientResponse]":
        """Begins a request."""
        dashed = {name.replace("_", "-"): value for name, value in headers.items()}
        return asyncio.create_task(self.client.post(self.url(path), data=body, headers=dashed))

    async def status(self, body: bytes, path: str = "/", **headers: str) -> int:
        """Makes a request; its answer's status."""
        return (await self.post(body, path, **headers)).status

    async def raw(self, data: bytes = b"", tls: ssl.SSLContext | None = None) -> RawClient:
        """A client that has sent some bytes."""
        assert self.source.port is not None
        client = await RawClient.connect(self.source.port, tls)
        self.stack.callback(client.close)
        await client.send(data)
        return client

    async def comes_to(self, **expected: object) -> None:
        """Waits until its health says something."""
        async with asyncio.timeout(DEADLINE_S):
            found = None
            while found != expected:
                health = (await self.health())[1]
                found = {name: health[name] for name in expected}

    async def health(self) -> tuple[int, dict[str, object]]:
        async with self.client.get(self.url("/health")) as response:
            return response.status, await response.json()


@pytest.fixture
async def rig(network) -> AsyncIterator[Callable[..., object]]:
    async with AsyncExitStack() as stack:

        async def make(read: str = "hooks/*", **parameters: object) -> Rig:
            _, address = await stack.enter_async_context(gateway())
            between = network(int(address.rpartition(":")[2]))
            query = await stack.enter_async_context(querying(address, read))
            source = HttpSource(HttpParameters(source="hooks", listen="127.0.0.1:0", **parameters))
            await stack.enter_async_context(serving(source, between.address))
            client = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE_S)))
            await until(lambda: source.port is not None)
            return Rig(source, query, client, between, stack)

        yield make
