"""The RabbitMQ connectors on RabbitMQ 4, where it is installed; `HEADRACE_RABBITMQ=4` has all their tests run on it."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.connectors.rabbitmq.rig import Rabbit, numbered, serving, until, values

from headrace.connectors.rabbitmq import (
    RabbitMQParameters,
    RabbitMQQueueSource,
    RabbitMQSink,
    RabbitMQSinkParameters,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
)
from headrace.sdk import Message, Rows


@pytest.fixture(scope="module")
def rabbit4(rabbitmq4) -> Iterator[Rabbit]:
    """What publishers and operators do with it."""
    rabbit = Rabbit(rabbitmq4)
    yield rabbit
    rabbit.close()


def test_it_is_version_4(rabbitmq4):
    assert rabbitmq4.ctl("version").startswith("4.")


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_queue_is_read_given_back_and_acknowledged(rabbit4, address, query, kind):
    queue = rabbit4.declare(kind)
    rabbit4.publish(queue, numbered(1000))
    parameters = RabbitMQParameters(url=rabbit4.broker.url, source="s", queue=(queue,))
    reader = query()
    async with serving(RabbitMQQueueSource(parameters), address):
        assert values(await reader.uncommitted(1000)) == numbered(1000)
    async with serving(RabbitMQQueueSource(parameters), address):
        assert sorted(values(await reader.uncommitted(1000))) == sorted(numbered(1000))
        await reader.commit()
        await until(lambda: "\t0" in rabbit4.broker.ctl("list_queues", "name", "messages").split(queue)[1].splitlines()[0])


async def test_a_stream_queue_is_read_and_read_again(rabbit4, address, query):
    queue = rabbit4.declare("stream")
    rabbit4.publish(queue, numbered(1000))
    parameters = RabbitMQStreamParameters(url=rabbit4.broker.url, source="s", queue=(queue,))
    reader = query()
    async with serving(RabbitMQStreamSource(parameters), address):
        assert values(await reader.read(1000)) == numbered(1000)
    rabbit4.publish(queue, numbered(1000, 1500))
    async with serving(RabbitMQStreamSource(parameters), address):
        assert values(await reader.read(1500)) == numbered(1500)


async def test_messages_are_published(rabbit4):
    queue = rabbit4.declare()
    sink = RabbitMQSink(RabbitMQSinkParameters(url=rabbit4.broker.url, sink="out", routing_key=queue))
    assert await sink.write(Rows.of(*map(Message, numbered(1000)))) is None
    await sink.close()
    taken = await asyncio.to_thread(rabbit4.take, queue, 1000)
    assert [body for _, _, body in taken] == numbered(1000)
