"""Fetches with librdkafka, by the package confluent-kafka; used on a thread of its own only.

It hands over records one by one, and no batches: a damaged batch cannot be kept as one bad record, and ends the connector.
"""

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import TopicPartition

from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, KafkaUntrusted
from headrace.connectors.kafka._parameters import KafkaParameters
from headrace.connectors.kafka.fetcher import Ends, Fetched, OutOfRange, Truncated, Wanted
from headrace.connectors.kafka.librdkafka import LIBRARY, TlsFiles, connect, imported, told_by_librdkafka
from headrace.connectors.kafka.records import Records
from headrace.connectors.kafka.stretches import STRETCH_RECORDS, Stretch

_POLL_S = 0.1
_HURRIED_POLL_S = 0.02
_MESSAGES_AT_ONCE = 20_000
_LOOK_S = 1.0
_QUEUED_KBYTES = 4096
_BEGINNING = -2


@dataclass(slots=True)
class _Place:
    """Where a partition is that the consumer is assigned.

    Attributes:
        reader: Its reader.
        next_offset: The offset after what was handed over; None before anything was.
        end: The offset at which nothing readable was left last; None if there is more.
    """

    reader: object
    next_offset: int | None
    end: int | None = None


@dataclass(slots=True)
class _Run:
    """Consecutive records of a partition, before they are stretches.

    Attributes:
        stretches: The stretches so far.
        records: The records after them.
        epoch: The leader epoch of the last one; -1 if it is not known.
    """

    stretches: list[Stretch] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    epoch: int = -1

    def add(self, message: Any) -> None:
        """Adds a record."""
        records = self.records
        kind, time_ms = message.timestamp()
        key, value = message.key(), message.value()
        records.offsets.append(message.offset())
        records.times.append(time_ms if kind else -1)
        records.keys.append(key)
        records.values.append(value)
        if headers := message.headers():
            records.headers[len(records.values) - 1] = headers
        records.size += len(key or b"") + len(value or b"")
        if len(records) >= STRETCH_RECORDS or records.size >= _STRETCH_BYTES:
            self.cut(epoch=_epoch(message))

    def cut(self, next_offset: int | None = None, epoch: int = -1) -> None:
        """Ends a stretch, at the offset after its last record or a later one."""
        self.epoch = max(epoch, self.epoch)
        if self.records:
            next_offset = max(next_offset or 0, self.records.offsets[-1] + 1)
        if next_offset is not None:
            self.stretches.append(Stretch(self.records, next_offset, leader_epoch=self.epoch))
            self.records = Records()


_STRETCH_BYTES = 240 * 1024


def _after(epoch: int) -> dict[str, int]:
    return {"leader_epoch": epoch} if epoch >= 0 else {}


def _epoch(message: Any) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else int(epoch)


