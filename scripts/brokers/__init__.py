"""Real brokers on loopback, without Docker, for `make brokers` and for the tests."""

from scripts.brokers._broker import Broker, BrokerFailed, NotInstalled
from scripts.brokers._catalog import Catalog
from scripts.brokers._clusters import Cluster, KafkaNode, NatsNode
from scripts.brokers._hdfs import Hdfs
from scripts.brokers._kafka import Kafka
from scripts.brokers._nats import Nats
from scripts.brokers._postgresql import PostgreSQL
from scripts.brokers._rabbitmq import RabbitMQ
from scripts.brokers._rabbitmq4 import RabbitMQ4
from scripts.brokers._registry import Registry
from scripts.brokers._s3 import S3
from scripts.brokers._yarn import Yarn

BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (RabbitMQ, Nats, Kafka, PostgreSQL)}
"""The brokers that `make brokers` installs and starts by default."""
MORE_BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (RabbitMQ4, Hdfs, S3, Registry, Catalog, Yarn)}
"""Brokers, stores for checkpoints, a schema registry, a catalog and YARN, that it installs and starts only by name."""

__all__ = [
    "BROKERS",
    "MORE_BROKERS",
    "S3",
    "Broker",
    "BrokerFailed",
    "Catalog",
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
    "Registry",
    "Yarn",
]
