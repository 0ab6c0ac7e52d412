"""RabbitMQ: classic, quorum and stream queues as sources, exchanges as sinks."""

from headrace.connectors.rabbitmq._errors import Denied, QueueMissing, RabbitMQError, Unavailable
from headrace.connectors.rabbitmq._implementations import RABBITMQ, RABBITMQ_SINK, RABBITMQ_STREAM
from headrace.connectors.rabbitmq._parameters import (
    RabbitMQConnection,
    RabbitMQParameters,
    RabbitMQSinkParameters,
    RabbitMQStreamParameters,
)
from headrace.connectors.rabbitmq._queue import RabbitMQQueueSource
from headrace.connectors.rabbitmq._sink import RabbitMQSink
from headrace.connectors.rabbitmq._stream import RabbitMQStreamSource

__all__ = [
    "RABBITMQ",
    "RABBITMQ_SINK",
    "RABBITMQ_STREAM",
    "Denied",
    "QueueMissing",
    "RabbitMQConnection",
    "RabbitMQError",
    "RabbitMQParameters",
    "RabbitMQQueueSource",
    "RabbitMQSink",
    "RabbitMQSinkParameters",
    "RabbitMQStreamParameters",
    "RabbitMQStreamSource",
    "Unavailable",
]
