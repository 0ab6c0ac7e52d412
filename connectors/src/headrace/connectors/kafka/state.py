"""The last written batch of each pipeline, in a compacted topic that belongs to the same transactions."""

import json
import time

from kafka import KafkaConsumer, TopicPartition

from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, connect
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.kafka.stretches import StretchConsumer
from headrace.sdk import Transaction

# Small segments, because the active segment is not compacted, and all of it is read when the sink starts.
_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "4194304", "min.cleanable.dirty.ratio": "0.1"}
_POLL_MS = 200


class StateTopic:
    """The topic. Its keys name writer and pipeline, its values are batches."""

    def __init__(self, topic: str, writer: str, connection: KafkaConnection, cluster: Cluster) -> None:
        """Creates the object, without connecting.

        Args:
            topic: Its name.
            writer: The transactional id of the writer.
            connection: How to reach the cluster.
            cluster: For requests about the topic, and for creating it.
        """
        self.topic = topic
        self._writer = writer
        self._connection = connection
        self._cluster = cluster

    def make(self) -> None:
        """Creates the topic if it does not exist.

        Raises:
            KafkaFailed: It cannot be created, or an existing one is not compacted.
            KafkaAway: The brokers cannot be reached.
        """
        if not self._cluster.topics([self.topic]):
            try:
                self._cluster.create(self.topic, _SETTINGS)
            except KafkaFailed as error:
                raise KafkaFailed(
                    f"topic {self.topic} cannot be created: {error}; create it with cleanup.policy=compact"
                ) from error
        policy = self._cluster.settings(self.topic).get("cleanup.policy", "compact")
        if policy != "compact":
            raise KafkaFailed(
                f"topic {self.topic} would delete the ids of transactions: its cleanup.policy is {policy}, set it to compact"
            )

    def entry(self, transaction: Transaction) -> tuple[bytes, bytes]:
        """Returns the key and the value of the record for a transaction."""
        return self._key(transaction.pipeline), b"%d" % transaction.batch

    def read(self, seconds: float) -> dict[str, int]:
        """Reads the last batch of each pipeline.

        Call it when the earlier transactions of this writer are over. It waits for open transactions of other writers, because
        records after them cannot be read before they end.

        Raises:
            KafkaAway: The topic could not be read in time.
            KafkaFailed: A record batch of it is damaged.
        """
        partition = TopicPartition(self.topic, 0)
        end = self._cluster.bounds(self.topic, 0).end
        batches: dict[str, int] = {}
        consumer = connect(self._consumer, self._connection)
        try:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            deadline = time.monotonic() + seconds
            reached = 0
            while reached < end:
                if time.monotonic() >= deadline:
                    raise KafkaAway(f"topic {self.topic} cannot be read to its end: does another writer have a transaction open?")
                for stretch in consumer.poll(_POLL_MS).get(partition, ()):
                    if stretch.damage is not None:
                        raise KafkaFailed(f"{stretch.damage.reason}; without it, it is unknown which batches are written")
                    reached = stretch.next_offset
                    for key, value in zip(stretch.records.keys, stretch.records.values, strict=True):
                        self._take(batches, key, value)
        finally:
            consumer.close(autocommit=False)
        return batches

    def _take(self, batches: dict[str, int], key: bytes | None, value: bytes | None) -> None:
        """Notes an entry, if it belongs to this writer."""
        match json.loads(key or b"null"):
            case [self._writer, str(pipeline)] if value is not None:
                batches[pipeline] = int(value)

    def _key(self, pipeline: str) -> bytes:
        return json.dumps([self._writer, pipeline]).encode()

    def _consumer(self) -> StretchConsumer:
        return StretchConsumer(
            **self._connection.client_configs(KafkaConsumer),
            auto_offset_reset="none",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            isolation_level="read_committed",
            metrics_enabled=False,
        )
