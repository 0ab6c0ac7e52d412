"""NATS: JetStream by the sequences of a stream or by a durable consumer, core NATS, and a sink that publishes to JetStream."""

from headrace.connectors.nats._consumer import NatsConsumerSource
from headrace.connectors.nats._core import NatsCoreSource
from headrace.connectors.nats._errors import NatsAway, NatsError, NatsRefused
from headrace.connectors.nats._implementations import NATS, NATS_CONSUMER, NATS_CORE, NATS_SINK
from headrace.connectors.nats._parameters import NatsConsumerParameters, NatsCoreParameters, NatsParameters, NatsSinkParameters
from headrace.connectors.nats._sink import NatsSink
from headrace.connectors.nats._source import NatsSource

__all__ = [
    "NATS",
    "NATS_CONSUMER",
    "NATS_CORE",
    "NATS_SINK",
    "NatsAway",
    "NatsConsumerParameters",
    "NatsConsumerSource",
    "NatsCoreParameters",
    "NatsCoreSource",
    "NatsError",
    "NatsParameters",
    "NatsRefused",
    "NatsSink",
    "NatsSinkParameters",
    "NatsSource",
]
