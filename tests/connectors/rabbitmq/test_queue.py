"""The `rabbitmq` source on a real broker: what comes, what is acknowledged, and what comes again."""

import asyncio
import itertools
import os
from datetime import UTC, datetime
from decimal import Decimal

import pika
import pytest
from pika.channel import Channel
from tests.connectors.rabbitmq.rig import DEADLINE_S, Query, numbered, on_each_version, serving, until, values
from tests.gateway.wire import Engine
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors import dead_letters
from headrace.connectors.rabbitmq import (
    RABBITMQ,
    Denied,
    QueueMissing,
    RabbitMQParameters,
    RabbitMQQueueSource,
    consumer,
)
from headrace.gateway.config import Limits
from headrace.protocol.v1.connector_pb2 import CONNECTOR_STATE_DEGRADED
from headrace.sdk import Backlog, InvalidSource, MessageTooLarge

_numbers = itertools.count()


@pytest.fixture
def source(rabbitmq):
    """Makes the source `s` of some queues."""

    def make(*queues, **parameters):
        return RabbitMQQueueSource(RabbitMQParameters(**{"url": rabbitmq.url, "source": "s", "queue": queues, **parameters}))

    return make


@pytest.fixture
def acknowledgements(monkeypatch) -> list[tuple[int, bool]]:
    """The acknowledgements from now on, each with whether that includes all before."""
    sent: list[tuple[int, bool]] = []
    acknowledge = Channel.basic_ack

    def noting(channel, delivery_tag, multiple=False):
        sent.append((delivery_tag, multiple))
        acknowledge(channel, delivery_tag, multiple)

    monkeypatch.setattr(Channel, "basic_ack", noting)
    return sent


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_queue_is_read_and_acknowledged_once_it_is_committed(rabbit, source, address, query, kind, acknowledgements):
    queue = rabbit.declare(kind)
    rabbit.publish(queue, numbered(3000))
    async with serving(source(queue), address):
        reader = query()
        messages = await reader.uncommitted(3000)
        assert values(messages) == numbered(3000)
        assert {message.key for message in messages} == {queue.encode()}
        assert acknowledgements == []
        await reader.commit()
        await until(lambda: unacknowledged(rabbit, queue) == "0")
        assert acknowledgements == [(3000, True)]
        rabbit.publish(queue, [b"more"])
        assert values(await reader.uncommitted(1)) == [b"more"]


def unacknowledged(rabbit, queue: str) -> str:
    """How many messages of a queue are with a consumer."""
    lines = rabbit.broker.ctl("list_queues", "name", "messages_unacknowledged").splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{queue}\t"))


async def test_what_was_not_committed_comes_again_and_says_so(rabbit, source, address, query):
    queue = rabbit.declare("quorum")
    rabbit.publish(queue, numbered(100), message_id="m")
    first = query()
    async with serving(source(queue), address):
        messages = await first.uncommitted(100)
        assert not any(message.headers for message in messages)
    async with serving(source(queue), address):
        await first.batch()
        again = await first.uncommitted(100)
        assert values(again) == numbered(100)
        assert {tuple(message.headers or ()) for message in again} == {
            (("x-delivery-count", b"1"), ("amqp-redelivered", b"true")),
        }
        assert {message.message_id for message in again} == {"m"}
        await first.commit()
    async with serving(source(queue), address):
        rabbit.publish(queue, [b"last"])
        assert values(await first.uncommitted(1)) == [b"last"]


async def test_a_prefetch_of_one(rabbit, source, address, query):
    queue = rabbit.declare("classic")
    rabbit.publish(queue, numbered(20))
    async with serving(source(queue, prefetch=1), address):
        assert values(await query().read(20)) == numbered(20)


async def test_every_queue_is_a_partition(rabbit, source, address, query):
    queues = [rabbit.declare() for _ in range(3)]
    for queue in queues:
        rabbit.publish(queue, [queue.encode()] * 10)
    async with serving(source(*queues), address):
        reader = query()
        found = values(await reader.read(30))
        assert {value: found.count(value) for value in found} == {queue.encode(): 10 for queue in queues}
        assert set(reader.committed) == {f"s/{queue}" for queue in queues}


@on_each_version
async def test_values_of_any_size(rabbit, source, address, query):
    queue = rabbit.declare()
    sent = [b"", b"x", b"\x00\xff" * 500_000, b"y" * 131_072, b"y" * 131_064, b"z"]
    rabbit.publish(queue, sent)
    async with serving(source(queue), address):
        assert values(await query().read(len(sent))) == sent


