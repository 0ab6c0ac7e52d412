"""What docs/reference/connectors/rabbitmq.md shows works."""

import asyncio
from pathlib import Path

from tests.connectors.programs import line, page
from tests.connectors.rabbitmq.rig import DEADLINE_S, Query, values
from tests.gateway.sink_wire import Writer

SHOP = """\
import uuid

import pika

with pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@127.0.0.1:5672/")) as connection:
    channel = connection.channel()
    for queue in ("orders", "alerts"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for number in range(3):
        properties = pika.BasicProperties(delivery_mode=2, message_id=str(uuid.uuid4()))
        channel.basic_publish("", "orders", b"order %d" % number, properties, mandatory=True)
"""
SERVICE = """\
import pika

seen = set()
with pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@127.0.0.1:5672/")) as connection:
    channel = connection.channel()
    for method, properties, body in channel.consume("alerts"):
        if properties.message_id not in seen:
            seen.add(properties.message_id)
            print(body.decode(), flush=True)
        channel.basic_ack(method.delivery_tag)
"""


async def test_the_example(rabbit, rabbitmq, address: str, tmp_path: Path) -> None:
    instead = {
        "127.0.0.1:5672": f"{rabbitmq.host}:{rabbitmq.port}",
        "--source orders": "--source s",
        "--sink alerts": "--sink out",
    }
    reader, writer = Query(address), Writer(address)
    async with page("docs/reference/connectors/rabbitmq.md", tmp_path, instead) as shown:
        shop = await shown.other_side(SHOP)
        assert await asyncio.wait_for(shop.wait(), DEADLINE_S) == 0
        await shown.connector("rabbitmq", address)
        orders = await reader.read(3)
        assert values(orders) == [b"order 0", b"order 1", b"order 2"]
        assert len({order.message_id for order in orders}) == 3
        await shown.connector("rabbitmq-sink", address)
        service = await shown.other_side(SERVICE)
        for attempt, batch in (("a", 0), ("b", 0), ("a", 1)):
            await writer.deliver(batch, [b"alert %d" % batch], attempt=attempt)
        assert [await line(service), await line(service)] == ["alert 0", "alert 1"]
    for client in (reader, writer):
        await client.close()
    for queue in ("orders", "alerts"):
        rabbit.delete(queue)
