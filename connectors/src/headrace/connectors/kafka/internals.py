"""All uses of private parts of kafka-python. No other module uses them.

`tests/connectors/kafka/test_internals.py` names each of them, and fails if a release lacks one or changes its form.
"""

from importlib.util import find_spec
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.record import default_records

from headrace.connectors.kafka.checksum import crc32c


def install_checksum() -> None:
    """Makes kafka-python use our `crc32c` for reading and writing, unless the package crc32c is installed, which is even faster.

    kafka-python's own loop takes longer than the rest of a fetch, and it looks only for that package.
    """
    if find_spec("crc32c") is None:
        default_records.calc_crc32c = crc32c


class _Null(bytes):
    """A header's value that is written as null."""


NULL = _Null()
"""Stands for None in the headers of a producer's `send`, which rejects None though Kafka and the builder of batches know it."""


def install_null_headers() -> None:
    """Makes kafka-python write `NULL` as null."""
    append = default_records.DefaultRecordBatchBuilder.append

    def append_with_nulls(self: Any, offset: Any, timestamp: Any, key: Any, value: Any, headers: Any) -> Any:
        if headers:
            headers = [(name, None if content is NULL else content) for name, content in headers]
        return append(self, offset, timestamp, key, value, headers)

    default_records.DefaultRecordBatchBuilder.append = append_with_nulls


def take_apart_with(consumer: KafkaConsumer, maker: Any) -> None:
    """Makes a consumer create the objects that it takes records from with `maker`, instead of `Fetcher.PartitionRecords`.

    The original creates four objects for each record, which takes ten times as long as the rest, and gives no other access to the
    batches.
    """
    consumer._fetcher.PartitionRecords = maker


def raw(batch: Any) -> bytes:
    """Returns the raw bytes of a record batch, whose interface only offers the header, and the records one by one."""
    return bytes(batch._buffer)


class HearingManager(KafkaConnectionManager):  # type: ignore[misc]
    """Creates connections that read everything that a broker sends before it closes them.

    The last message may be an authentication error. If it arrives together with the end of the connection, kafka-python drops it,
    and retries until the timeout.
    """

    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        """As `KafkaConnectionManager`."""
        super().__init__(net, **configs)

    async def _build_transport(self, *args: Any, **options: Any) -> Any:
        """Returns a connection."""
        transport = await super()._build_transport(*args, **options)
        receive = transport._sock_recv

        def hear_out() -> tuple[bytes, BaseException | None]:
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = hear_out
        return transport


def seek(consumer: KafkaConsumer, partition: TopicPartition, offset: int, leader_epoch: int) -> None:
    """Has a consumer fetch an assigned partition from an offset, after a record of this leader epoch; -1 if it is not known.

    The consumer's own `seek` forgets the epoch, and with it does not notice that the records before the offset are others now.
    """
    consumer._subscription.assignment[partition].seek(OffsetAndMetadata(offset, "", leader_epoch))


def transactions(producer: KafkaProducer) -> Any:
    """Returns the state of a producer's transactions: `commit_transaction` itself waits without limit and hides failures."""
    return producer._transaction_manager


def sender(producer: KafkaProducer) -> Any:
    """Returns the thread of a producer: `close` would first send what should be aborted."""
    return producer._sender
