"""A topic of two partitions, and one for what comes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from scripts.brokers import Kafka
from tests.broker_crashes.pairs import Pair, again_while
from tests.broker_crashes.workload import Row, key_of, other_than_once, value_of

_TOPIC, _RESULTS, _GROUP = "crashes", "crashes.results", "crashes"
_PARTITIONS = 2
_DEADLINE_S = 150.0


class KafkaPair(Pair):
    """`kafka` and `kafka-sink`; what counts is what a consumer sees that reads what is committed."""

    name = "kafka"
    system = "kafka"
    sink = "kafka-sink"
    findings = staticmethod(other_than_once)

    def __init__(self, broker: Kafka) -> None:
        self._broker = broker

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {"bootstrap_servers": [self._broker.url], "topics": [_TOPIC], "group": _GROUP}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {"bootstrap_servers": [self._broker.url], "topic": _RESULTS}

    def make(self) -> None:
        admin = again_while(KafkaError, lambda: KafkaAdminClient(bootstrap_servers=self._broker.url))
        admin.create_topics({name: {"num_partitions": _PARTITIONS} for name in (_TOPIC, _RESULTS)}, wait_for_metadata=True)
        admin.close()

    def publish(self, numbers: range) -> None:
        producer = again_while(KafkaError, lambda: KafkaProducer(bootstrap_servers=self._broker.url, linger_ms=5))
        sent = [producer.send(_TOPIC, value_of(number), key=key_of(number).encode()) for number in numbers]
        for future in sent:
            future.get(_DEADLINE_S)
        producer.close()

    def rows(self) -> list[Row]:
        return again_while(KafkaError, self._read)

    def left(self) -> str | None:
        return again_while(KafkaError, self._lag)

    def _read(self) -> list[Row]:
        consumer = self._consumer(isolation_level="read_committed", auto_offset_reset="earliest")
        try:
            partitions = _partitions(_RESULTS)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            found: list[Row] = []
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                found += [Row.decode(record.value) for records in consumer.poll(500).values() for record in records]
            return found
        finally:
            consumer.close()

    def _lag(self) -> str | None:
        consumer = self._consumer(group_id=_GROUP, enable_auto_commit=False)
        try:
            ends = consumer.end_offsets(_partitions(_TOPIC))
            committed = {partition: consumer.committed(partition) or 0 for partition in ends}
            return None if committed == ends else f"the group is at {committed} of {ends}"
        finally:
            consumer.close()

    def _consumer(self, **options: Any) -> KafkaConsumer:
        return KafkaConsumer(bootstrap_servers=self._broker.url, **options)


def _partitions(topic: str) -> Sequence[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(_PARTITIONS)]
