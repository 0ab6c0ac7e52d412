"""`start = "latest"`: a query begins after the last record there is, and misses none from then on, whatever is killed."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest
from tests.connectors.kafka.rig import Query, numbered, numbers, reading, until, wait
from tests.faults.processes import free_port
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.gateway.wire import until_gone

TWO = 2

pytestmark = pytest.mark.usefixtures("each_client")


@pytest.fixture
def old(log) -> str:
    """A topic of two partitions with records that no query wants which begins at the end."""
    topic = log.create(TWO)
    for partition in range(TWO):
        log.append(topic, numbered(0, 10), partition)
    return topic


@pytest.fixture
def gateway() -> Iterator[Callable[[], GatewayProcess]]:
    """Starts a gateway, always on the same port; the one before must be dead."""
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        yield lambda: stack.enter_context(gateway_process("--listen", address))


@pytest.fixture
async def connector(log, old) -> AsyncIterator[Callable[[str], "asyncio.Future[asyncio.subprocess.Process]"]]:
    """Starts the connector as a process."""
    parameters = json.dumps({"source": "s", "bootstrap_servers": log.servers, "topics": old, "start": "latest"})
    async with AsyncExitStack() as stack:

        async def start(address: str) -> asyncio.subprocess.Process:
            command = (sys.executable, "-m", "tests.connectors.kafka.programs", "read", address, parameters)
            process = await asyncio.create_subprocess_exec(*command)
            stack.push_async_callback(kill, process)
            return process

        yield start


async def kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def streams(topic: str, *partitions: int) -> list[str]:
    return [f"s/{topic}-{partition}" for partition in partitions]


def append_to_each(log, topic: str, first: int) -> None:
    for partition in range(TWO):
        log.append(topic, numbered(first, 10), partition)


def each(names: list[str], values: range) -> dict[str, list[int]]:
    return {name: list(values) for name in names}


def read_of(query: Query) -> dict[str, list[int]]:
    return {stream: numbers(found) for stream, found in sorted(query.messages.items())}


@pytest.mark.each_value
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not yet committed"])
async def test_a_gateway_that_is_killed(log, old, gateway, committed):
    first = gateway()
    async with reading(first.address, bootstrap_servers=log.servers, topics=old, start="latest"):
        query = Query(first.address)
        await query.attach()
        # The start of every partition is known now. Is it in the checkpoint?
        await query.begin(*streams(old, 0, 1))
        if not committed:
            query.committed.clear()
        await query.close()
        first.process.kill()
        first.wait()
        append_to_each(log, old, 10)
        again = Query(gateway().address, committed=query.committed)
        await again.attach()
        await again.read(TWO * 10)
        assert read_of(again) == each(streams(old, 0, 1), range(10, 20))
        await again.close()


@pytest.mark.each_value
@pytest.mark.parametrize("gateway_too", [False, True], ids=["the connector", "connector and gateway"])
async def test_a_connector_that_is_killed(log, old, gateway, connector, gateway_too):
    serving = gateway()
    process = await connector(serving.address)
    query = Query(serving.address)
    await query.attach()
    await query.begin(*streams(old, 0, 1))
    await query.engine.plan(query.committed, wait_ms=0)
    await kill(process)
    if gateway_too:
        serving.process.kill()
        serving.wait()
    append_to_each(log, old, 10)
    if gateway_too:
        serving = gateway()
        await query.attach()
    await connector(serving.address)
    await query.read(TWO * 10)
    assert read_of(query) == each(streams(old, 0, 1), range(10, 20))
    await query.close()


async def test_a_connector_that_is_killed_before_the_starts_are_committed(log, old, gateway, connector):
    """The gateway keeps the first answer: what arrives before a second one is not left out."""
    serving = gateway()
    process = await connector(serving.address)
    query = Query(serving.address)
    await query.attach()
    await query.begin(*streams(old, 0, 1))
    await kill(process)
    await until_gone(serving.address, "s")
    append_to_each(log, old, 10)
    await connector(serving.address)
    await query.read(TWO * 10)
    assert read_of(query) == each(streams(old, 0, 1), range(10, 20))
    await query.close()


async def test_a_partition_that_appears_is_read_from_its_beginning(log, old, address, query):
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topic_pattern=rf"{old}(-more)?", start="latest"):
        await one.attach()
        await one.begin(*streams(old, 0, 1))
        grow(log, old)
        await one.read(20)
    assert read_of(one) == each([f"s/{old}-2", f"s/{old}-more-0"], range(10))


async def test_a_partition_that_appears_while_the_connector_is_away(log, old, address, query):
    one = query()
    await one.attach()
    async with reading(address, bootstrap_servers=log.servers, topic_pattern=rf"{old}(-more)?", start="latest"):
        await one.begin(*streams(old, 0, 1))
        await one.engine.plan(one.committed, wait_ms=0)
    grow(log, old)
    async with reading(address, bootstrap_servers=log.servers, topic_pattern=rf"{old}(-more)?", start="latest"):
        await one.read(20)
    assert read_of(one) == each([f"s/{old}-2", f"s/{old}-more-0"], range(10))


async def test_a_topic_that_the_connector_waited_for_is_read_from_its_beginning(log, address, query):
    one, name = query(), log.create()
    log.delete(name)
    async with reading(address, bootstrap_servers=log.servers, topics=name, start="latest") as source:
        await one.attach()
        await until(lambda: source._topics is not None)
        log.create(name=name)
        log.append(name, numbered(0, 10))
        await one.read(10)
    assert read_of(one) == {f"s/{name}-0": list(range(10))}


async def test_a_query_that_is_new_later_begins_at_the_end_that_is_then(log, old, address, query):
    first, second = query("first"), query("second")
    async with reading(address, bootstrap_servers=log.servers, topics=old, start="latest"):
        await first.attach()
        await first.begin(*streams(old, 0, 1))
        append_to_each(log, old, 10)
        await first.read(TWO * 10)
        await second.attach()
        await second.begin(*streams(old, 0, 1))
        append_to_each(log, old, 20)
        await second.read(TWO * 10)
        await first.read(TWO * 20)
    assert read_of(first) == each(streams(old, 0, 1), range(10, 30))
    assert read_of(second) == each(streams(old, 0, 1), range(20, 30))


def grow(log, topic: str) -> None:
    """Adds a partition, and another topic, with ten records each."""
    log.ask(lambda admin: admin.create_partitions({topic: TWO + 1}))
    log.create(name=f"{topic}-more")
    wait(lambda: log.partitions(topic) == TWO + 1)
    # In this order: a producer learns of partitions that were added when it asks after a topic that it does not know.
    log.append(f"{topic}-more", numbered(0, 10))
    log.append(topic, numbered(0, 10), partition=TWO)
