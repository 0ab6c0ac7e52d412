"""Real brokers on loopback, without Docker: `make brokers` and the fixtures of the tests run these."""

from scripts.brokers._broker import Broker, BrokerFailed, NotInstalled
from scripts.brokers._clusters import Cluster, KafkaNode, NatsNode
from scripts.brokers._kafka import Kafka
from scripts.brokers._nats import Nats
from scripts.brokers._postgresql import PostgreSQL
from scripts.brokers._rabbitmq import RabbitMQ
from scripts.brokers._rabbitmq4 import RabbitMQ4

BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (RabbitMQ, Nats, Kafka, PostgreSQL)}
"""What `make brokers` installs and starts."""
MORE_BROKERS: dict[str, type[Broker]] = {RabbitMQ4.name: RabbitMQ4}
"""What it does where it is asked for by name."""

__all__ = [
    "BROKERS",
    "MORE_BROKERS",
    "Broker",
    "BrokerFailed",
    "Cluster",
    "Kafka",
    "KafkaNode",
    "Nats",
    "NatsNode",
    "NotInstalled",
    "PostgreSQL",
    "RabbitMQ",
    "RabbitMQ4",
]
