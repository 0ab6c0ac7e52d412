"""Kafka: a source that reads topics, and a sink that writes each transaction once."""

from kafka import TopicPartition

from headrace.connectors._connector import Implementation
from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed
from headrace.connectors.kafka._parameters import KafkaParameters, KafkaSinkParameters
from headrace.connectors.kafka._sink import KafkaSink
from headrace.connectors.kafka._source import KafkaSource, topics_to_read
from headrace.connectors.kafka._transactions import Fenced
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.kafka.internals import install_checksum, install_null_headers
from headrace.connectors.kafka.limits import TopicLimits
from headrace.connectors.kafka.route import Route


def _check_source(parameters: KafkaParameters) -> str:
    """Checks that the topics and their offsets can be read."""
    cluster = Cluster(parameters)
    try:
        topics = topics_to_read(parameters, cluster)
        if missing := sorted(set(parameters.topics) - {topic.name for topic in topics}):
            raise KafkaFailed(f"no topic {', '.join(missing)} at {parameters.servers}: create it, or correct topics")
        cluster.all_bounds(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)
        return f"{_counted(len(topics), 'topic')} with {_counted(sum(len(topic.partitions) for topic in topics), 'partition')}"
    finally:
        cluster.close()


def _check_sink(parameters: KafkaSinkParameters) -> str:
    """Checks the topic, and the topic with the ids of transactions."""
    KafkaSink(parameters)
    cluster = Cluster(parameters)
    try:
        fixed = Route(parameters.topic).fixed
        if fixed is not None and TopicLimits(cluster).of(fixed) is None:
            raise KafkaFailed(f"no topic {fixed} at {parameters.servers}: create it, or correct topic")
        known = cluster.topics([parameters.state])
        where = f"topic {fixed}" if fixed is not None else f"topics {parameters.topic}"
        return f"{where}; topic {parameters.state} {'has' if known else 'will be created for'} the ids of transactions"
    finally:
        cluster.close()


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


KAFKA = Implementation(KafkaParameters, KafkaSource, _check_source)
KAFKA_SINK = Implementation(KafkaSinkParameters, KafkaSink, _check_sink)


install_checksum()
install_null_headers()

__all__ = [
    "KAFKA",
    "KAFKA_SINK",
    "Fenced",
    "KafkaAway",
    "KafkaConnection",
    "KafkaFailed",
    "KafkaParameters",
    "KafkaSink",
    "KafkaSinkParameters",
    "KafkaSource",
]
