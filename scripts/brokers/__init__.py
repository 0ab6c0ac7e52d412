"""Real brokers on loopback, without Docker: `make brokers` and the fixtures of the tests run these."""

from scripts.brokers._broker import Broker, BrokerFailed, NotInstalled
from scripts.brokers._clusters import Cluster, KafkaNode, NatsNode
from scripts.brokers._hdfs import Hdfs
from scripts.brokers._kafka import Kafka
from scripts.brokers._nats import Nats
from scripts.brokers._postgresql import PostgreSQL
from scripts.brokers._rabbitmq import RabbitMQ
from scripts.brokers._rabbitmq4 import RabbitMQ4
from scripts.brokers._s3 import S3

BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (RabbitMQ, Nats, Kafka, PostgreSQL)}
"""What `make brokers` installs and starts."""
MORE_BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (RabbitMQ4, Hdfs, S3)}
"""What it does where it is asked for by name: what stores checkpoints is no broker, and is run the same way."""

__all__ = [
    "BROKERS",
    "MORE_BROKERS",
    "S3",
    "Broker",
    "BrokerFailed",
    "Cluster",
    "Hdfs",
    "Kafka",
    "KafkaNode",
    "Nats",
    "NatsNode",
    "NotInstalled",
    "PostgreSQL",
    "RabbitMQ",
    "RabbitMQ4",
]
