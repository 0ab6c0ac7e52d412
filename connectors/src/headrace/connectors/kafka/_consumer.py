"""kafka-python's consumer, made to give stretches of a partition's log instead of single records."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka import IsolationLevel, KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError

from headrace.connectors.kafka._codecs import missing_package, name_of
from headrace.connectors.kafka._records import Records
from headrace.sdk import InvalidMessage

# A little below what the SDK takes for a whole frame, so that what is parsed at once becomes one frame.
_STRETCH_BYTES = 240 * 1024
_STRETCH_RECORDS = 8192


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of a partition's log.

    Attributes:
        records: What it has for a consumer; nothing where all of it is markers, was aborted, or was compacted away.
        next_offset: The offset after it.
    """

    records: Records
    next_offset: int

    @property
    def offset(self) -> int:
        """An offset in it, which kafka-python compares with the one that it has asked for."""
        return self.next_offset - 1


class StretchConsumer(KafkaConsumer):  # type: ignore[misc]
    """A `KafkaConsumer` whose `poll` gives `Stretch`es where it should give records; all else is as it was.

    It replaces one method inside kafka-python, the one that takes fetched record batches apart. What comes out is compared with
    what the unchanged consumer gives in `tests/connectors/kafka/test_records.py`, so that a new version of it is noticed.
    """

    def __init__(self, **configs: Any) -> None:
        """As `KafkaConsumer`."""
        super().__init__(**configs)
        self._fetcher.PartitionRecords = _Fetched
        # It takes this setting and does not pass it on: asking after a topic that was deleted would make it anew.
        self._cluster.config["allow_auto_create_topics"] = self.config["allow_auto_create_topics"]


class _Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]
    """What a fetch has brought of one partition."""

    def _unpack_records(self, tp: Any, records: Any, *_: Any) -> Iterator[Stretch]:
        """Takes record batches apart, a stretch at a time.

        Raises:
            KafkaError: They cannot be read. The message says where, and what to do.
        """
        stretch, yielded = Records(), self.fetch_offset
        try:
            while (batch := records.next_batch()) is not None:
                self._take(tp, batch, stretch)
                if (stretch.size >= _STRETCH_BYTES or len(stretch) >= _STRETCH_RECORDS) and records.has_next():
                    yielded = self.next_fetch_offset
                    yield Stretch(stretch, yielded)
                    stretch = Records()
        finally:
            # Before the last stretch is given, so that the next fetch is under way while that one is looked at; and where it
            # fails, or kafka-python would go on asking for more of what has ended.
            self.drain()
        if self.next_fetch_offset > yielded:
            yield Stretch(stretch, self.next_fetch_offset)

    def _take(self, tp: Any, batch: Any, stretch: Records) -> None:
        """Adds a batch to a stretch, unless a consumer must not see it."""
        if self.check_crcs and not batch.validate_crc():
            raise CorruptRecordError(f"{_at(tp, batch)} fails its checksum: it was damaged on the broker's disk or on the way")
        if not self._is_hidden(batch):
            self._add(tp, batch, stretch)
        if batch.magic == 2:
            self.next_fetch_offset: int = batch.next_offset
        elif stretch:
            self.next_fetch_offset = stretch.offsets[-1] + 1

    def _is_hidden(self, batch: Any) -> bool:
        """Whether a consumer must not see a batch: a transaction's end, or part of one that was aborted."""
        if batch.magic != 2:
            return False
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)

    def _add(self, tp: Any, batch: Any, stretch: Records) -> None:
        """Adds a batch's records to a stretch."""
        try:
            stretch.add(batch, self.fetch_offset)
        except UnsupportedCodecError as error:
            name = name_of(batch.compression_type)
            install = f"run: pip install {missing_package(name)}"
            raise UnsupportedCodecError(f"{_at(tp, batch)} is compressed with {name}; {install}") from error
        except InvalidMessage as error:
            raise CorruptRecordError(f"{_at(tp, batch)}: {error}") from None


def _at(tp: Any, batch: Any) -> str:
    return f"topic {tp.topic}, partition {tp.partition}: the record batch at offset {batch.base_offset}"
