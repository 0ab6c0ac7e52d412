"""Fixtures: the scripted gateway, and connectors that serve it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.sdk.fake_gateway import FakeGateway, until

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
async def connect(gateway: FakeGateway, settings: Settings) -> AsyncIterator[Callable[..., Awaitable[asyncio.Task[None]]]]:
    """Serves a source to the fake gateway; stops it at the end of the test."""
    tasks: list[asyncio.Task[None]] = []

    def start(source: object, **options: object) -> asyncio.Task[None]:
        task = asyncio.create_task(serve(source, **{"gateway": gateway.address, "settings": settings, **options}))
        tasks.append(task)
        return task

    yield start
    for task in tasks:
        task.cancel()
        with contextlib.suppress(BaseException):
            await task
    await until(lambda: not any(thread.name.startswith("headrace ") for thread in threading.enumerate()))
