"""What producers write at random, and what a query gets through the connector: the same, once, in order."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from kafka import KafkaProducer, TopicPartition
from scripts.brokers import Kafka
from tests import machines
from tests.connectors.kafka.rig import DEADLINE, Log, Query, reading, wait
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors.kafka import fetching, stretches

MAX_PARTITIONS = 10
SECONDS_PER_EXAMPLE = 12.0
_names = itertools.count()

pytestmark = pytest.mark.usefixtures("each_client")


@dataclass
class Written:
    """A record.

    Attributes:
        key: Its key.
        value: Its value.
        committed: Whether it can be read: None while its transaction is open.
    """

    key: bytes
    value: bytes | None
    committed: bool | None = True


@dataclass
class Writer:
    """A producer with a transaction, or without one.

    Attributes:
        producer: The producer.
        records: Those of its open transaction.
    """

    producer: KafkaProducer
    records: list[Written] = field(default_factory=list)
    is_open: bool = False


class KafkaMachine(RuleBasedStateMachine):
    """Appends, commits, aborts, adds partitions, compacts, deletes what was read, and restarts connector, gateway and broker."""

    log: ClassVar[Log]
    broker: ClassVar[Kafka]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.logs: list[list[Written]] = []
        self.writers: dict[int, Writer] = {}
        self.numbers = itertools.count()

    @initialize(
        partitions=st.integers(1, 6),
        compacted=st.booleans(),
        stamped=st.sampled_from(["CreateTime", "LogAppendTime"]),
    )
    def begin(self, partitions: int, compacted: bool, stamped: str) -> None:
        # Segments are compacted soon after the next one has begun, while they are read or before.
        eager = {"cleanup_policy": "compact,delete", "segment_ms": "300", "min_cleanable_dirty_ratio": "0.01"}
        self.topic = self.log.create(partitions, message_timestamp_type=stamped, **(eager if compacted else {}))
        self.compacted = compacted
        self.restarts = 0
        self.logs = [[] for _ in range(partitions)]
        self.query: Query | None = None
        self.kept: dict[str, Any] = {}
        self.found: dict[str, list[tuple[bytes | None, bytes | None]]] = {}
        self.runner.run(self._start())

    async def _start(self) -> None:
        """Starts gateway, connector and query, which continues from its checkpoint."""
        self.stack = AsyncExitStack()
        _, address = await self.stack.enter_async_context(gateway_serving())
        await self._connect(address)
        self.address = address
        self.query = Query(address, committed=self.kept)
        await self.query.attach()

    async def _connect(self, address: str) -> None:
        self.connection = AsyncExitStack()
        sizes = {"partition_fetch_bytes": 16 << 10, "fetch_bytes": 64 << 10}
        await self.connection.enter_async_context(
            reading(address, bootstrap_servers=self.log.servers, topics=self.topic, **sizes)
        )

    async def _stop(self) -> None:
        assert self.query is not None
        self._keep()
        await self.connection.aclose()
        await self.query.close()
        await self.stack.aclose()

    def _keep(self) -> None:
        """Takes over what the query has read."""
        assert self.query is not None
        for stream, messages in self.query.messages.items():
            self.found.setdefault(stream, []).extend((message.key, message.value) for message in messages)
        self.query.messages = {}
        self.kept = self.query.committed

    @rule(count=st.integers(1, 200), size=st.sampled_from([0, 20, 2000]), data=st.data())
    def append(self, count: int, size: int, data: st.DataObject) -> None:
        partition = data.draw(st.integers(0, len(self.logs) - 1))
        values = [None if size == 0 and n % 7 == 0 else b"%d %s" % (next(self.numbers), b"x" * size) for n in range(count)]
        key = b"k%d" % (count % 3)
        self.log.append(self.topic, values, partition, key=key)
        self.logs[partition] += [Written(key, value) for value in values]

    @rule(number=st.integers(0, 2), count=st.integers(0, 50), data=st.data())
    def append_in_a_transaction(self, number: int, count: int, data: st.DataObject) -> None:
        writer = self.writers.get(number)
        if writer is None:
            name = f"{self.topic}-{number}"
            options = {"transactional_id": name, "retry_backoff_ms": 20, "metadata_max_age_ms": 1000}
            producer = KafkaProducer(bootstrap_servers=self.log.servers, **options)
            writer = self.writers[number] = Writer(producer)
            producer.init_transactions()
        if not writer.is_open:
            writer.producer.begin_transaction()
            writer.is_open = True
        partition = data.draw(st.integers(0, len(self.logs) - 1))
        for _ in range(count):
            record = Written(b"k%d" % number, b"%d" % next(self.numbers), None)
            writer.producer.send(self.topic, record.value, key=record.key, partition=partition)
            self.logs[partition].append(record)
            writer.records.append(record)
        writer.producer.flush(DEADLINE)

    @precondition(lambda self: any(writer.is_open for writer in self.writers.values()))
    @rule(commit=st.booleans(), data=st.data())
    def end_a_transaction(self, commit: bool, data: st.DataObject) -> None:
        writer = self.writers[data.draw(st.sampled_from([n for n, writer in self.writers.items() if writer.is_open]))]
        (writer.producer.commit_transaction if commit else writer.producer.abort_transaction)()
        for record in writer.records:
            record.committed = commit
        writer.records, writer.is_open = [], False

    @precondition(lambda self: len(self.logs) < MAX_PARTITIONS)
    @rule()
    def add_a_partition(self) -> None:
        self.log.ask(lambda admin: admin.create_partitions({self.topic: len(self.logs) + 1}))
        wait(lambda: self.log.partitions(self.topic) == len(self.logs) + 1)
        self.logs.append([])
        for producer in [self.log.producer, *(writer.producer for writer in self.writers.values())]:
            wait(lambda producer=producer: _knows(producer, self.topic, len(self.logs)))

    @rule(batches=st.integers(1, 5), messages=st.sampled_from([1, 50, 100_000]))
    def read(self, batches: int, messages: int) -> None:
        async def read() -> None:
            assert self.query is not None
            for _ in range(batches):
                await self.query.batch(max_messages=messages)

        self.runner.run(read())

    @rule(seconds=st.sampled_from([0.05, 0.5]))
    def let_the_query_be_busy(self, seconds: float) -> None:
        self.runner.run(asyncio.sleep(seconds))

    @rule()
    def delete_what_is_in_the_checkpoint(self) -> None:
        """As retention does it."""
        assert self.query is not None
        upto = {
            TopicPartition(self.topic, int(stream.rpartition("-")[2])): position.sequence
            for stream, position in self.query.committed.items()
        }
        if upto:
            self.log.ask(lambda admin: admin.delete_records(upto))

    @rule()
    def restart_the_connector(self) -> None:
        async def restart() -> None:
            await self.connection.aclose()
            await self._connect(self.address)

        self.runner.run(restart())

    @precondition(lambda self: self.restarts == 0 and not any(writer.is_open for writer in self.writers.values()))
    @rule()
    def restart_the_broker(self) -> None:
        """Kills it; at most once, since that takes as long as all else. The producers of transactions are made anew."""
        self.restarts += 1
        for writer in self.writers.values():
            writer.producer.close(timeout=1)
        self.writers = {}
        self._restart_a_broker()
        wait(lambda: self.log.partitions(self.topic) == len(self.logs))

    def _restart_a_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    @rule()
    def restart_the_gateway(self) -> None:
        self.runner.run(self._stop())
        self.runner.run(self._start())

    def teardown(self) -> None:
        try:
            if self.logs:
                self._judge()
        finally:
            for writer in self.writers.values():
                writer.producer.close(timeout=1)
            self.runner.run(self._stop())
            self.runner.close()

    def _judge(self) -> None:
        """Ends what is open, reads to the end, and compares."""
        for number in [number for number, writer in self.writers.items() if writer.is_open]:
            self.writers[number].producer.commit_transaction()
            for record in self.writers[number].records:
                record.committed = True
            self.writers[number].is_open = False
        expected = {
            f"s/{self.topic}-{partition}": [record for record in records if record.committed]
            for partition, records in enumerate(self.logs)
        }
        expected = {stream: records for stream, records in expected.items() if records}
        self.runner.run(self._read_all({stream: len(records) for stream, records in expected.items()}))
        assert self.found.keys() == expected.keys()
        for stream, records in expected.items():
            if self.compacted:
                _assert_compacted(self.found[stream], records)
            else:
                assert self.found[stream] == [(record.key, record.value) for record in records], stream

    async def _read_all(self, counts: dict[str, int]) -> None:
        """Reads until all is found; or, if there may be less of it, until each stream is read to its end."""
        assert self.query is not None
        ends = await asyncio.to_thread(self._ends)
        async with asyncio.timeout(DEADLINE):
            self._keep()
            while not self._are_read(counts, ends):
                await self.query.batch()
                self._keep()
        # Nothing more comes.
        await self.query.batch()
        self._keep()

    def _are_read(self, counts: dict[str, int], ends: dict[str, int]) -> bool:
        if not self.compacted:
            return all(len(self.found.get(stream, ())) >= count for stream, count in counts.items())
        return all(self.kept[stream].sequence >= ends.get(stream, 0) for stream in counts if stream in self.kept) and (
            self.kept.keys() >= counts.keys()
        )

    def _ends(self) -> dict[str, int]:
        """The offset after the last record of each stream, which compaction never removes."""
        records = self.log.records(self.topic)
        return {f"s/{self.topic}-{record.partition}": record.offset + 1 for record in records}


def _assert_compacted(found: list[tuple[bytes | None, bytes | None]], written: list[Written]) -> None:
    """Each record comes once and in order, and among them is the last record of each key, whatever was compacted before."""
    rest = iter(written)
    taken = []
    for pair in found:
        record = next((record for record in rest if (record.key, record.value) == pair), None)
        assert record is not None, f"{pair!r} is there twice, or in another order"
        taken.append(record)
    last = {record.key: record for record in written}
    assert {key: record.value for key, record in last.items()} == {record.key: record.value for record in taken}


def _knows(producer: KafkaProducer, topic: str, partitions: int) -> bool:
    return len(producer.partitions_for(topic) or ()) == partitions


def test_what_is_read_is_what_was_written(kafka, log, monkeypatch, pytestconfig):
    monkeypatch.setattr(fetching, "QUEUE_BYTES", 16 << 10)
    monkeypatch.setattr(fetching, "_ALL_QUEUES_BYTES", 64 << 10)
    monkeypatch.setattr(stretches, "_STRETCH_BYTES", 4 << 10)
    KafkaMachine.log, KafkaMachine.broker = log, kafka
    machines.run(KafkaMachine, pytestconfig, SECONDS_PER_EXAMPLE)
