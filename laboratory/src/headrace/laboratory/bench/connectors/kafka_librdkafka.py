"""Kafka, with librdkafka, by the package confluent-kafka."""

import itertools
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headrace.contract.errors import HeadraceError
from headrace.laboratory.bench.connectors.kafka import BATCH_BYTES, PARTITIONS, TRANSACTION_MESSAGES, Kafka
from headrace.laboratory.bench.connectors.system import BODY

_CONSUMED_AT_ONCE = 5_000
_WAIT_S = 60.0


class ClientMissing(HeadraceError):
    """The client library is not installed; the message says what to install."""


class KafkaLibrdkafka(Kafka):
    """A cluster, whose places are made and filled as by `Kafka`."""

    name = "kafka_librdkafka"
    client = f"confluent-kafka: consume({_CONSUMED_AT_ONCE:,}), checksums verified; a topic of {PARTITIONS} partitions"

    def __init__(self, url: str) -> None:
        """Connects to nothing yet.

        Raises:
            ClientMissing: The package is not installed.
        """
        super().__init__(url)
        if not is_installed():
            raise ClientMissing(f"{self.name} needs a package: pip install 'headrace-connectors[kafka-librdkafka]'")

    def drain(self, place: str, messages: int) -> float:
        """Consumes all partitions from their beginning."""
        library = _library()
        begun, taken = time.perf_counter(), 0
        own = {"group.id": place, "enable.auto.commit": False, "isolation.level": "read_committed", "check.crcs": True}
        consumer = library.Consumer({"bootstrap.servers": self.url, **own})
        consumer.assign([library.TopicPartition(place, partition, 0) for partition in range(PARTITIONS)])
        while taken < messages:
            taken += sum(message.error() is None for message in consumer.consume(_CONSUMED_AT_ONCE, 1.0))
        took = time.perf_counter() - begun
        consumer.close()
        return took

    def write(self, place: str, messages: int) -> float:
        """Produces to all partitions in turn, in transactions, as the sink does."""
        self.make(place)
        begun = time.perf_counter()
        own = {"linger.ms": 20, "batch.size": BATCH_BYTES, "transactional.id": f"{place}-alone"}
        producer = _library().Producer({"bootstrap.servers": self.url, **own})
        producer.init_transactions(_WAIT_S)
        for first in range(0, messages, TRANSACTION_MESSAGES):
            producer.begin_transaction()
            for _, partition in zip(range(first, min(messages, first + TRANSACTION_MESSAGES)), _turns(), strict=False):
                producer.produce(place, BODY, None, partition)
            producer.commit_transaction(_WAIT_S)
        return time.perf_counter() - begun

    def source(self, place: str, name: str) -> Sequence[str]:
        """The connector `kafka`."""
        return [*super().source(place, name), "--client", "librdkafka"]

    def sink(self, place: str, name: str) -> Sequence[str]:
        """The connector `kafka-sink`."""
        return [*super().sink(place, name), "--client", "librdkafka"]


def is_installed() -> bool:
    """Returns whether the client library is installed."""
    return find_spec("confluent_kafka") is not None


def _turns() -> "itertools.cycle[int]":
    return itertools.cycle(range(PARTITIONS))


def _library() -> Any:
    return import_module("confluent_kafka")
