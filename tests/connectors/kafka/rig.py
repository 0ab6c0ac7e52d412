"""Kafka as producers, consumers and administrators see it, and what reads from it through a gateway."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import RetriableError
from tests.gateway.wire import Engine

from headrace.connectors.kafka import KafkaParameters, KafkaSink, KafkaSinkParameters, KafkaSource
from headrace.protocol.v1.frame_pb2 import Position
from headrace.sdk import Message, Rows, Settings, Transaction, decode_frame, serve

T = TypeVar("T")
DEADLINE = 150.0
SETTINGS = Settings(drain_seconds=1.0, partition_poll_seconds=0.3)
CLIENTS = ("kafka-python", "librdkafka")
"""The client libraries that the connectors may use."""
CLIENT = "kafka-python"
"""The client library of the connectors; the fixture `each_client` sets it."""
_numbers = itertools.count()


class Log:
    """The cluster, from the other side."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin: KafkaAdminClient | None = None
        self._producer: KafkaProducer | None = None

    def ask(self, question: Callable[[KafkaAdminClient], T]) -> T:
        """Has an administrator's client do something, again where the broker is not ready for it."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                if self._admin is None:
                    self._admin = KafkaAdminClient(bootstrap_servers=self.servers)
                return question(self._admin)
            except RetriableError:
                # It would keep in mind who was responsible before.
                self._forget()
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def create(self, partitions: int = 1, name: str | None = None, **settings: str) -> str:
        """Makes a topic; returns its name."""
        name = name or f"t{os.getpid()}.{next(_numbers)}"
        configs = {setting.replace("_", "."): value for setting, value in settings.items()}
        wanted = {name: {"num_partitions": partitions, "configs": configs}}
        self.ask(lambda admin: admin.create_topics(wanted, wait_for_metadata=True))
        return name

    def delete(self, topic: str) -> None:
        """Deletes a topic, and waits until it is gone."""
        self.ask(lambda admin: admin.delete_topics([topic]))
        wait(lambda: self.partitions(topic) == 0)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(self.ask(lambda admin: admin.describe_topics([topic]))[0]["partitions"])

    def append(self, topic: str, values: Iterable[bytes | None], partition: int = 0, **record: Any) -> None:
        """Appends records, and waits until they are there."""
        sent = [self.producer.send(topic, value, partition=partition, **record) for value in values]
        self.producer.flush(DEADLINE)
        for future in sent:
            future.get(DEADLINE)

    @property
    def producer(self) -> KafkaProducer:
        """Appends without transactions; notices partitions that are added within a second."""
        if self._producer is None:
            options = {"linger_ms": 5, "max_request_size": 8 << 20, "metadata_max_age_ms": 1000}
            self._producer = KafkaProducer(bootstrap_servers=self.servers, **options)
        return self._producer

    def values(self, topic: str, *, uncommitted: bool = False) -> list[bytes]:
        """The values of all records that there are now, by partition."""
        return [record.value for record in self.records(topic, uncommitted=uncommitted)]

    def records(self, topic: str, *, uncommitted: bool = False) -> list[Any]:
        """All records that there are now, by partition, as an unchanged consumer of kafka-python gives them."""
        isolation = "read_uncommitted" if uncommitted else "read_committed"
        consumer = KafkaConsumer(bootstrap_servers=self.servers, isolation_level=isolation, auto_offset_reset="earliest")
        try:
            partitions = sorted(TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic))
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            found: dict[TopicPartition, list[Any]] = {partition: [] for partition in partitions}
            deadline = time.monotonic() + DEADLINE
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
                for partition, records in consumer.poll(500).items():
                    found[partition] += records
            return [record for records in found.values() for record in records]
        finally:
            consumer.close()

    def committed(self, group: str) -> dict[str, int]:
        """The offsets of a group by partition."""
        offsets = self.ask(lambda admin: admin.list_group_offsets({group: None})).get(group, {})
        return {f"{partition.topic}-{partition.partition}": found.offset for partition, found in offsets.items()}

    def transaction(self, writer: str) -> str:
        """The state of a transactional id."""
        return str(self.ask(lambda admin: admin.describe_transactions([writer]))[writer].state.value)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=1)
        self._forget()

    def _forget(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


class Query:
    """A query that reads the source `s`, as the gateway sees it, with its checkpoint."""

    def __init__(
        self, address: str, name: str = "q", committed: dict[str, Position] | None = None, *, skip_lost: bool = False
    ) -> None:
        self.engine = Engine(address, name, streams="s/*", skip_lost=skip_lost)
        self.committed = dict(committed or {})
        self.messages: dict[str, list[Message]] = {}

    async def attach(self, **flags: Any) -> None:
        """Begins, or continues after a restart of the gateway."""
        await self.engine.attach(self.committed, **flags)

    async def begin(self, *streams: str) -> None:
        """Runs micro-batches until the checkpoint has positions in all of these streams."""
        async with asyncio.timeout(DEADLINE):
            while not self.committed.keys() >= set(streams):
                await self.batch()

    async def read(self, count: int) -> list[Message]:
        """Runs micro-batches until it has read `count` messages in all; returns the messages of all streams, by stream."""
        async with asyncio.timeout(DEADLINE):
            while sum(map(len, self.messages.values())) < count:
                await self.batch()
            # The beginning of the next batch shows that the last one is in the checkpoint.
            await self.engine.plan(self.committed, wait_ms=0)
        return [message for _, messages in sorted(self.messages.items()) for message in messages]

    async def batch(self, **limits: int) -> bool:
        """Runs a micro-batch; returns whether everything that was there at first has been read."""
        response = await self.engine.plan(self.committed, wait_ms=200, **limits)
        for planned in response.ranges:
            if planned.start:
                continue
            start = self.committed.get(planned.stream)
            for frame in await self.engine.fetch(planned.stream, start, planned.end):
                self.messages.setdefault(planned.stream, []).extend(
                    message
                    for message in decode_frame(frame)
                    if (start is None or message.sequence > start.sequence) and message.sequence <= planned.end.sequence
                )
        for planned in response.ranges:
            self.committed[planned.stream] = planned.end
        return response.exhausted

    async def close(self) -> None:
        await self.engine.close()


@asynccontextmanager
async def reading(address: str, **parameters: Any) -> AsyncIterator[KafkaSource]:
    """Streams Kafka into a gateway, and stops in good order."""
    source = KafkaSource(KafkaParameters(**{"source": "s", "client": CLIENT} | parameters))
    stop = asyncio.Event()
    task = asyncio.create_task(serve(source, gateway=address, settings=SETTINGS, stop=stop))
    try:
        yield source
        stop.set()
        await asyncio.wait_for(task, DEADLINE)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def sink_of(**parameters: Any) -> KafkaSink:
    """Makes a sink, of the client library that the test runs with."""
    return KafkaSink(KafkaSinkParameters(**{"client": CLIENT} | parameters))


def write(sink: KafkaSink, batch: int, values: Sequence[bytes]) -> None:
    """Writes a transaction of pipeline `p`, unless it is written, as the SDK does."""
    if sink.last("p") != batch:
        sink.write(Transaction("p", batch), iter([Rows.of(*map(Message, values))]))


def numbered(first: int, count: int) -> list[bytes]:
    """Values that are numbers."""
    return [b"%d" % n for n in range(first, first + count)]


def numbers(messages: Sequence[Message]) -> list[int]:
    """What messages hold that hold numbers."""
    return [int(message.value or b"-1") for message in messages]


def wait(condition: Callable[[], object]) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


async def until(condition: Callable[[], object]) -> None:
    """Waits until something holds that others do on this event loop."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.02)