HEADERS = {
    "text": ("é", "é".encode()),
    "bytes": (b"\xff", b"\xff"),
    "truth": (True, b"true"),
    "number": (5, b"5"),
    "long": (2**40, b"1099511627776"),
    "decimal": (Decimal("-123.45"), b"-123.45"),
    "time": (datetime(2026, 1, 31, 12, tzinfo=UTC), b"2026-01-31T12:00:00Z"),
    "none": (None, None),
    "list": (["a", 1], b'["a",1]'),
    "table": ({"a": True}, b'{"a":true}'),
}
"""Headers of every type that pika sends, and what they become."""


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@on_each_version
async def test_routes_and_properties_are_carried(rabbit, source, address, query, kind):
    queue = rabbit.declare(kind)
    exchange = f"{queue}-x"
    with rabbit.channel() as channel:
        channel.exchange_declare(exchange, "topic", auto_delete=True)
        channel.queue_bind(queue, exchange, "a.#")
    headers = {name: sent for name, (sent, _) in HEADERS.items()}
    rabbit.publish("a.b", [b"v"], exchange, content_type="text/plain", priority=3, timestamp=7, headers=headers)
    async with serving(source(queue, key="header:bytes"), address):
        (message,) = await query().read(1)
    assert message.key == b"\xff"
    assert message.event_time == 7_000_000
    assert dict(message.headers) == {
        **{name: carried for name, (_, carried) in HEADERS.items()},
        "amqp-content-type": b"text/plain",
        "amqp-priority": b"3",
        "amqp-exchange": exchange.encode(),
        "amqp-routing-key": b"a.b",
    }


@on_each_version
async def test_times_in_seconds_and_milliseconds(rabbit, source, address, query):
    queue = rabbit.declare()
    times = {1_700_000_000: 1_700_000_000_000_000, 1_700_000_000_123: 1_700_000_000_123_000, 2**63: None}
    for sent in times:
        rabbit.publish(queue, [b"v"], timestamp=sent)
    async with serving(source(queue), address):
        assert [message.event_time for message in await query().read(3)] == [*times.values()]


async def test_a_binary_routing_key(rabbit, source, address, query):
    queue = rabbit.declare("classic")
    with rabbit.channel() as channel:
        channel.queue_bind(queue, "amq.fanout")
        channel.basic_publish("amq.fanout", b"\xff\x00\xfe", b"v")
    async with serving(source(queue), address):
        (message,) = await query().read(1)
    assert message.key == b"\xff\x00\xfe"


async def test_a_message_above_the_limit_of_the_gateway_is_rejected_alone(rabbit, source, caplog):
    dead = rabbit.declare()
    queue = rabbit.declare(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=dead)
    good = numbered(1000)
    rabbit.publish(queue, [*good[:500], b"x" * 100_000, *good[500:]])
    async with gateway_serving(Limits(max_frame_bytes=50_000)) as (_, address):
        reader = Query(address)
        async with serving(source(queue), address) as task:
            assert values(await reader.read(1000)) == good
            assert [len(body) for _, _, body in await asyncio.to_thread(rabbit.take, dead, 1)] == [100_000]
            await until(lambda: rabbit.count(queue) == 0)
            assert not task.done()
        await reader.close()
    assert f"stream s/{queue}: skipped a record (1 since the last such line, 1 in total" in caplog.text
    assert rabbit.count(dead) == 0


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
async def test_a_message_that_cannot_be_taken_may_be_kept_here_or_nowhere(rabbit, source, tmp_path, policy):
    dead = rabbit.declare()
    queue = rabbit.declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    rabbit.publish(queue, [b"x" * 100_000], message_id="large")
    folder = tmp_path / "dead" if policy == "dead-letter" else None
    async with gateway_serving(Limits(max_frame_bytes=50_000)) as (_, address):
        reader = Query(address)
        async with serving(source(queue, bad_records=policy, dead_letters=folder), address):
            rabbit.publish(queue, [b"a"])
            assert values(await reader.read(1)) == [b"a"]
            await reader.batch()
        await reader.close()
    await until(lambda: rabbit.count(queue) == 0)
    assert rabbit.count(dead) == 0
    if folder is not None:
        (letter,) = dead_letters(folder)
        assert (letter.message.value, letter.message.message_id) == (b"x" * 100_000, "large")
        assert (letter.sink, letter.stream) == ("s", f"s/{queue}")
        assert "makes a frame of 100" in letter.reason


