"""What of kafka-python is used that it does not offer to others: all of it, and nothing of it anywhere else.

`tests/connectors/kafka/test_internals.py` names each, and fails where a release no longer has it as it is expected here.
"""

from importlib.util import find_spec
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.record import default_records

from headrace.connectors.kafka._checksum import crc32c


def install_checksum() -> None:
    """Has kafka-python use `crc32c` to read and to write, unless the package crc32c is there, which is faster still.

    Its own loop takes longer than all else of a fetch, and it looks for nothing but that package.
    """
    if find_spec("crc32c") is None:
        default_records.calc_crc32c = crc32c


def take_apart_with(consumer: KafkaConsumer, maker: Any) -> None:
    """Has a consumer make what it takes records from with `maker`, in place of `Fetcher.PartitionRecords`.

    It makes four objects of each record, which takes ten times as long as all else, and has no other way to the batches.
    """
    consumer._fetcher.PartitionRecords = maker


def raw(batch: Any) -> bytes:
    """The bytes of a record batch that has not been unpacked: it offers its header, and its records one by one."""
    return bytes(batch._buffer)


class HearingManager(KafkaConnectionManager):  # type: ignore[misc]
    """Makes connections that hear a broker out which closes them: that a login is refused is the last thing it says.

    Where it comes together with the end of the connection, kafka-python drops it, and tries again until time is over.
    """

    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        """As `KafkaConnectionManager`."""
        super().__init__(net, **configs)

    async def _build_transport(self, *args: Any, **options: Any) -> Any:
        """A connection."""
        transport = await super()._build_transport(*args, **options)
        receive = transport._sock_recv

        def hear_out() -> tuple[bytes, BaseException | None]:
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = hear_out
        return transport


def transactions(producer: KafkaProducer) -> Any:
    """The state of a producer's transactions: `commit_transaction` waits for ever, and nothing tells why one has failed."""
    return producer._transaction_manager


def sender(producer: KafkaProducer) -> Any:
    """The thread of a producer: `close` would have it send first what is to be aborted."""
    return producer._sender
