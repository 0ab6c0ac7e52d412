"""Kafka: a source that reads topics, and a sink that writes each transaction once."""

from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed
from headrace.connectors.kafka._implementations import KAFKA, KAFKA_SINK
from headrace.connectors.kafka._parameters import KafkaParameters, KafkaSinkParameters
from headrace.connectors.kafka._sink import KafkaSink
from headrace.connectors.kafka._source import KafkaSource
from headrace.connectors.kafka._transactions import Fenced
from headrace.connectors.kafka.internals import install_checksum, install_null_headers

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
