"""The Kafka connectors accept what is legal in Kafka and seldom seen."""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import TransactionalIdNotFoundError
from pydantic import ValidationError
from scripts.brokers import Kafka
from tests.brokers.plugin import start_for_tests
from tests.connectors.kafka.rig import DEADLINE, Log, numbered, numbers, reading, sink_of, wait, write

from headrace.connectors.kafka import (
    KafkaFailed,
    KafkaParameters,
    KafkaSource,
    open_transactions,
)
from headrace.sdk import Message, Rows, Transaction

HOUR_MS = 3600_000


class Name(str):
    """The name of a header that is not UTF-8."""

    def encode(self, *_: object) -> bytes:  # type: ignore[override]
        return b"\xff" + super().encode()


class ForgetfulKafka(Kafka):
    """Forgets transactional ids that were not used for a second."""

    name = "kafka"

    def _prepare(self) -> None:
        super()._prepare()
        with (self.folder / "server.properties").open("a") as settings:
            settings.write("transactional.id.expiration.ms=1000\n")
            settings.write("transaction.remove.expired.transaction.cleanup.interval.ms=500\n")
            settings.write("producer.id.expiration.ms=1000\nproducer.id.expiration.check.interval.ms=500\n")


@pytest.fixture(scope="module")
def forgetful(brokers_folder: Path, pytestconfig: pytest.Config) -> Iterator[Log]:
    broker = start_for_tests(ForgetfulKafka, brokers_folder / "forgetful", pytestconfig)
    log = Log(broker.url)
    yield log
    log.close()
    broker.kill()


# The source


@pytest.mark.behaviour("kafka", "a header without a value", "reads and writes it as null, unlike an empty one")
@pytest.mark.behaviour("kafka", "names of headers that are not UTF-8", "writes such a byte as `\\xNN`")
async def test_headers_are_kept_apart(log, topic, address, query):
    log.append(topic, [b"v"], headers=[(Name("a"), b"1"), ("�a", b"2"), ("a", b"")])
    with closing(sink_of(bootstrap_servers=log.servers, topic=topic, sink=topic)) as sink:
        sink.last("p")
        sink.write(Transaction("p", 0), iter([Rows.of(Message(b"w", headers=[("n", None), ("e", b""), ("n", b"1")]))]))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        first, second = await one.read(2)
    assert first.headers == [(r"\xffa", b"1"), ("�a", b"2"), ("a", b"")]
    assert second.headers == [("n", None), ("e", b""), ("n", b"1")]


async def test_the_time_of_the_broker_is_the_event_time(log, address, query, each_client):
    topic = log.create(message_timestamp_type="LogAppendTime")
    log.append(topic, numbered(0, 10), timestamp_ms=1)
    with closing(sink_of(bootstrap_servers=log.servers, topic=topic, sink=topic)) as sink:
        message = Message(b"10", event_time=5_000_000)
        assert sink.check(Rows.of(message)) is None
        sink.write(Transaction("p", sink.last("p") or 0), iter([Rows.of(message)]))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        messages = await one.read(11)
    records = log.records(topic)
    assert [message.event_time for message in messages] == [record.timestamp * 1000 for record in records]
    assert all(abs(record.timestamp / 1000 - time.time()) < HOUR_MS for record in records)


async def test_a_query_begins_at_a_time(log, address, query, each_client):
    """Each partition at its first record that is not older; one without such a record at its end."""
    topic = log.create(3)
    first = 1_700_000_000_000
    for number in range(10):
        log.append(topic, numbered(number, 1), partition=0, timestamp_ms=first + number * HOUR_MS)
        log.append(topic, numbered(number, 1), partition=1, timestamp_ms=first)
    one = query()
    start = datetime.fromtimestamp((first + 6 * HOUR_MS - 1) / 1000, UTC).isoformat()
    async with reading(address, bootstrap_servers=log.servers, topics=topic, start=start):
        await one.attach()
        await one.begin(*(f"s/{topic}-{partition}" for partition in range(3)))
        for partition in (1, 2):
            log.append(topic, numbered(100 + partition, 1), partition=partition)
        await one.read(6)
    assert {stream.removeprefix(f"s/{topic}-"): numbers(found) for stream, found in one.messages.items()} == {
        "0": [6, 7, 8, 9],
        "1": [101],
        "2": [102],
    }


@pytest.mark.parametrize("start", ["", "later", "2026-13-01", "1969-12-31T23:59:59Z"])
def test_a_start_that_is_none_is_refused(start):
    with pytest.raises(ValidationError, match="start: "):
        KafkaParameters(source="s", bootstrap_servers="127.0.0.1:9092", topics="t", start=start)


async def test_a_transaction_that_stays_open_is_named(log, topic, address, query, each_client, monkeypatch):
    monkeypatch.setattr(open_transactions, "_HELD_S", 0.1)
    log.append(topic, numbered(0, 3))
    producer = KafkaProducer(bootstrap_servers=log.servers, transactional_id=f"{topic}-other")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"3", partition=0).get(DEADLINE)
    log.append(topic, numbered(4, 100))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        await one.read(3)
        said = (
            rf"records of partition 0 of topic {re.escape(topic)} from offset 3 on wait for the open transaction of "
            rf"transactional id {re.escape(topic)}-other \(producer \d+\), which began at offset 3"
        )
        async with asyncio.timeout(DEADLINE):
            while not re.search(said, str((await one.engine.status()).sessions)):
                await one.batch()
        (stream,) = (await one.engine.status()).streams
        assert stream.lag_messages == 101
        producer.commit_transaction()
        assert numbers(await one.read(104)) == list(range(104))
        async with asyncio.timeout(DEADLINE):
            while re.search(said, str((await one.engine.status()).sessions)):
                await one.batch()
    producer.close()


@pytest.mark.behaviour(
    "kafka",
    "names of headers that are not UTF-8, with librdkafka",
    "ends and names the record, and what to set",
)
async def test_headers_that_librdkafka_cannot_read_are_told(log, topic):
    pytest.importorskip("confluent_kafka")
    log.append(topic, [b"v"], headers=[(Name("a"), b"1")])
    source = KafkaSource(KafkaParameters(source="s", client="librdkafka", bootstrap_servers=log.servers, topics=topic))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(source.close)
        told = rf"the record at offset 0 of topic {re.escape(topic)}, partition 0 has a header whose name is not UTF-8"
        with pytest.raises(KafkaFailed, match=told):
            async for _ in source.read((await source.partitions())[0], None):
                pass


# The sink


@pytest.mark.behaviour(
    "kafka",
    "a transactional id that expired (`transactional.id.expiration.ms`)",
    "renews it, and writes the batch once",
)
def test_a_transactional_id_that_has_expired_is_renewed(forgetful, each_client):
    topic = forgetful.create()
    with closing(sink_of(bootstrap_servers=forgetful.servers, topic=topic, sink=topic)) as sink:
        for batch in range(3):
            write(sink, batch, numbered(10 * batch, 10))
            wait(lambda: _is_forgotten(forgetful, f"headrace-{topic}"))
        write(sink, 2, numbered(20, 10))
    assert forgetful.values(topic) == numbered(0, 30)


def _is_forgotten(log: Log, writer: str) -> bool:
    try:
        log.transaction(writer)
    except TransactionalIdNotFoundError:
        return True
    return False
