"""Fetches with kafka-python; used on a thread of its own only."""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from headrace.connectors.kafka._errors import connect
from headrace.connectors.kafka._parameters import KafkaParameters
from headrace.connectors.kafka.fetcher import Ends, Fetched, OutOfRange, Truncated, Wanted
from headrace.connectors.kafka.internals import seek
from headrace.connectors.kafka.stretches import StretchConsumer
from headrace.connectors.kafka.unheard import Unheard

_POLL_MS = 100
_HURRIED_POLL_MS = 20
_STRETCHES_AT_ONCE = 8
_LOOK_S = 1.0
_END_OFFSETS_MS = 1000
_CLOSE_MS = 1000


class PythonFetcher:
    """A `Fetcher`. Its consumer is assigned what is wanted, never more, and nothing is paused."""

    def __init__(self, parameters: KafkaParameters, now: Callable[[], float] = time.monotonic) -> None:
        """Creates the fetcher, which connects with the first fetch; `now` returns the time in seconds."""
        self._parameters = parameters
        self._now = now
        self._consumer: StretchConsumer | None = None
        self._readers: dict[TopicPartition, object] = {}
        self._unheard = Unheard(now)
        """Partitions whose bounds are not known."""
        self._next_look = 0.0

    def fetch(self, partitions: Sequence[Wanted], *, hurry: bool) -> Fetched:
        """As `Fetcher.fetch`; raises the errors of kafka-python."""
        if self._consumer is None:
            self._consumer = connect(self._connect, self._parameters)
            self._unheard.begin()
        try:
            fetched = self._fetch(self._consumer, partitions, hurry)
        except (kafka_errors.SaslAuthenticationFailedError, kafka_errors.IllegalSaslStateError):
            self.close()  # it would not log in again, with another token either
            raise
        except BaseException:
            # Records may have been polled and lost: every partition begins again where its reader is.
            self._readers.clear()
            raise
        if self._unheard.ends_patience():
            self.close()
        return fetched

    def _fetch(self, consumer: StretchConsumer, partitions: Sequence[Wanted], hurry: bool) -> Fetched:
        self._assign(consumer, partitions)
        try:
            stretches = consumer.poll(_HURRIED_POLL_MS if hurry else _POLL_MS)
        except kafka_errors.OffsetOutOfRangeError as error:
            raise OutOfRange(error.args[0]) from error
        except kafka_errors.LogTruncationError as error:
            raise Truncated(list(error.divergent_offsets)) from error
        ends = self._ends(consumer, (*stretches, *self._unheard.partitions))
        heard = [partition for partition in self._unheard.partitions if partition in ends]
        positions = {partition: consumer.position(partition, timeout_ms=0) for partition in heard}
        self._unheard.hear(heard)
        if self._now() >= self._next_look:
            self._next_look = self._now() + _LOOK_S
            ends |= self._ends_of_idle(consumer, [one for one in partitions if one.partition not in stretches])
        return Fetched(stretches, positions, ends, self._unheard.silent())

    def forget(self, partition: TopicPartition) -> None:
        """Makes a partition begin again with the next fetch."""
        self._readers.pop(partition, None)

    def close(self) -> None:
        """Closes the connections."""
        consumer, self._consumer = self._consumer, None
        self._readers.clear()
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def _connect(self) -> StretchConsumer:
        parameters = self._parameters
        return StretchConsumer(
            **parameters.client_configs(KafkaConsumer),
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

    def _assign(self, consumer: StretchConsumer, readers: Sequence[Wanted]) -> None:
        """Assigns the partitions to the consumer, each at the offset that its reader has reached."""
        partitions = dict.fromkeys(one.partition for one in readers)
        if partitions.keys() != consumer.assignment():
            consumer.assign(list(partitions))
        self._readers = {partition: reader for partition, reader in self._readers.items() if partition in partitions}
        self._unheard.keep(partitions)
        for one in readers:
            if self._readers.get(one.partition) is one.reader:
                continue
            self._readers[one.partition] = one.reader
            self._unheard.expect(one.partition)
            if one.offset is not None:
                seek(consumer, one.partition, one.offset, one.leader_epoch)
            else:
                consumer.seek_to_beginning(one.partition)

    def _ends(self, consumer: StretchConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Returns the ends of the logs, for partitions for which they are known."""
        ends = {partition: consumer.highwater(partition) for partition in partitions}
        return {partition: Ends(end, end) for partition, end in ends.items() if end is not None}

    def _ends_of_idle(self, consumer: StretchConsumer, idle: Sequence[Wanted]) -> dict[TopicPartition, Ends]:
        """Returns the ends of partitions of which nothing has arrived: they differ while a transaction is open."""
        ends = self._ends(consumer, [one.partition for one in idle])
        behind = [
            one.partition
            for one in idle
            if one.partition in ends and one.offset is not None and one.offset < ends[one.partition].log
        ]
        if behind and self._parameters.isolation == "read_committed":
            with contextlib.suppress(kafka_errors.KafkaError):
                # With this isolation level, these are the last stable offsets.
                readable = consumer.end_offsets(behind, timeout_ms=_END_OFFSETS_MS)
                ends |= {partition: Ends(end, max(end, ends[partition].log)) for partition, end in readable.items()}
        return ends
