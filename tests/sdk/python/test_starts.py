"""Where a source's streams begin for a new query: asked once, said to each gateway, until a checkpoint contains it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from tests.fake_gateway.server import until
from tests.gateway.wire import Engine
from tests.gateway.wire import serve as gateway

from headrace.sdk import AsyncSource, InvalidSource, Message, Position, Settings, Source, SourceFailed, SourceKind, serve

SETTINGS = Settings(drain_seconds=1.0, partition_poll_seconds=0.05, first_backoff_seconds=0.01)


class Logs(Source):
    """Logs in memory, sequences 1, 2, ..., which begin at their end."""

    name = "orders"
    chooses_start = True
    idle_seconds = 0.01

    def __init__(self, *names: str) -> None:
        self.logs: dict[str, list[bytes]] = {name: [b"old"] * 10 for name in names}
        self.asked: list[list[str]] = []

    def partitions(self):
        return list(self.logs)

    def starts(self, partitions):
        self.asked.append(sorted(partitions))
        return {partition: Position(sequence=len(self.logs[partition])) for partition in partitions}

    def read(self, partition, position):
        at = position.sequence if position else 0
        while True:
            for value in self.logs[partition][at:]:
                at += 1
                yield Message(value, sequence=at)
            yield None


class AsyncLogs(AsyncSource):
    """The same on the event loop."""

    name = "orders"
    chooses_start = True

    def __init__(self, *names: str) -> None:
        self.blocking = Logs(*names)
        self.logs, self.asked = self.blocking.logs, self.blocking.asked

    async def partitions(self):
        return self.blocking.partitions()

    async def starts(self, partitions):
        return self.blocking.starts(partitions)

    async def read(self, partition, position):
        for item in self.blocking.read(partition, position):
            yield item


@pytest.fixture
async def run() -> AsyncIterator[Callable[..., "asyncio.Task[None]"]]:
    """Runs a source; stops it at the end of the test."""
    tasks = []

    def start(source, address):
        tasks.append(asyncio.create_task(serve(source, gateway=address, settings=SETTINGS)))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: not any(thread.name.startswith("headrace ") for thread in threading.enumerate()))


async def plan(engine: Engine, committed: dict[str, Position]) -> dict[str, tuple[int, bool]]:
    """Plans until there is something; commits it."""
    async with asyncio.timeout(120):
        while not (ranges := (await engine.plan(committed, wait_ms=1000)).ranges):
            pass
    committed.update({planned.stream: planned.end for planned in ranges})
    return {planned.stream: (planned.end.sequence, planned.start) for planned in ranges}


@pytest.mark.parametrize("kind", [Logs, AsyncLogs])
async def test_all_partitions_are_asked_for_once_and_begin_together(run, kind):
    async with gateway() as (_, address):
        source, engine, committed = kind("0", "1"), Engine(address), {}
        run(source, address)
        await engine.attach()
        assert await plan(engine, committed) == {"orders/0": (10, True), "orders/1": (10, True)}
        assert source.asked == [["0", "1"]]
        source.logs["1"].append(b"new")
        assert await plan(engine, committed) == {"orders/1": (11, False)}
        # One that appears begins with its first message, whatever it has by then.
        source.logs["2"] = [b"new"] * 3
        assert await plan(engine, committed) == {"orders/2": (3, False)}
        assert source.asked == [["0", "1"]]
        await engine.close()


async def test_another_gateway_is_told_the_same_until_it_is_acknowledged(run):
    source, ports = Logs("0"), AsyncExitStack()
    async with ports:
        _, address = await ports.enter_async_context(gateway())
        run(source, address)
        engine = Engine(address)
        await engine.attach()
        assert await plan(engine, {}) == {"orders/0": (10, True)}
        # It is gone before anything was committed, and more arrives.
        await engine.close()
        port = int(address.rpartition(":")[2])
    source.logs["0"] += [b"new"] * 5
    async with gateway(port=port) as (_, address):
        engine, committed = Engine(address), {}
        await engine.attach()
        assert await plan(engine, committed) == {"orders/0": (10, True)}
        assert await plan(engine, committed) == {"orders/0": (15, False)}
        assert source.asked == [["0"]]
        # Now that it is in a checkpoint, a query that is new begins at the end that is then.
        await engine.plan(committed, wait_ms=0)
        other = Engine(address, "other")
        await other.attach()
        assert await plan(other, {}) == {"orders/0": (15, True)}
        assert source.asked == [["0"], ["0"]]
        await engine.close()
        await other.close()


async def test_a_partition_that_appears_before_any_is_asked_for_begins_with_its_first_message(run):
    async with gateway() as (hub, address):
        source, engine, committed = Logs("0"), Engine(address), {}
        run(source, address)
        await until(lambda: "orders/0" in hub.streams)
        source.logs["1"] = [b"new"] * 3
        await until(lambda: "orders/1" in hub.streams)
        await engine.attach()
        assert await plan(engine, committed) == {"orders/0": (10, True)}
        assert await plan(engine, committed) == {"orders/1": (3, False)}
        assert source.asked == [["0"]]
        await engine.close()


@pytest.mark.parametrize(
    ("starts", "error", "text"),
    [
        ({"7": Position(sequence=1)}, InvalidSource, "partition '7', which it was not asked for"),
        ({"0": Position(sequence=-1)}, InvalidSource, "for partition '0'"),
        ({"0": Position(sequence=2**63)}, InvalidSource, "for partition '0'"),
        ({"0": Position(epoch=3, sequence=1)}, InvalidSource, "for partition '0'"),
        (RuntimeError("no leader"), SourceFailed, r"starts\(\) raised RuntimeError: no leader"),
    ],
)
async def test_what_a_source_cannot_mean_ends_the_connector(run, starts, error, text):
    class Wrong(Logs):
        def starts(self, partitions):
            if isinstance(starts, Exception):
                raise starts
            return starts

    async with gateway() as (_, address):
        engine = Engine(address)
        await engine.attach()
        with pytest.raises(error, match=text):
            await asyncio.wait_for(run(Wrong("0"), address), 120)
        await engine.close()


async def test_a_queue_cannot_choose(run):
    class Queue(Logs):
        kind = SourceKind.REDELIVERING

    with pytest.raises(InvalidSource, match="chooses_start is for replayable sources"):
        await run(Queue("0"), "127.0.0.1:1")
