"""Creates topics and queue where they lack, and writes orders and customers of some days: `python feed.py 15000`.

Records of a key are in one partition. One order in fifty is there twice, and 3 % come up to two hours late.
"""

import os
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pika
from enrichment import Customer, Order
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import TopicAlreadyExistsError

from headrace.pipelines.formats import json

KAFKA = os.environ.get("KAFKA", "127.0.0.1:9092")
RABBITMQ = os.environ.get("RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/")
PARTITIONS = {"placed": 10, "customers": 4}
_BEGIN = datetime(2026, 5, 4, 8, tzinfo=UTC)
_HOURS, ORDERS_OF_A_DAY = 12, 1_500
_CUSTOMERS, _CITIES = 200, ("Bern", "Lyon", "Oslo", "Turin")


class Record(NamedTuple):
    """A record of a topic. Without a value, it is a tombstone."""

    topic: str
    key: str
    value: Order | Customer | None
    time: datetime


def day(number: int, seed: int = 1) -> list[Record]:
    """Returns the records of a day, in the order in which they are written: its orders, and the changes of customers."""
    choose = random.Random(seed * 1_000 + number)
    begin, step = _BEGIN + timedelta(days=number), timedelta(hours=_HOURS) / (ORDERS_OF_A_DAY + 1)
    placed = list[tuple[datetime, Record]]()
    for at in range(ORDERS_OF_A_DAY):
        time = (begin + (at + 1) * step).replace(microsecond=0)
        customer = f"customer-{min(int(choose.expovariate(0.03)), _CUSTOMERS - 1)}"
        amount = round(choose.lognormvariate(3.5, 0.8), 2)
        order = Record("placed", customer, Order(number * ORDERS_OF_A_DAY + at, customer, amount, time), time)
        written = time + (timedelta(minutes=choose.randrange(1, 119)) if choose.random() < 0.03 else timedelta())
        placed.append((written, order))
        if choose.random() < 0.02:
            placed.append((written + timedelta(minutes=choose.randrange(1, 10)), order))
    changed = [(one.time, one) for one in _changes(number, begin, choose)]
    return [record for _, record in sorted([*placed, *changed], key=lambda one: one[0])]


def _changes(number: int, begin: datetime, choose: random.Random) -> Iterator[Record]:
    """Yields all customers but a few at first, then changes, a tenth of which delete a customer."""
    for index in range(0 if number else _CUSTOMERS - 5):
        yield _changed(index, begin, choose)
    for minute in range(5, _HOURS * 60, 5):
        time, index = begin + timedelta(minutes=minute), int(choose.expovariate(0.03)) % _CUSTOMERS
        deletes = choose.random() < 0.1
        yield Record("customers", f"customer-{index}", None, time) if deletes else _changed(index, time, choose)


def _changed(index: int, time: datetime, choose: random.Random) -> Record:
    name = f"{choose.choice(('Ada', 'Ben', 'Cleo', 'Dan'))} {choose.randrange(1_000)}"
    return Record("customers", f"customer-{index}", Customer(name, choose.choice(_CITIES)), time)


def morning(number: int) -> list[Record]:
    """Returns the first order of a day, with which the hours of the day before end."""
    time = _BEGIN + timedelta(days=number)
    return [Record("placed", "early", Order(number * ORDERS_OF_A_DAY, "early", 1.0, time), time)]


def create() -> None:
    """Creates the topics and the queue, unless they exist. Kafka would soon delete records that are as old as these."""
    admin = KafkaAdminClient(bootstrap_servers=KAFKA)
    kept = {"retention.ms": "-1"}
    try:
        topics = {topic: {"num_partitions": count, "configs": kept} for topic, count in PARTITIONS.items()}
        admin.create_topics(topics, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()
    with pika.BlockingConnection(pika.URLParameters(RABBITMQ)) as connection:
        connection.channel().queue_declare("frequent", durable=True)


def write(records: Iterable[Record]) -> None:
    """Writes records to their topics."""
    encode = json().encoder()
    producer = KafkaProducer(bootstrap_servers=KAFKA, acks="all", linger_ms=20)
    for one in records:
        value = None if one.value is None else encode(one.value)
        producer.send(one.topic, value, key=one.key.encode(), timestamp_ms=int(one.time.timestamp() * 1000))
    producer.flush()
    producer.close()


if __name__ == "__main__":
    days = -(-int(sys.argv[1]) // ORDERS_OF_A_DAY) if len(sys.argv) > 1 else 2
    create()
    write(record for number in range(days) for record in day(number))
    write(morning(days))
