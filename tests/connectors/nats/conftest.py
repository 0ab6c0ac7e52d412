from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from scripts.brokers import Nats
from tests.connectors.nats.rig import Process, Query, Running, Server, connection
from tests.connectors.nats.rig import server as connected
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors.nats import NatsConsumerParameters, NatsConsumerSource, NatsParameters, NatsSource


@pytest.fixture
async def server(nats: Nats) -> AsyncIterator[Server]:
    """Actions of others on the broker."""
    async with connected(nats.url) as server:
        yield server


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A gateway in this process."""
    async with gateway_serving() as (_, address):
        yield address


@pytest.fixture
async def query(address: str) -> AsyncIterator[Callable[..., Any]]:
    """Attaches queries, as the gateway sees them."""
    async with AsyncExitStack() as stack:

        async def attach(**options: Any) -> Query:
            made = Query(address, **options)
            stack.push_async_callback(made.close)
            await made.attach()
            return made

        yield attach


@pytest.fixture
async def run(address: str) -> AsyncIterator[Callable[..., Running]]:
    """Runs connectors; what still runs at the end of the test ends as by a crash."""
    running: list[Running] = []

    def start(connector: Any) -> Running:
        running.append(Running(connector, address))
        return running[-1]

    yield start
    for each in running:
        await each.close()


@pytest.fixture
def source(nats: Nats) -> Callable[..., NatsSource]:
    """Makes sources that read a stream."""
    return lambda stream, **more: NatsSource(NatsParameters(**{"source": "s", "stream": stream, **connection(nats), **more}))


@pytest.fixture
def consumer(nats: Nats) -> Callable[..., NatsConsumerSource]:
    """Makes sources that read the durable consumer `c` of a stream."""
    return lambda stream, **more: NatsConsumerSource(
        NatsConsumerParameters(**{"source": "s", "stream": stream, "consumer": "c", **connection(nats), **more})
    )


@pytest.fixture
def process(nats: Nats, address: str, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Makes connectors that are processes of their own."""
    made: list[Process] = []

    def make(name: str, **options: Any) -> Process:
        made.append(Process(name, address, tmp_path, {**connection(nats), **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()
