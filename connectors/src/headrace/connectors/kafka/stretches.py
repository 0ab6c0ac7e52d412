"""The result of a fetch for one partition, divided into stretches of its log."""

import struct
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import IsolationLevel, KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, UnsupportedCodecError

from headrace.connectors.kafka.internals import raw, take_apart_with
from headrace.connectors.kafka.records import Records
from headrace.sdk import InvalidMessage

# A little below the SDK's frame size, so that what is parsed together becomes one frame.
_STRETCH_BYTES = 240 * 1024
STRETCH_RECORDS = 8192
_ABORT = b"\x00\x00"
_MEND = "restore it from an intact replica, or delete the records up to a later offset with kafka-delete-records"


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged record batch.

    Attributes:
        first: Its first requested offset.
        next_offset: The offset to continue with.
        reason: The damage, and its place.
        data: The raw bytes of the batch.
    """

    first: int
    next_offset: int
    reason: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of a partition's log.

    Attributes:
        records: The records for a consumer; empty if all of it is markers, aborted, or compacted away.
        next_offset: The offset after it.
        damage: The damaged batch after the records, if any.
        leader_epoch: The leader epoch of the last batch; -1 if it is not known.
    """

    records: Records
    next_offset: int
    damage: Damage | None = None
    leader_epoch: int = -1


