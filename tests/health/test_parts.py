"""Faults of connectors and of the network between: each is named with its first cause, and is gone when it is repaired."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from scripts.brokers import Nats
from tests.brokers.network import FaultyNetwork
from tests.connectors.nats.rig import server
from tests.gateway.wire import Engine
from tests.health.site import Site, site

from headrace.connectors.nats import NatsParameters, NatsSource
from headrace.sdk import AsyncSource, serve

pytestmark = pytest.mark.timeout(400)


@asynccontextmanager
async def reading(here: Site, source: AsyncSource, address: str) -> AsyncIterator[None]:
    """A source that is served by way of an address, and a query that reads it."""
    engine = Engine(here.address, "q", streams="s/*")
    await engine.attach()
    task = asyncio.create_task(serve(source, gateway=address))
    calls = asyncio.create_task(_call(engine))
    try:
        async with asyncio.timeout(120):
            while not (await engine.status()).streams:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.05)
        await here.is_well()
        yield
    finally:
        for each in (task, calls):
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
        await engine.close()


async def _call(engine: Engine) -> None:
    """Calls as a planner does, so that the query's lease does not end."""
    while True:
        await engine.plan({}, wait_ms=0)
        await asyncio.sleep(0.5)


def through(broker: Nats, port: int, stream: str) -> NatsSource:
    connection = {"servers": f"nats://127.0.0.1:{port}", "user": broker.user, "password": broker.password}
    return NatsSource(NatsParameters(**{"source": "s", "stream": stream, **connection}))


async def test_a_broker_that_is_stopped(nats: Nats, tmp_path: Path) -> None:
    async with server(nats.url) as others, site(tmp_path) as here:
        stream = await others.stream()
        with FaultyNetwork(nats.port) as network:
            async with reading(here, through(nats, network.port, stream), here.address):
                # What a client sees of a broker that has ended: its connections are reset, and new ones refused.
                network.refuse()
                found = await here.names("connector-reports", f"stream s/{stream}")
                assert found[f"stream s/{stream}"]["root"] == "connector s"
                assert str(network.port) in found[f"stream s/{stream}"]["cause"]
                assert (await here.status())[f"stream s/{stream}"]["root"] == "connector s"
                network.restore()
                await here.is_well()
