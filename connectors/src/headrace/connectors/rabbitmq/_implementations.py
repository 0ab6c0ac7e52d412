"""How the RabbitMQ connectors are built and checked."""

import asyncio

from headrace.connectors._connector import Implementation
from headrace.connectors.rabbitmq._errors import Denied
from headrace.connectors.rabbitmq._parameters import RabbitMQParameters, RabbitMQSinkParameters, RabbitMQStreamParameters
from headrace.connectors.rabbitmq._queue import RabbitMQQueueSource, check_lifetime
from headrace.connectors.rabbitmq._sink import RabbitMQSink
from headrace.connectors.rabbitmq._stream import RabbitMQStreamSource
from headrace.connectors.rabbitmq.consumer import is_stream
from headrace.connectors.rabbitmq.lifetime import lifetime_of
from headrace.connectors.rabbitmq.link import Link
from headrace.contract.counts import counted

_NAME = "headrace connector check"


async def _check_queues(parameters: RabbitMQParameters | RabbitMQStreamParameters, *, streams: bool) -> str:
    """Checks that the queues exist, and are stream queues or not, as required."""
    waiting = 0
    for queue in parameters.queue:
        link = await Link.open(parameters, _NAME)
        try:
            waiting += (await link.ask(link.channel.queue_declare, queue, passive=True)).message_count
            if isinstance(parameters, RabbitMQParameters):
                check_lifetime(await lifetime_of(link, queue), queue, parameters)
        finally:
            await link.close()
        if await is_stream(parameters, _NAME, queue) is not streams:
            kind, other = ("not a stream", "rabbitmq") if streams else ("a stream", "rabbitmq-stream")
            raise Denied(f"{link.broker}: {queue} is {kind} queue; use the connector {other}")
    count = len(parameters.queue)
    queues = "the queue" if count == 1 else f"all {count} queues"
    return f"{link.broker} has {queues}; {counted(waiting, 'message', 'is')} waiting"


async def _check_exchange(parameters: RabbitMQSinkParameters) -> str:
    """Checks that the exchange exists."""
    link = await Link.open(parameters, _NAME)
    try:
        if parameters.exchange:
            await link.ask(link.channel.exchange_declare, parameters.exchange, passive=True)
    finally:
        await link.close()
    return f"{link.broker} has the exchange {parameters.exchange or '(default)'}"


RABBITMQ = Implementation(
    RabbitMQParameters, RabbitMQQueueSource, lambda parameters: asyncio.run(_check_queues(parameters, streams=False))
)
RABBITMQ_STREAM = Implementation(
    RabbitMQStreamParameters, RabbitMQStreamSource, lambda parameters: asyncio.run(_check_queues(parameters, streams=True))
)
RABBITMQ_SINK = Implementation(RabbitMQSinkParameters, RabbitMQSink, lambda parameters: asyncio.run(_check_exchange(parameters)))