async def test_messages_above_the_limit_of_the_gateway_end_the_connector_where_that_is_wanted(rabbit, source):
    queue = rabbit.declare()
    rabbit.publish(queue, [b"a", b"x" * 100_000])
    async with gateway_serving(Limits(max_frame_bytes=50_000)) as (_, address):
        reader = Query(address)
        async with serving(source(queue, bad_records="fail"), address) as task:
            assert values(await reader.read(1)) == [b"a"]
            with pytest.raises(MessageTooLarge, match=f"stream s/{queue}: message 2 makes a frame of 1000.. bytes"):
                await asyncio.wait_for(task, DEADLINE_S)
        await reader.close()


async def test_messages_that_are_too_large_can_be_rejected(rabbit, source, address, query):
    dead = rabbit.declare()
    queue = rabbit.declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    rabbit.publish(queue, [b"a", b"x" * 1001, b"b" * 1000, b"x" * 2000])
    async with serving(source(queue, reject_above_bytes=1000), address):
        assert values(await query().read(2)) == [b"a", b"b" * 1000]
    assert [len(body) for _, _, body in await asyncio.to_thread(rabbit.take, dead, 2)] == [1001, 2000]


@pytest.mark.behaviour("rabbitmq", "a queue that does not exist", "ends and names it")
async def test_a_queue_that_is_missing_ends_the_connector(source, address, query):
    async with serving(source("nowhere"), address) as task:
        await query().batch(0)
        with pytest.raises(QueueMissing, match=r"stream s/nowhere: RabbitMQ at 127.*no queue 'nowhere'.*missing_queue to wait"):
            await asyncio.wait_for(task, DEADLINE_S)


async def test_a_queue_that_is_missing_can_be_waited_for(rabbit, source, address, query, caplog):
    queue = rabbit.declare()
    rabbit.delete(queue)
    async with serving(source(queue, missing_queue="wait"), address):
        reader = query()
        await reader.batch(0)
        await until(lambda: f"no queue '{queue}'" in caplog.text)
        with rabbit.channel() as channel:
            channel.queue_declare(queue, durable=True)
        rabbit.publish(queue, [b"there"])
        assert values(await reader.read(1)) == [b"there"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@on_each_version
async def test_a_queue_that_is_deleted_ends_the_connector(rabbit, source, address, query, kind):
    queue = rabbit.declare(kind)
    rabbit.publish(queue, [b"a"])
    async with serving(source(queue), address) as task:
        await query().read(1)
        rabbit.delete(queue)
        with pytest.raises(QueueMissing, match=f"no queue '{queue}'"):
            await asyncio.wait_for(task, DEADLINE_S)


async def test_a_queue_that_is_deleted_without_a_notification_ends_the_connector(rabbit, source, address, query, monkeypatch):
    monkeypatch.setattr(consumer, "_IDLE_ASK_S", 0.1)
    monkeypatch.setattr(Channel, "add_on_cancel_callback", lambda channel, callback: None)
    queue = rabbit.declare("classic")
    rabbit.publish(queue, [b"a"])
    async with serving(source(queue), address) as task:
        await query().read(1)
        rabbit.delete(queue)
        with pytest.raises(QueueMissing, match=f"no queue '{queue}'"):
            await asyncio.wait_for(task, DEADLINE_S)


async def test_a_queue_that_is_declared_again_goes_on_where_that_is_waited_for(rabbit, source, address, query):
    queue = rabbit.declare("classic")
    rabbit.publish(queue, [b"a"])
    async with serving(source(queue, missing_queue="wait"), address):
        reader = query()
        await reader.read(1)
        rabbit.delete(queue)
        with rabbit.channel() as channel:
            channel.queue_declare(queue, durable=True)
        rabbit.publish(queue, [b"b"])
        assert values(await reader.read(2)) == [b"a", b"b"]


def declared(rabbit, channel=None, **properties) -> str:
    """Declares a queue that does not stay; returns its name."""
    name = f"temporary-{os.getpid()}-{next(_numbers)}"
    (channel or rabbit.channel()).queue_declare(name, **{"durable": True, **properties})
    return name


TEMPORARY = [
    ({"auto_delete": True}, "it is auto-delete"),
    ({"auto_delete": True, "durable": False}, "it is auto-delete"),
    ({"auto_delete": True, "arguments": {"x-max-priority": 5, "x-message-ttl": 600_000}}, "it is auto-delete"),
    ({"arguments": {"x-expires": 600_000}}, "it has x-expires, 600000 ms"),
    ({"arguments": {"x-expires": 600_000, "x-queue-type": "quorum"}}, "it has x-expires, 600000 ms"),
    (
        {"arguments": {"x-expires": 600_000, "x-max-length": 100_000, "x-overflow": "reject-publish"}},
        "it has x-expires, 600000 ms",
    ),
]


@pytest.mark.parametrize(("properties", "said"), TEMPORARY)
@on_each_version
async def test_a_queue_that_goes_with_its_last_consumer_is_refused_with_its_messages_in_it(
    rabbit, source, address, query, properties, said
):
    queue = declared(rabbit, **properties)
    rabbit.publish(queue, numbered(10))
    async with serving(source(queue), address) as task:
        await query().batch()
        with pytest.raises(Denied, match=f"{said}: the broker deletes it.*set temporary_queue to accept"):
            await asyncio.wait_for(task, DEADLINE_S)
    with pytest.raises(Denied, match=said):
        await asyncio.to_thread(RABBITMQ.check, RabbitMQParameters(url=rabbit.broker.url, source="s", queue=[queue]))
    assert rabbit.count(queue) == 10
    rabbit.delete(queue)


@on_each_version
async def test_a_queue_that_goes_with_its_last_consumer_can_be_accepted_and_is_named(rabbit, source, address, query, caplog):
    queue = declared(rabbit, auto_delete=True)
    rabbit.publish(queue, numbered(10))
    engine = Engine(address)
    async with serving(source(queue, temporary_queue="accept"), address):
        assert values(await query().read(10)) == numbered(10)

        async def named() -> bool:
            reported = [session.reported for session in (await engine.status()).sessions]
            return any("auto-delete" in each.reason and each.state == CONNECTOR_STATE_DEGRADED for each in reported)

        await until(named)
    await engine.close()
    assert f"queue {queue}: it is auto-delete: the broker deletes it" in caplog.text


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"durable": False},
        {"arguments": {"x-queue-type": "quorum", "x-delivery-limit": 7}},
        {"arguments": {"x-queue-type": "classic", "x-max-priority": 5, "x-dead-letter-exchange": "amq.direct"}},
        {"arguments": {"x-single-active-consumer": True, "x-message-ttl": 600_000}},
    ],
)
@on_each_version
async def test_a_queue_that_stays_is_read(rabbit, source, address, query, properties):
    queue = declared(rabbit, **properties)
    rabbit.publish(queue, numbered(10))
    async with serving(source(queue), address):
        assert values(await query().read(10)) == numbered(10)
    rabbit.delete(queue)


