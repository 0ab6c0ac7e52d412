"""Fixtures: the scripted gateway, and connectors that serve it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import FakeSinkGateway
from tests.fake_gateway.sources import FakeGateway

from headrace.sdk import Settings, serve


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    fake = FakeGateway()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def settings() -> Settings:
    return Settings(partition_poll_seconds=0.05, drain_seconds=5.0)


@pytest.fixture
async def sink_gateway() -> AsyncIterator[FakeSinkGateway]:
    fake = FakeSinkGateway()
    await fake.start()
    yield fake
    await fake.stop()


Connect = Callable[..., Awaitable[asyncio.Task[None]]]


@pytest.fixture
async def connect(gateway: FakeGateway, settings: Settings) -> AsyncIterator[Connect]:
    """Serves a source to the fake gateway; stops it at the end of the test."""
    async for start in _connecting(gateway.address, settings):
        yield start


@pytest.fixture
async def attach(sink_gateway: FakeSinkGateway, settings: Settings) -> AsyncIterator[Connect]:
    """Serves a sink to the fake gateway; stops it at the end of the test."""
    async for start in _connecting(sink_gateway.address, settings):
        yield start


async def _connecting(address: str, settings: Settings) -> AsyncIterator[Connect]:
    tasks: list[asyncio.Task[None]] = []

    def start(connector: object, **options: object) -> asyncio.Task[None]:
        task = asyncio.create_task(serve(connector, **{"gateway": address, "settings": settings, **options}))
        tasks.append(task)
        return task

    yield start
    for task in tasks:
        task.cancel()
        with contextlib.suppress(BaseException):
            await task
    await until(lambda: not any(is_of_connector(thread) for thread in threading.enumerate()))


def is_of_connector(thread: threading.Thread) -> bool:
    """Whether a thread calls methods. `serve` waits for the one that watches calls, which another connector may still have."""
    return thread.name.startswith("headrace ") and not thread.name.startswith("headrace calls of")
