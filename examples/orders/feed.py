"""Creates topic, queue and schema where they lack, and writes orders to the topic: `python feed.py 10000`.

A few are no Avro at all. Orders of a customer are in one partition of the topic, in the order in which they were placed.
"""

import os
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pika
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import TopicAlreadyExistsError
from spending import Order, registry

from headrace.pipelines.formats import avro

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
KAFKA = os.environ.get("KAFKA", "127.0.0.1:9092")
RABBITMQ = os.environ.get("RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/")
PARTITIONS = 4
_BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)
_CUSTOMERS = 40
_UNREADABLE = b"no order"


def place(count: int, seed: int = 1) -> Iterator[Order]:
    """Yields an order a second, on average; a few customers order much."""
    choose = random.Random(seed)
    for number in range(count):
        customer = min(int(choose.expovariate(0.1)), _CUSTOMERS - 1)
        amount = round(choose.lognormvariate(3.5, 0.8), 2)
        yield Order(number, f"customer-{customer}", amount, _BEGIN + timedelta(seconds=number + choose.randrange(2)))


def create() -> None:
    """Creates the topic and the queue, unless they exist."""
    admin = KafkaAdminClient(bootstrap_servers=KAFKA)
    try:
        admin.create_topics({"orders": {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()
    with pika.BlockingConnection(pika.URLParameters(RABBITMQ)) as connection:
        connection.channel().queue_declare("alerts", durable=True)


def write(orders: Iterable[Order]) -> None:
    """Writes orders to the topic, each hundredth of which is followed by something else."""
    encode = avro(SCHEMA, Order, registry=registry, subject="orders-value", register=True).encoder()
    producer = KafkaProducer(bootstrap_servers=KAFKA, acks="all")
    for order in orders:
        producer.send("orders", encode(order), key=order.customer.encode())
        if order.id % 100 == 0:
            producer.send("orders", _UNREADABLE, key=order.customer.encode())
    producer.flush()
    producer.close()


if __name__ == "__main__":
    create()
    write(place(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
