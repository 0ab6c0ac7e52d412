"""Kafka, with kafka-python."""

import itertools
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from headrace.laboratory.bench.connectors.system import BODY, WritableSystem, stamped

PARTITIONS = 4
_POLLED_AT_ONCE = 5_000
BATCH_BYTES = 65_536
TRANSACTION_MESSAGES = 20_000
"""How many messages the bare client writes in a transaction: about as many as a micro-batch has."""


class Kafka(WritableSystem):
    """A cluster, given the addresses of some of its brokers, separated by commas."""

    name = "kafka"
    keeps = True
    client = (
        f"kafka-python: poll(max_records={_POLLED_AT_ONCE:,}), checksums verified as it does without the package crc32c; "
        f"a topic of {PARTITIONS} partitions"
    )

    def __init__(self, url: str) -> None:
        """Makes kafka-python log only errors."""
        super().__init__(url)
        logging.getLogger("kafka").setLevel(logging.WARNING)

    def fill(self, place: str, messages: int) -> None:
        """Produces to all partitions in turn."""
        self.make(place)
        self.produce(place, [(None, BODY)] * messages)

    def drain(self, place: str, messages: int) -> float:
        """Polls all partitions from their beginning."""
        begun, taken = time.perf_counter(), 0
        consumer = KafkaConsumer(
            bootstrap_servers=self.servers,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=_POLLED_AT_ONCE,
        )
        consumer.assign([TopicPartition(place, partition) for partition in range(PARTITIONS)])
        while taken < messages:
            taken += sum(map(len, consumer.poll(timeout_ms=1000).values()))
        took = time.perf_counter() - begun
        consumer.close()
        return took

    def publish(self, place: str, per_second: float, seconds: float) -> None:
        """Produces without lingering."""
        self.make(place)
        producer = KafkaProducer(bootstrap_servers=self.servers, linger_ms=0)
        partitions = itertools.cycle(sorted(producer.partitions_for(place)))
        for messages in stamped(per_second, seconds):
            for message in messages:
                producer.send(place, message, partition=next(partitions))
        producer.close()

    def watch(self, place: str, messages: int) -> list[tuple[float, float]]:
        """Consumes stamped messages as they become visible; returns the stamp of each, and when it was seen."""
        consumer = KafkaConsumer(bootstrap_servers=self.servers, enable_auto_commit=False, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(place, partition) for partition in consumer.partitions_for_topic(place) or ()])
        seen: list[tuple[float, float]] = []
        while len(seen) < messages:
            for records in consumer.poll(timeout_ms=1000).values():
                now = time.time()
                seen += ((float(record.value), now) for record in records)
        consumer.close()
        return seen

    def remove(self, place: str) -> None:
        """Deletes the topic, and the topic of the ids of a sink."""
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        for topic in (place, f"{place}-ids"):
            with suppress(UnknownTopicOrPartitionError):
                admin.delete_topics([topic])
        admin.close()

    def source(self, place: str, name: str) -> Sequence[str]:
        """The connector `kafka`."""
        servers = [part for server in self.servers for part in ("--bootstrap-servers", server)]
        return ["kafka", *servers, "--topics", place, "--source", name]

    def write(self, place: str, messages: int) -> float:
        """Produces to all partitions in turn, in transactions, as the sink does."""
        self.make(place)
        begun = time.perf_counter()
        producer = KafkaProducer(
            bootstrap_servers=self.servers, linger_ms=20, batch_size=BATCH_BYTES, transactional_id=f"{place}-alone"
        )
        producer.init_transactions()
        for first in range(0, messages, TRANSACTION_MESSAGES):
            producer.begin_transaction()
            send(producer, place, [(None, BODY)] * min(TRANSACTION_MESSAGES, messages - first))
            producer.commit_transaction()
        took = time.perf_counter() - begun
        producer.close()
        return took

    def sink(self, place: str, name: str) -> Sequence[str]:
        """The connector `kafka-sink`. The sink's name is in the name of the topic of its transactions' ids."""
        servers = [part for server in self.servers for part in ("--bootstrap-servers", server)]
        own = ["--transactional-id", place, "--state-topic", f"{place}-ids"]
        return ["kafka-sink", *servers, "--topic", place, "--sink", name, *own]

    @property
    def servers(self) -> list[str]:
        """The bootstrap brokers."""
        return self.url.split(",")

    def make(self, place: str, partitions: int = PARTITIONS) -> None:
        """Creates a topic, unless it exists."""
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        with suppress(TopicAlreadyExistsError):
            admin.create_topics({place: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True)
        admin.close()

    def produce(self, place: str, messages: Iterable[tuple[bytes | None, bytes]]) -> None:
        """Produces keys and values to all partitions in turn."""
        producer = KafkaProducer(bootstrap_servers=self.servers, linger_ms=20, batch_size=BATCH_BYTES)
        send(producer, place, messages)
        producer.close()


def send(producer: Any, place: str, messages: Iterable[tuple[bytes | None, bytes]]) -> None:
    """Sends keys and values to all partitions in turn, and waits until the brokers confirm."""
    for (key, value), partition in zip(messages, itertools.cycle(range(PARTITIONS)), strict=False):
        producer.send(place, value, key=key, partition=partition)
    producer.flush()