class LibrdkafkaFetcher:
    """A `Fetcher`."""

    def __init__(self, parameters: KafkaParameters) -> None:
        """Creates the fetcher, which connects with the first fetch."""
        self._parameters = parameters
        self._library = imported()
        self._eof = self._library.KafkaError._PARTITION_EOF
        self._all_down = self._library.KafkaError._ALL_BROKERS_DOWN
        self._tls_files = TlsFiles(parameters)
        self._consumer: Any = None
        self._places: dict[TopicPartition, _Place] = {}
        self._problem: Exception | None = None
        self._untrusted: KafkaUntrusted | None = None
        """Why TLS fails, until a message shows that it does not."""
        self._next_look = 0.0

    def fetch(self, partitions: Sequence[Wanted], *, hurry: bool) -> Fetched:
        """As `Fetcher.fetch`."""
        if self._tls_files.are_replaced():
            self.close()
            self._problem = None
        if self._consumer is None:
            self._consumer = self._connect()
        try:
            self._assign(partitions)
            fetched = self._fetched(partitions, _HURRIED_POLL_S if hurry else _POLL_S)
            if not fetched.stretches and isinstance(self._problem, KafkaUntrusted):
                # A partition that begins again reports its end, even if nothing more is to be read.
                self._untrusted, self._problem = self._problem, None
                raise self._untrusted
        except BaseException as error:
            # Records may have been consumed and lost: every partition begins again where its reader is.
            self._unassign(list(self._places))
            if isinstance(error, KafkaUntrusted) and self._parameters.tokens() is not None:
                self.close()  # it would use the refused token until it asks for one in its own time
            raise
        if fetched.stretches:
            return fetched
        problem, self._problem = self._problem, None
        if self._untrusted is not None and not isinstance(problem, KafkaFailed):
            problem = KafkaUntrusted(str(self._untrusted))
        if problem is not None:
            raise problem
        return fetched

    def forget(self, partition: TopicPartition) -> None:
        """Makes a partition begin again with the next fetch."""
        if partition in self._places:
            self._unassign([partition])

    def close(self) -> None:
        """Closes the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
            self._places.clear()

    def _connect(self) -> Any:
        parameters = self._parameters
        own = {
            "group.id": "headrace",  # required, and not used: nothing is committed, and no group is joined
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "isolation.level": parameters.isolation,
            "check.crcs": parameters.verify_checksums,
            "fetch.message.max.bytes": parameters.partition_fetch_bytes,
            "fetch.max.bytes": max(parameters.fetch_bytes, parameters.partition_fetch_bytes),
            "message.max.bytes": max(1000, min(parameters.fetch_bytes, parameters.partition_fetch_bytes)),
            "queued.max.messages.kbytes": _QUEUED_KBYTES,
            "fetch.queue.backoff.ms": 20,
            "error_cb": self._note,
        }
        return connect("Consumer", own, parameters)

    def _assign(self, partitions: Sequence[Wanted]) -> None:
        """Assigns the partitions to the consumer, each at the offset that its reader has reached."""
        by_partition = {one.partition: one for one in partitions}
        stale = [
            partition
            for partition, place in self._places.items()
            if partition not in by_partition
            or by_partition[partition].reader is not place.reader
            or place.next_offset != by_partition[partition].offset
        ]
        self._unassign(stale)
        new = [one for one in partitions if one.partition not in self._places]
        if not new:
            return
        partition_of = self._library.TopicPartition
        self._consumer.incremental_assign(
            [
                partition_of(*one.partition, _BEGINNING if one.offset is None else one.offset, **_after(one.leader_epoch))
                for one in new
            ]
        )
        for one in new:
            self._places[one.partition] = _Place(one.reader, one.offset)

    def _unassign(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._consumer.incremental_unassign([self._library.TopicPartition(*one) for one in partitions])
        for one in partitions:
            del self._places[one]

    def _fetched(self, partitions: Sequence[Wanted], seconds: float) -> Fetched:
        first = self._consumer.poll(seconds)
        messages = [] if first is None else [first, *self._consumer.consume(_MESSAGES_AT_ONCE, 0)]
        if any(message.error() is None or message.error().code() == self._eof for message in messages):
            self._parameters.note_reached(LIBRARY)
            self._untrusted = None
        runs: dict[TopicPartition, _Run] = {}
        last: dict[TopicPartition, Any] = {}
        for message in messages:
            if (partition := self._take(message, runs)) is not None:
                last[partition] = message
        for partition, run in runs.items():
            run.cut(epoch=_epoch(last[partition]) if partition in last else -1)
            if run.stretches:
                self._places[partition].next_offset = run.stretches[-1].next_offset
        stretches = {partition: run.stretches for partition, run in runs.items() if run.stretches}
        looked: Iterable[TopicPartition] = runs
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_S
            looked = [one.partition for one in partitions]
        ends = {partition: end for partition in looked if (end := self._end(partition)) is not None}
        return Fetched(stretches, {}, ends)

    def _take(self, message: Any, runs: dict[TopicPartition, _Run]) -> TopicPartition | None:
        """Adds a record to the run of its partition, which it returns, or handles what it says instead."""
        error = message.error()
        partition = TopicPartition(message.topic(), message.partition())
        place = self._places.get(partition)
        if error is None:
            if place is None:
                return None
            run = runs.get(partition)
            if run is None:
                run = runs[partition] = _Run()
            place.end = None
            try:
                run.add(message)
            except (SystemError, UnicodeDecodeError) as error:
                raise KafkaFailed(
                    f"Kafka at {self._parameters.servers}: the record at offset {message.offset()} of topic {partition.topic}, "
                    f"partition {partition.partition} has a header whose name is not UTF-8: read it with client = kafka-python"
                ) from error
            return partition
        code = error.code()
        errors = self._library.KafkaError
        if place is not None and code == errors._PARTITION_EOF:
            place.end = message.offset()
            runs.setdefault(partition, _Run()).cut(message.offset() if message.offset() != place.next_offset else None)
        elif place is not None and partition not in runs:
            self._failed(partition, place, error)
        elif place is not None:
            # Once the reader has what precedes it, the partition begins there, and fails again.
            place.reader = None
        return None

    def _failed(self, partition: TopicPartition, place: _Place, error: Any) -> None:
        """Handles an error of a partition of which nothing precedes it.

        Raises:
            OutOfRange: It does not have the offset.
            Truncated: It has lost what was read.
            KafkaFailed: This client may not read it, or a batch is damaged.
        """
        errors = self._library.KafkaError
        where = f"Kafka at {self._parameters.servers}: topic {partition.topic}, partition {partition.partition}"
        match error.code():
            case errors._LOG_TRUNCATION:
                raise Truncated([partition])
            case errors._AUTO_OFFSET_RESET | errors.OFFSET_OUT_OF_RANGE:
                raise OutOfRange({partition: place.next_offset or 0})
            case errors._BAD_MSG | errors.INVALID_MSG:
                raise KafkaFailed(
                    f"{where}: a record batch at or after offset {place.next_offset} is damaged: {error.str()}; restore it from "
                    "an intact replica, or read it with client = kafka-python, which can keep it as a dead letter"
                )
            case errors.UNKNOWN_TOPIC_OR_PART | errors._UNKNOWN_PARTITION | errors._UNKNOWN_TOPIC:
                pass  # it was deleted: the source waits for it
            case _:
                raise told_by_librdkafka(error, self._parameters)

    def _end(self, partition: TopicPartition) -> Ends | None:
        """Returns the end of a partition, as far as the last fetch has told it."""
        place = self._places.get(partition)
        if place is None:
            return None
        high = -1
        with contextlib.suppress(self._library.KafkaException):
            found = self._consumer.get_watermark_offsets(self._library.TopicPartition(*partition), cached=True)
            high = -1 if found is None else found[1]
        if place.end is not None:
            return Ends(place.end, max(place.end, high))
        return Ends(high, high) if high >= 0 else None

    def _note(self, error: Any) -> None:
        """Notes a problem of the whole client; the next fetch without records reports it."""
        problem = told_by_librdkafka(error, self._parameters)
        if isinstance(problem, KafkaAway) and isinstance(self._problem, KafkaUntrusted):
            return  # which is why no broker can be reached
        if not isinstance(problem, KafkaAway) or isinstance(problem, KafkaUntrusted) or error.code() == self._all_down:
            self._problem = problem