@on_each_version
async def test_a_message_that_is_near_the_delivery_limit_is_named(rabbit, source, address, query, caplog):
    queue = declared(rabbit, arguments={"x-queue-type": "quorum", "x-delivery-limit": 20})
    rabbit.publish(queue, numbered(3))
    reading, engine = query(), Engine(address)

    async def named() -> bool:
        reported = [each.reported for each in (await engine.status()).sessions]
        return any("times in vain" in each.reason and each.state == CONNECTOR_STATE_DEGRADED for each in reported)

    for _ in range(10):
        rabbit.deliver_in_vain(queue)
    async with serving(source(queue), address):
        assert sorted(values(await reading.uncommitted(3))) == numbered(3)
        await until(named)
        assert f"queue {queue} has delivered a message 10 times in vain, and " in caplog.text
        assert "limit is 20" in caplog.text
        await reading.commit()

        async def over() -> bool:
            return not await named()

        await until(over)
    await engine.close()
    rabbit.delete(queue)


@on_each_version
async def test_a_queue_that_is_exclusive_to_another_connection_is_refused(rabbit, source, address, query):
    queue = declared(rabbit, exclusive=True)
    async with serving(source(queue), address) as task:
        await query().batch()
        with pytest.raises(Denied, match="cannot obtain exclusive access"):
            await asyncio.wait_for(task, DEADLINE_S)
    rabbit.delete(queue)


async def test_who_has_the_queue_to_himself_is_waited_for(rabbit, source, address, query, caplog):
    queue = rabbit.declare("classic")
    rabbit.publish(queue, [b"a"])
    channel = rabbit.channel()
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    async with serving(source(queue, exclusive=True), address):
        reader = query()
        await reader.batch(0)
        await until(lambda: "in exclusive use" in caplog.text)
        await asyncio.to_thread(channel.close)
        assert values(await reader.read(1)) == [b"a"]
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="in exclusive use"):
            rabbit.channel().basic_consume(queue, lambda *_: None)


@pytest.mark.behaviour(
    "rabbitmq",
    "a stream queue, with the connector `rabbitmq`",
    "ends and names the connector for it",
)
async def test_a_stream_queue_needs_the_other_connector(rabbit, source, address, query):
    queue = rabbit.declare("stream")
    async with serving(source(queue), address) as task:
        reader = query()
        await reader.batch(0)
        publishing = asyncio.create_task(publish_until(task, rabbit, queue))
        with pytest.raises(Denied, match="is a stream queue; use the connector rabbitmq-stream"):
            await asyncio.wait_for(task, DEADLINE_S)
        await publishing


