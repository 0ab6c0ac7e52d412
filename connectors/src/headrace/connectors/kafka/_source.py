"""The `kafka` source: every partition of a topic is a partition of the source."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from kafka import TopicPartition

from headrace.connectors._connector import VERSION
from headrace.connectors._parameters import start_of
from headrace.connectors.bad_records import BadRecordPolicy, BadRecords, PolicySource
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed
from headrace.connectors.kafka._parameters import KafkaParameters
from headrace.connectors.kafka.calls import Calls
from headrace.connectors.kafka.cluster import Cluster, Topic
from headrace.connectors.kafka.fetching import Fetching
from headrace.connectors.kafka.group import GroupOffsets
from headrace.connectors.kafka.open_transactions import OpenTransactions
from headrace.connectors.kafka.reading import Reading
from headrace.connectors.kafka.stretches import Damage
from headrace.connectors.retry import FIRST_S, MAX_BACKOFF_S, ThrottledLog
from headrace.contract.backoff import Backoff
from headrace.sdk import Backlog, Batch, Message, Position, PositionLost

log = logging.getLogger(__name__)

_IDLE_S = 1.0
_FLUSH_S = 3.0


class KafkaSource(PolicySource):
    """Reads topics, from the position in the checkpoint.

    The sequence of a message is the offset after it, which is what a consumer group commits for it. The cursor is the id of the
    topic, which distinguishes it from a recreated topic of the same name.
    """

    connector = "kafka"
    version = VERSION
    # `read` itself waits for records.
    idle_seconds = 0.0

    def __init__(self, parameters: KafkaParameters) -> None:
        """Creates the source, which connects when its partitions are requested."""
        self.name = parameters.source
        self.chooses_start = parameters.start != "earliest"
        self._parameters = parameters
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._cluster = Cluster(parameters)
        self._questions = Calls("headrace kafka cluster")
        self._fetching = Fetching(parameters, self._cluster, self._questions, self)
        self._group = GroupOffsets(parameters.group, self._cluster, self._questions) if parameters.group else None
        self._open_transactions = OpenTransactions(self._cluster, self._questions, self)
        self._topics: Mapping[str, Topic] | None = None
        self._away, self._missing = ThrottledLog(log, self, "topics"), ThrottledLog(log)
        self._unplaced = ThrottledLog(log, self, "ends of partitions")

    async def partitions(self) -> Sequence[str]:
        """Returns the partitions that exist now; waits for the brokers if they have never been reached."""
        backoff = Backoff(FIRST_S, MAX_BACKOFF_S)
        while True:
            try:
                self._note(await self._questions.call(topics_to_read, self._parameters, self._cluster))
                self._away.over("the brokers are reachable again")
            except KafkaAway as away:
                self._away.report(f"{away}; retrying")
            if self._topics is not None:
                return [f"{topic.name}-{number}" for topic in self._topics.values() for number in topic.partitions]
            await asyncio.sleep(backoff.next())

    async def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """Returns where `start` is in partitions; waits for the brokers, and until all partitions have a leader."""
        backoff = Backoff(FIRST_S, MAX_BACKOFF_S)
        while True:
            try:
                keys = [_key(partition) for partition in partitions]
                ends = await self._questions.call(self._places, keys)
                self._unplaced.over("the ends of the partitions are known")
                cursors = [_cursor_of((self._topics or {}).get(key.topic)) for key in keys]
                return {
                    p: Position(sequence=end, cursor=cursor) for p, end, cursor in zip(partitions, ends, cursors, strict=True)
                }
            except KafkaAway as away:
                self._unplaced.report(f"{away}; the ends of the partitions are not known; retrying")
            await asyncio.sleep(backoff.next())

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | None]:
        """Yields a batch for each stretch of the log."""
        key = _key(partition)
        cursor = self._cursor(key.topic, position)
        start = None if position is None else position.sequence
        try:
            async with self._fetching.read(key, start, cursor) as reading:
                async for item in self._items(partition, reading):
                    yield item
        finally:
            self._open_transactions.forget(key)
            if self._group is not None and not self._fetching.readings:
                await self._group.flush(_FLUSH_S)

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Commits the offsets to the group."""
        if self._group is not None:
            key = _key(partition)
            reading = self._fetching.reading(key)
            if reading is not None:
                reading.acknowledged = position.sequence
            self._group.note(key, position.sequence if reading is None else reading.committed(position.sequence))

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the offsets between the last yielded record and the last readable one."""
        reading = self._fetching.reading(_key(partition))
        return None if reading is None else reading.backlog

    async def close(self) -> None:
        """Ends threads and closes connections."""
        self._fetching.close()
        try:
            await self._questions.call(self._cluster.close)
        finally:
            self._questions.close()

    async def _items(self, partition: str, reading: Reading) -> AsyncIterator[Batch | None]:
        """Yields fetched stretches, and None when all were taken or nothing has arrived for a while."""
        while True:
            while (stretch := reading.take()) is not None:
                if stretch.records:
                    yield stretch.records.batch(reading.cursor)
                elif self._group is not None and reading.acknowledged is not None:
                    # Only markers followed what is acknowledged.
                    self._group.note(reading.partition, reading.committed(reading.acknowledged))
                if stretch.damage is not None:
                    await self._leave_out(partition, stretch.damage)
            if reading.failure is not None:
                raise reading.failure
            if reading.caught_up:
                yield None
            await self._open_transactions.look(reading)
            if not await reading.wait(_IDLE_S):
                yield None

    def _places(self, partitions: Sequence[TopicPartition]) -> list[int]:
        """Returns the offsets at which a new query begins."""
        start, isolation = start_of(self._parameters.start), self._parameters.isolation
        if isinstance(start, datetime):
            return self._cluster.offsets_at(partitions, round(start.timestamp() * 1000), isolation)
        return self._cluster.ends(partitions, isolation)

    async def _leave_out(self, partition: str, damage: Damage) -> None:
        """Applies the policy for bad records to a damaged batch, which counts as one record.

        Raises:
            KafkaFailed: The policy is to fail.
        """
        offsets = f"offsets {damage.first} to {damage.next_offset - 1}"
        advice = (
            ""
            if self.bad_records.what is not BadRecords.FAIL
            else ("; restore it from an intact replica, or set bad_records to skip or dead-letter to continue after it")
        )
        error = KafkaFailed(f"Kafka at {self._parameters.servers}: {damage.reason}; {offsets} cannot be read{advice}")
        topic, _, number = partition.rpartition("-")
        place = {"topic": topic, "partition": number, "first-offset": damage.first, "last-offset": damage.next_offset - 1}
        headers = [(f"kafka-{name}", str(value).encode()) for name, value in place.items()]
        batch = Message(damage.data, sequence=damage.next_offset, headers=headers)
        await asyncio.to_thread(self.bad_records.take, partition, batch, error)

    def _note(self, topics: Sequence[Topic]) -> None:
        """Records which topics exist. Waits for missing topics; a recreated topic is a different one."""
        self._topics = {topic.name: topic for topic in topics}
        for reading in self._fetching.readings:
            topic = self._topics.get(reading.partition.topic)
            reading.suspended = topic is None
            if topic is not None and reading.cursor not in (None, _cursor_of(topic)):
                reading.fail(_made_anew(topic.name, reading.next_offset or 0))
        self._fetching.look()
        wanted = {*self._parameters.topics, *(reading.partition.topic for reading in self._fetching.readings)}
        if missing := sorted(wanted - self._topics.keys()):
            self._missing.report(f"no topic {', '.join(missing)} at {self._parameters.servers}; waiting for it")
        else:
            self._missing.over("all topics exist now")

    def _cursor(self, name: str, position: Position | None) -> bytes | None:
        """Returns the cursor of a topic.

        Raises:
            PositionLost: The position belongs to another topic of the same name.
        """
        topic = (self._topics or {}).get(name)
        cursor = _cursor_of(topic)
        if position is None:
            return cursor
        if None not in (cursor, position.cursor) and cursor != position.cursor:
            raise _made_anew(name, position.sequence)
        return cursor or position.cursor


def topics_to_read(parameters: KafkaParameters, cluster: Cluster) -> list[Topic]:
    """Returns the topics to read, of the topics that exist now.

    Raises:
        KafkaAway: The brokers cannot be reached.
        KafkaFailed: This client is not authorized.
    """
    if parameters.topic_pattern is None:
        return cluster.topics(parameters.topics)
    pattern = re.compile(parameters.topic_pattern)
    return [topic for topic in cluster.topics() if pattern.fullmatch(topic.name)]


def _key(partition: str) -> TopicPartition:
    """Returns the topic and the partition number in the name of a partition."""
    topic, _, number = partition.rpartition("-")
    return TopicPartition(topic, int(number))


def _cursor_of(topic: Topic | None) -> bytes | None:
    return None if topic is None or topic.id is None else topic.id.encode()


def _made_anew(topic: str, read: int) -> PositionLost:
    """Returns the loss if a topic is no longer the one that was read."""
    return PositionLost(
        f"topic {topic} was deleted and recreated: give the source another name; otherwise the first {read} offsets of the new "
        "topic are mistaken for offsets of the old one"
    )