class Fetched:
    """The result of a fetch for one partition; replaces kafka-python's `Fetcher.PartitionRecords`.

    It has the interface that the fetcher uses: the attributes below, `take`, `drain`, and whether there is more.

    Attributes:
        topic_partition: The partition.
        fetch_offset: The requested offset.
        next_fetch_offset: The offset after the records that were taken.
        leader_epoch: The leader epoch of the last batch.
        bytes_read: The number of bytes that were taken.
        records_read: The number of records that were taken.
    """

    def __init__(
        self,
        fetch_offset: int,
        tp: TopicPartition,
        records: Any,
        *,
        check_crcs: bool = True,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        aborted_transactions: Any = None,
        metric_aggregator: Any = None,
        on_drain: Callable[["Fetched"], object] = lambda _: None,
        suspects: MutableMapping[TopicPartition, int] | None = None,
        **_: Any,
    ) -> None:
        """As kafka-python calls it, with `suspects`: the place of a damaged batch in the last fetch of each partition."""
        self.topic_partition = tp
        self.fetch_offset = self.next_fetch_offset = fetch_offset
        self.leader_epoch = -1
        self.bytes_read = self.records_read = 0
        self._batches = records
        self._following: Any = None
        self._check_crcs = check_crcs
        self._committed_only = isolation_level == IsolationLevel.READ_COMMITTED
        self._to_abort = deque(sorted(aborted_transactions or (), key=lambda transaction: transaction.first_offset))
        self._aborted: set[int] = set()
        self._suspects = {} if suspects is None else suspects
        self._metric_aggregator = metric_aggregator
        self._on_drain = on_drain
        self._drained = False
        self._where = f"topic {tp.topic}, partition {tp.partition}"

    def __bool__(self) -> bool:
        """Returns whether there may be more to take."""
        return not self._drained

    def drain(self) -> None:
        """Drops the rest, which is fetched again."""
        if not self._drained:
            self._drained = True
            if self._metric_aggregator:
                self._metric_aggregator.record(self.topic_partition, self.bytes_read, self.records_read)
            self._on_drain(self)

    def take(self, n: int | None = None) -> list[Stretch]:
        """Takes up to `n` stretches.

        Raises:
            KafkaError: The next batch is damaged. The message says where it is, and what to do.
        """
        taken: list[Stretch] = []
        while self and (n is None or len(taken) < n):
            try:
                stretch = self._next()
            except Exception:
                self.drain()
                if not taken:
                    raise
                break  # it is fetched again, and the error is raised then
            if stretch is not None:
                taken.append(stretch)
        return taken

    def _next(self) -> Stretch | None:
        """Takes a stretch; None if nothing is left."""
        records, began = Records(), self.next_fetch_offset
        damage = None
        try:
            while damage is None and not self._drained:
                batch = self._next_batch()
                damage = None if batch is None else self._take(batch, records)
                if batch is None or damage is not None:
                    self.drain()
                elif self._following is None and not self._batches.has_next():
                    # Before the last stretch is returned, so that the next fetch runs while it is processed.
                    self.drain()
                elif records.size >= _STRETCH_BYTES or len(records) >= STRETCH_RECORDS:
                    break
        except (CorruptRecordError, UnsupportedCodecError):
            if self.next_fetch_offset == began:
                raise
            self.drain()  # the next batch is fetched again, and the error is raised then
        self.records_read += len(records)
        if self.next_fetch_offset == began:
            return None
        return Stretch(records, self.next_fetch_offset, damage, self.leader_epoch)

    def _next_batch(self) -> Any:
        """Returns the next batch; None after the last.

        Raises:
            CorruptRecordError: The following bytes are not a batch.
        """
        if self._following is not None:
            following, self._following = self._following, None
            return following
        try:
            return self._batches.next_batch()
        except (CorruptRecordError, AssertionError, struct.error) as error:
            what = f"{self._where}: what follows offset {self.next_fetch_offset} is not a record batch"
            raise CorruptRecordError(f"{what}, and it is unknown where the next one begins: {_MEND} ({error})") from error

    def _take(self, batch: Any, records: Records) -> Damage | None:
        """Adds the records of a batch, unless a consumer must not see them; returns the damage, if any."""
        try:
            if self._check_crcs and not batch.validate_crc():
                raise CorruptRecordError("fails its checksum: it was damaged on the broker's disk or in transit")
            if batch.magic == 2 and batch.next_offset <= self.next_fetch_offset:
                raise CorruptRecordError(f"is damaged: it ends before offset {self.next_fetch_offset}, which comes after it")
            if not self._is_hidden(batch):
                records.add(batch, self.fetch_offset)
        except UnsupportedCodecError as error:
            raise UnsupportedCodecError(f"{self._at(batch)} is {error.args[0]}") from error
        except CorruptRecordError as error:
            return self._damaged(batch, error.args[0])
        except InvalidMessage as error:
            return self._damaged(batch, f"is damaged: {error}")
        self.bytes_read += batch.size_in_bytes
        if batch.magic == 2:
            self.next_fetch_offset = batch.next_offset
        elif records:
            self.next_fetch_offset = records.offsets[-1] + 1
        return None

    def _is_hidden(self, batch: Any) -> bool:
        """Returns whether a consumer must not see a batch: a transaction marker, or part of an aborted transaction."""
        if batch.magic != 2:
            return False
        self.leader_epoch = batch.leader_epoch
        if self._committed_only and batch.has_producer_id():
            while self._to_abort and self._to_abort[0].first_offset <= batch.last_offset:
                self._aborted.add(self._to_abort.popleft().producer_id)
            if not batch.is_control_batch:
                return batch.is_transactional and batch.producer_id in self._aborted
            if _is_abort(batch):
                self._aborted.discard(batch.producer_id)
        return bool(batch.is_control_batch)

    def _damaged(self, batch: Any, reason: str) -> Damage | None:
        """Ends with a damaged batch if two fetches returned the same bytes: a single fetch may have been damaged in transit.

        Nothing after it is taken from this fetch, because the next fetch contains a new list of aborted transactions.

        Raises:
            CorruptRecordError: It is unknown where the next batch begins.
        """
        following = self._following = self._next_batch()
        if following is not None and following.base_offset <= self.next_fetch_offset:
            return None  # it is before the requested offset, although its header states otherwise
        self.drain()
        first = max(batch.base_offset, self.next_fetch_offset)
        if self._suspects.get(self.topic_partition) != first:
            self._suspects[self.topic_partition] = first
            return None
        reason = f"{self._at(batch)} {reason}"
        next_offset = _end(batch) if following is None else following.base_offset
        if next_offset is None or next_offset <= first:
            raise CorruptRecordError(f"{reason}, and it is unknown where the next batch begins: {_MEND}")
        self.next_fetch_offset = next_offset
        return Damage(first, next_offset, reason, raw(batch))

    def _at(self, batch: Any) -> str:
        """Describes where a batch is."""
        return f"{self._where}: the record batch at offset {batch.base_offset}"


def _is_abort(batch: Any) -> bool:
    """Returns whether a transaction marker is an abort, according to its key, which begins with a version."""
    marker = Records()
    marker.add(batch, 0)
    return bool(marker.keys) and (marker.keys[0] or b"")[2:4] == _ABORT


def _end(batch: Any) -> int | None:
    """Returns the offset after a damaged batch that is the last one; None if its header is inconsistent."""
    if batch.magic != 2:
        return int(batch.base_offset) + 1
    return int(batch.next_offset) if batch.records_count == batch.last_offset_delta + 1 else None


class StretchConsumer(KafkaConsumer):  # type: ignore[misc]
    """A `KafkaConsumer` whose `poll` returns `Stretch`es instead of records; everything else is unchanged.

    `tests/connectors/kafka/test_records.py` compares the results with the unchanged consumer's.
    """

    def __init__(self, **configs: Any) -> None:
        """As `KafkaConsumer`."""
        super().__init__(**configs)
        suspects: dict[TopicPartition, int] = {}
        take_apart_with(self, partial(Fetched, suspects=suspects))