async def publish_until(task: "asyncio.Task[None]", rabbit, queue: str) -> None:
    """Publishes now and then: a stream shows what comes after its consumer."""
    while not task.done():
        rabbit.publish(queue, [b"a"])
        await asyncio.sleep(0.02)


async def test_a_header_from_a_stream_does_not_make_a_stream(rabbit, source, address, query):
    queue = rabbit.declare("classic")
    rabbit.publish(queue, [b"a"], headers={"x-stream-offset": 5})
    async with serving(source(queue), address):
        (message,) = await query().read(1)
        assert dict(message.headers)["x-stream-offset"] == b"5"


async def test_the_backlog_is_what_waits_in_the_queue(rabbit, source, address, query):
    queue = rabbit.declare("classic")
    rabbit.publish(queue, numbered(500))
    read = source(queue, prefetch=10)
    async with serving(read, address):
        reader = query()
        await reader.uncommitted(10)

        async def backlog(messages):
            async def is_told():
                return await read.backlog(queue) == Backlog(messages=messages)

            await until(is_told)

        await backlog(490)
        await reader.commit()
        await reader.read(490)
        await backlog(0)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://guest:wrong@{}/%2F", "the user or the password in the URL is wrong"),
        ("amqp://guest:guest@{}/nowhere", "the virtual host does not exist"),
    ],
)
async def test_credentials_that_are_wrong_end_the_connector(rabbitmq, source, address, query, url, said):
    broker = f"{rabbitmq.host}:{rabbitmq.port}"
    async with serving(source("q", url=url.format(broker)), address) as task:
        await query().batch(0)
        with pytest.raises(Denied, match=f"stream s/q: RabbitMQ at {broker}: .*{said}") as raised:
            await asyncio.wait_for(task, DEADLINE_S)
    assert raised.value.exit_code == 2
    assert "wrong@" not in str(raised.value)


def test_two_queues_cannot_be_one_stream(source):
    with pytest.raises(InvalidSource, match="the queues a b and a:b would both be the stream s/a_b"):
        source("a b", "a:b")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"url": "http://secret@host"}, "write amqp://"),
        ({"url": "amqp://user:secret@host:port/"}, "write amqp://"),
        ({"url": "amqp://host/?heartbeat=1"}, "give them as separate parameters"),
        ({"url": "amqp://user@host"}, "a user and a password go together"),
        ({"url": "amqp://host", "tls_ca": "ca.pem"}, "begin the URL with amqps://"),
        ({"url": "amqps://host", "tls_key": "key.pem"}, "tls_certificate and tls_key go together"),
        ({"nodes": ["user:secret@host"]}, "write each node as HOST or HOST:PORT"),
        ({"key": "value"}, "pattern"),
        ({"prefetch": 70_000}, "65535"),
    ],
)
def test_parameters_that_cannot_be_right(parameters, said):
    with pytest.raises(ValueError, match=said) as raised:
        RabbitMQParameters(**{"source": "s", "queue": "q", **parameters})
    assert "secret" not in str(raised.value)


def test_a_password_may_be_apart_from_its_url(rabbitmq, rabbit):
    queue = rabbit.declare()
    parameters = RabbitMQParameters(
        url=f"amqp://guest@{rabbitmq.host}:{rabbitmq.port}", password="guest", source="s", queue=queue
    )
    assert "has the queue; 0 messages are waiting" in RABBITMQ.check(parameters)


def test_check_tries_what_a_run_does(rabbitmq, rabbit):
    queue, stream = rabbit.declare("classic"), rabbit.declare("stream")

    def check(*queues, url=rabbitmq.url):
        return RABBITMQ.check(RabbitMQParameters(url=url, source="s", queue=queues))

    assert check(queue) == f"RabbitMQ at {rabbitmq.host}:{rabbitmq.port} has the queue; 0 messages are waiting"
    with pytest.raises(Denied, match=f"{stream} is a stream queue; use the connector rabbitmq-stream"):
        check(queue, stream)
    with pytest.raises(QueueMissing, match="no queue 'nowhere'"):
        check("nowhere")


async def test_another_node_is_tried(rabbitmq, rabbit, source, address, query):
    queue = rabbit.declare()
    rabbit.publish(queue, [b"a"])
    async with serving(source(queue, url="amqp://guest:guest@127.0.0.1:1/", nodes=[f"localhost:{rabbitmq.port}"]), address):
        assert values(await query().read(1)) == [b"a"]
