"""Ten partitions, read by readers that are busy now and then: none stands still."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from tests.connectors.kafka.rig import CLIENTS, DEADLINE, numbered, reading
from tests.selection.turns import in_turns

from headrace.connectors.kafka import KafkaParameters, KafkaSource, fetching, stretches
from headrace.sdk import Batch

PARTITIONS = 10
EACH = 3000
PADDING = b"x" * 200

pytestmark = pytest.mark.usefixtures("each_client")


@pytest.fixture
def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues that are full after a few stretches, so that fetching rests hundreds of times, often in the middle of what came."""
    monkeypatch.setattr(stretches, "_STRETCH_BYTES", 8 << 10)
    monkeypatch.setattr(fetching, "QUEUE_BYTES", 32 << 10)
    monkeypatch.setattr(fetching, "_ALL_QUEUES_BYTES", 320 << 10)


@pytest.fixture
async def source(log, small_queues, each_client) -> AsyncIterator[KafkaSource]:
    """Reads a topic of ten partitions, each with the same values."""
    topic = log.create(PARTITIONS)
    for partition in range(PARTITIONS):
        log.append(topic, [number + PADDING for number in numbered(0, EACH)], partition)
    sizes = {"partition_fetch_bytes": 256 << 10, "fetch_bytes": 4 << 20}
    source = KafkaSource(KafkaParameters(source="s", client=each_client, bootstrap_servers=log.servers, topics=topic, **sizes))
    yield source
    await source.close()


async def test_a_partition_whose_reader_was_busy_while_others_were_read_goes_on(source):
    *busy, free = await source.partitions()
    readers = [_values(source.read(partition, None)) for partition in busy]
    async with asyncio.timeout(2 * DEADLINE):
        found = [await anext(reader) for reader in readers]
        assert await _all(_values(source.read(free, None))) == list(range(EACH))
        found = [first + await _all(reader, len(first)) for first, reader in zip(found, readers, strict=True)]
    assert found == [list(range(EACH))] * len(busy)


async def test_each_partition_is_read_to_its_end_whatever_its_reader_does(source):
    seed = random.getrandbits(32)
    print(f"random pauses: seed {seed}")

    async def read(partition: str, chance: random.Random) -> list[int]:
        found: list[int] = []
        async with contextlib.aclosing(_values(source.read(partition, None))) as values:
            async for some in values:
                found += some
                if len(found) >= EACH:
                    return found
                if chance.random() < 0.4:
                    # As a query does that processes what it was given.
                    await asyncio.sleep(chance.choice((0.001, 0.02, 0.2)))
        return found

    async with asyncio.timeout(2 * DEADLINE):
        partitions = enumerate(await source.partitions())
        found = await asyncio.gather(*(read(partition, random.Random(seed + n)) for n, partition in partitions))
    assert found == [list(range(EACH))] * PARTITIONS


@pytest.mark.parametrize("each_client", in_turns(CLIENTS, of=2), indirect=True)
async def test_no_partition_stands_still_while_a_query_pauses_at_random(
    log, address, query, small_queues, each_client, pytestconfig
):
    """For `--machine-seconds`, all partitions grow, and the query reads some or much, and is busy now and then."""
    seed = pytestconfig.getoption("--machine-seed")
    print(f"random appends, batches and pauses: --machine-seed {seed}")
    chance = random.Random(seed)
    topic = log.create(PARTITIONS)
    streams = [f"s/{topic}-{partition}" for partition in range(PARTITIONS)]
    written, found = dict.fromkeys(streams, 0), dict.fromkeys(streams, 0)
    one = query()

    def take() -> None:
        for stream, messages in one.messages.items():
            values = [int((message.value or b"").removesuffix(PADDING)) for message in messages]
            assert values == list(range(found[stream], found[stream] + len(values))), stream
            found[stream] += len(values)
        one.messages = {}

    async def append() -> None:
        for partition, stream in enumerate(streams):
            if chance.random() < 0.3:
                count = chance.choice((1, 20, 500))
                values = [number + PADDING for number in numbered(written[stream], count)]
                await asyncio.to_thread(log.append, topic, values, partition)
                written[stream] += count

    sizes = {"partition_fetch_bytes": 256 << 10, "fetch_bytes": 4 << 20}
    async with reading(address, bootstrap_servers=log.servers, topics=topic, **sizes):
        await one.attach()
        until = time.monotonic() + pytestconfig.getoption("--machine-seconds")
        while time.monotonic() < until:
            await append()
            await one.batch(max_messages=chance.choice((1, 200, 5000)))
            take()
            if chance.random() < 0.4:
                await asyncio.sleep(chance.choice((0.001, 0.02, 0.2, 1.0)))
        left = sum(written.values()) - sum(found.values())
        while found != written:
            async with asyncio.timeout(DEADLINE):
                while left == sum(written.values()) - sum(found.values()):
                    await one.batch()
                    take()
            left = sum(written.values()) - sum(found.values())
    print(f"{sum(written.values())} messages in all")


async def _values(batches_of: AsyncIterator[Batch | None]) -> AsyncGenerator[list[int]]:
    """The numbers that a partition has, as they come."""
    async with contextlib.aclosing(batches_of) as batches:  # type: ignore[type-var]
        async for batch in batches:
            if batch is not None:
                yield [int(value.removesuffix(PADDING)) for value in batch.values]


async def _all(values: AsyncGenerator[list[int]], before: int = 0) -> list[int]:
    """All numbers that are left, after some that were read before."""
    found: list[int] = []
    async with contextlib.aclosing(values):
        async for some in values:
            found += some
            if len(found) + before >= EACH:
                break
    return found
