"""The consumer that fetches all partitions; used on its own thread only."""

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka import TopicPartition
from kafka import errors as kafka_errors

from headrace.connectors.kafka._errors import connect
from headrace.connectors.kafka._parameters import KafkaParameters
from headrace.connectors.kafka._stretches import Stretch, StretchConsumer

_POLL_MS = 100
_POLL_MS_WHERE_SOME_WAIT = 20
_STRETCHES_AT_ONCE = 8
_LOOK_SECONDS = 1.0
_END_OFFSETS_MS = 1000
_CLOSE_MS = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition to fetch.

    Attributes:
        partition: The partition.
        reader: Identifies its reader: another reader begins at its own offset.
        offset: The offset at which the reader begins, or which it has reached; None for the first offset.
        paused: Whether fetching it is paused.
    """

    partition: TopicPartition
    reader: object
    offset: int | None
    paused: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch.

    Attributes:
        stretches: The fetched stretches of each partition, in order.
        positions: The next offset of partitions that have just begun; None if it is not known.
        ends: The offset after the last readable record, for partitions for which it has changed.
    """

    stretches: Mapping[TopicPartition, Sequence[Stretch]] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


class Fetcher:
    """Fetches partitions. All methods block; only one thread calls them."""

    def __init__(self, parameters: KafkaParameters) -> None:
        """Creates the fetcher, which connects with the first fetch."""
        self._parameters = parameters
        self._consumer: StretchConsumer | None = None
        self._readers: dict[TopicPartition, object] = {}
        self._unknown: set[TopicPartition] = set()
        """Partitions whose bounds are not known."""
        self._next_look = 0.0

    def fetch(self, wanted: Sequence[Wanted]) -> Fetched:
        """Fetches from partitions, or waits for a short time if there is nothing.

        Raises:
            KafkaAway: No broker can be reached for the first time.
            KafkaFailed: They refuse this client.
            KafkaError: kafka-python failed.
        """
        if self._consumer is None:
            self._consumer = connect(self._connect, self._parameters)
        self._assign(self._consumer, wanted)
        waiting = any(one.paused for one in wanted)
        stretches = self._consumer.poll(_POLL_MS_WHERE_SOME_WAIT if waiting else _POLL_MS)
        ends = self._ends(self._consumer, (*stretches, *self._unknown))
        unknown = [partition for partition in self._unknown if partition in ends]
        positions = {partition: self._consumer.position(partition, timeout_ms=0) for partition in unknown}
        self._unknown.difference_update(unknown)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_SECONDS
            ends |= self._readable_ends(self._consumer, [one for one in wanted if one.partition not in stretches])
        return Fetched(stretches, positions, ends)

    def forget(self, partition: TopicPartition) -> None:
        """Makes a partition begin again with the next fetch."""
        self._readers.pop(partition, None)

    def close(self) -> None:
        """Closes the connections."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)
            self._consumer = None
            self._readers.clear()

    def _connect(self) -> StretchConsumer:
        parameters = self._parameters
        return StretchConsumer(
            **parameters.client_configs(),
            auto_offset_reset="none",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            isolation_level=parameters.isolation,
            check_crcs=parameters.verify_checksums,
            max_partition_fetch_bytes=parameters.partition_fetch_bytes,
            fetch_max_bytes=parameters.fetch_bytes,
            max_poll_records=_STRETCHES_AT_ONCE,
            metrics_enabled=False,
        )

    def _assign(self, consumer: StretchConsumer, wanted: Sequence[Wanted]) -> None:
        """Assigns the partitions to the consumer, and seeks for new readers."""
        partitions = [one.partition for one in wanted]
        if set(partitions) != consumer.assignment():
            consumer.assign(partitions)
        self._readers = {partition: self._readers[partition] for partition in partitions if partition in self._readers}
        self._unknown.intersection_update(partitions)
        for one in wanted:
            if self._readers.get(one.partition) is not one.reader:
                self._readers[one.partition] = one.reader
                self._unknown.add(one.partition)
                if one.offset is not None:
                    consumer.seek(one.partition, one.offset)
                else:
                    consumer.seek_to_beginning(one.partition)
        paused = consumer.paused()
        for one in wanted:
            if one.paused and one.partition not in paused:
                consumer.pause(one.partition)
            elif not one.paused and one.partition in paused:
                consumer.resume(one.partition)

    def _ends(self, consumer: StretchConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends of the logs, for partitions for which they are known."""
        ends = {partition: consumer.highwater(partition) for partition in partitions}
        return {partition: end for partition, end in ends.items() if end is not None}

    def _readable_ends(self, consumer: StretchConsumer, idle: Sequence[Wanted]) -> dict[TopicPartition, int]:
        """Returns the offset after the last readable record, which is before the end of the log while a transaction is open."""
        ends = self._ends(consumer, [one.partition for one in idle])
        behind = [
            one.partition for one in idle if not one.paused and one.offset is not None and one.offset < ends.get(one.partition, 0)
        ]
        if behind and self._parameters.isolation == "read_committed":
            with contextlib.suppress(kafka_errors.KafkaError):
                # With this isolation level, these are the last stable offsets.
                ends |= consumer.end_offsets(behind, timeout_ms=_END_OFFSETS_MS)
        return ends
