"""SIGKILL of connectors and of the broker."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.connectors.kafka.programs import STEPS
from tests.connectors.kafka.rig import CLIENTS, DEADLINE, numbered, numbers, reading, sink_of, until, write
from tests.selection.turns import in_turns

from headrace.connectors.kafka import KafkaSink, KafkaSinkParameters
from headrace.connectors.kafka.librdkafka_transactions import LibrdkafkaTransactions
from headrace.connectors.kafka.python_transactions import PythonTransactions
from headrace.sdk import Message, Rows, Transaction

PARTITIONS, PER_PARTITION = 3, 4000


async def program(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.connectors.kafka.programs", *arguments)


@pytest.fixture
def wide(log) -> str:
    """A topic with something in each of its partitions."""
    topic = log.create(PARTITIONS)
    for partition in range(PARTITIONS):
        log.append(topic, numbered(0, PER_PARTITION), partition=partition)
    return topic


def assert_whole(messages: dict[str, list[Message]], topic: str, count: int = PER_PARTITION) -> None:
    """Every message of every partition is there once, in order."""
    assert {stream: numbers(found) for stream, found in messages.items()} == {
        f"s/{topic}-{partition}": list(range(count)) for partition in range(PARTITIONS)
    }


async def test_a_source_that_is_killed_loses_and_repeats_nothing(log, wide, address, query, each_client):
    own = {"source": "s", "client": each_client, "bootstrap_servers": log.servers}
    parameters = json.dumps({**own, "topics": wide, "partition_fetch_bytes": 20_000})
    one = query()
    await one.attach()
    for share in (1, 2, 3):
        process = await program("read", address, parameters)
        while sum(map(len, one.messages.values())) < share * PARTITIONS * PER_PARTITION // 3:
            await one.batch(max_messages=1000)
        process.kill()
        await process.wait()
    assert_whole(one.messages, wide)


async def test_a_sink_may_be_killed_at_any_step(log, each_client):
    topics = {step: log.create() for step in STEPS}
    own = {"bootstrap_servers": log.servers, "client": each_client}
    parameters = {step: {**own, "topic": topic, "sink": topic} for step, topic in topics.items()}
    first, second = numbered(0, 10), numbered(10, 10)
    values = json.dumps([value.decode() for value in first])
    process = await program("write", "7", values, json.dumps(parameters))
    assert await asyncio.wait_for(process.wait(), DEADLINE) == 0

    def recover(step: str) -> int | None:
        with closing(KafkaSink(KafkaSinkParameters(**parameters[step]))) as sink:
            last = sink.last("p")
            assert log.values(topics[step]) == (first if last == 7 else []), step
            for batch, written in ((7, first), (8, second)):
                write(sink, batch, written)
            return last

    lasts = dict(zip(STEPS, await asyncio.gather(*(asyncio.to_thread(recover, step) for step in STEPS)), strict=True))
    # A commit that was confirmed stands, and one that was never asked for does not. Between the two, either may be.
    asked = STEPS.index("when the commit is asked for")
    assert [lasts[step] for step in STEPS[:asked]] == [None] * asked
    assert [lasts[step] for step in STEPS[asked + 1 :]] == [7, 7]
    for topic in topics.values():
        assert log.values(topic) == first + second


@pytest.mark.parametrize("each_client", in_turns(reversed(CLIENTS), of=2), indirect=True)
async def test_a_broker_that_is_killed_is_waited_for(kafka, log, wide, address, query, eager, monkeypatch, each_client):
    one = query()
    half_sent, commit_asked, broker_is_gone = threading.Event(), threading.Event(), threading.Event()

    def rows() -> Iterator[Rows]:
        yield Rows.of(*map(Message, numbered(0, 5000)))
        half_sent.set()
        assert broker_is_gone.wait(DEADLINE)
        yield Rows.of(*map(Message, numbered(5000, 5000)))

    kind = LibrdkafkaTransactions if each_client == "librdkafka" else PythonTransactions

    def commit_without_broker(transactions: LibrdkafkaTransactions | PythonTransactions) -> None:
        commit_asked.set()
        assert broker_is_gone.wait(DEADLINE)
        commit(transactions)

    halves, commits = log.create(), log.create()
    sending, committing = (sink_of(bootstrap_servers=log.servers, topic=topic, sink=topic) for topic in (halves, commits))
    write(committing, 0, numbered(0, 10))
    commit = kind.commit
    monkeypatch.setattr(kind, "commit", commit_without_broker)
    async with reading(address, bootstrap_servers=log.servers, topics=wide, partition_fetch_bytes=20_000, group=wide):
        await one.attach()
        await one.read(PARTITIONS * PER_PARTITION // 2)
        sent = asyncio.create_task(asyncio.to_thread(sending.write, Transaction("p", 0), rows()))
        committed = asyncio.create_task(asyncio.to_thread(write, committing, 1, numbered(10, 10)))
        for reached in (half_sent, commit_asked):
            assert await asyncio.to_thread(reached.wait, DEADLINE)
        await asyncio.to_thread(kafka.kill)
        broker_is_gone.set()
        # It gives what it fetched before, and then nothing comes.
        for _ in range(3):
            await one.batch()
        await asyncio.to_thread(kafka.start)
        await one.read(PARTITIONS * PER_PARTITION)
        for partition in range(PARTITIONS):
            await asyncio.to_thread(log.append, wide, numbered(PER_PARTITION, 1), partition)
        await one.read(PARTITIONS * (PER_PARTITION + 1))
        told = {f"{wide}-{partition}": PER_PARTITION + 1 for partition in range(PARTITIONS)}
        await until(lambda: log.committed(wide) == told)
        # The transactions have gone on: nothing has to be written again.
        await asyncio.gather(sent, committed)
    write(committing, 2, numbered(20, 10))
    assert_whole(one.messages, wide, PER_PARTITION + 1)
    assert log.values(halves) == numbered(0, 10_000)
    assert log.values(commits) == numbered(0, 30)
    for sink in (sending, committing):
        sink.close()
