"""Real brokers on loopback, without Docker: `make brokers` and the fixtures of the tests run these."""

from scripts.brokers._broker import Broker, BrokerFailed, NotInstalled
from scripts.brokers._kafka import Kafka
from scripts.brokers._nats import Nats
from scripts.brokers._postgresql import PostgreSQL
from scripts.brokers._rabbitmq import RabbitMQ

BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (RabbitMQ, Nats, Kafka, PostgreSQL)}

__all__ = ["BROKERS", "Broker", "BrokerFailed", "Kafka", "Nats", "NotInstalled", "PostgreSQL", "RabbitMQ"]
