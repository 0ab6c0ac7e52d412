"""What happens to the RabbitMQ connectors when broker, network and the connector itself are killed."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from grpc.aio import AioRpcError
from tests.connectors.rabbitmq.rig import DEADLINE_S, numbered, serving, until, values
from tests.gateway.sink_wire import Writer

from headrace.connectors.rabbitmq import (
    RabbitMQParameters,
    RabbitMQQueueSource,
    RabbitMQSink,
    RabbitMQSinkParameters,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
)
from headrace.connectors.rabbitmq.wire import Wire
from headrace.sdk import Message, Rows

REDELIVERED = ("amqp-redelivered", b"true")


def is_redelivered(message: Message) -> bool:
    return REDELIVERED in (message.headers or ())


async def test_a_broker_that_is_killed_and_started_again(rabbit, rabbitmq, address, query):
    classic, quorum, stream, out = (rabbit.declare(kind) for kind in ("classic", "quorum", "stream", "classic"))
    for queue in (classic, quorum, stream):
        rabbit.publish(queue, [queue.encode() + value for value in numbered(100)])
    queues = RabbitMQQueueSource(RabbitMQParameters(url=rabbitmq.url, source="s", queue=(classic, quorum)))
    streams = RabbitMQStreamSource(RabbitMQStreamParameters(url=rabbitmq.url, source="s", queue=stream))
    sink = RabbitMQSink(RabbitMQSinkParameters(url=rabbitmq.url, sink="out", routing_key=out))
    reader = query()
    async with serving(queues, address, "queues"), serving(streams, address, "streams"):
        first = await reader.uncommitted(300)
        # Within a second after it was declared, a quorum or stream queue does not outlive its node.
        await asyncio.to_thread(rabbitmq.ctl, "eval", "[dets:sync(Table) || Table <- dets:all()].")
        writing = asyncio.create_task(sink.write(Rows.of(*(Message(value) for value in numbered(20_000)))))
        # Killed by who counts: another thread might get its turn too late.
        await until(lambda: rabbit.count(out) > 1000 and rabbitmq.kill() is None)
        assert not writing.done()
        await asyncio.to_thread(rabbitmq.start)
        # The query commits now what the dead session delivered. Its tokens must not acknowledge anything of the next one.
        await reader.commit()
        again = await reader.uncommitted(200)
        assert all(is_redelivered(message) for message in again)
        assert Counter(values(again)) == Counter(queue.encode() + n for queue in (classic, quorum) for n in numbered(100))
        for queue in (classic, quorum, stream):
            await until_published(rabbit, queue, queue.encode() + b"last")
        await reader.commit()
        last = await reader.uncommitted(3)
        await reader.commit()
    assert Counter(values(last)) == Counter(queue.encode() + b"last" for queue in (classic, quorum, stream))
    assert [value for value in values(first) if value.startswith(stream.encode())] == [
        stream.encode() + value for value in numbered(100)
    ]
    assert await asyncio.wait_for(writing, DEADLINE_S) is None
    taken = [body for _, _, body in await asyncio.to_thread(rabbit.take, out, rabbit.count(out))]
    assert set(taken) == set(numbered(20_000))
    await sink.close()


async def until_published(rabbit, queue: str, value: bytes) -> None:
    """Publishes once the broker takes it again."""

    def publish() -> bool:
        with contextlib.suppress(Exception):
            rabbit.publish(queue, [value])
            return True
        return False

    await until(publish)


async def test_a_network_that_breaks(rabbit, rabbitmq, network, address, query, caplog):
    queue, out = rabbit.declare("classic"), rabbit.declare("classic")
    between = network(rabbitmq)
    url = rabbitmq.url_at(between.port)
    source = RabbitMQQueueSource(RabbitMQParameters(url=url, source="s", queue=queue, connect_seconds=1))
    sink = RabbitMQSink(RabbitMQSinkParameters(url=url, sink="out", routing_key=out, connect_seconds=1))
    reader = query()
    async with serving(source, address):
        rabbit.publish(queue, [b"a"])
        assert values(await reader.read(1)) == [b"a"]
        assert await sink.write(Rows.of(Message(b"a"))) is None
        for break_, value in ((between.reset, b"b"), (between.refuse, b"c")):
            await asyncio.to_thread(break_)
            rabbit.publish(queue, [value])
            writing = asyncio.create_task(sink.write(Rows.of(Message(value))))
            await until(lambda: "retrying" in caplog.text)
            await asyncio.to_thread(between.restore)
            await reader.read_to(value)
            assert await asyncio.wait_for(writing, DEADLINE_S) is None
    taken = await asyncio.to_thread(rabbit.take, out, 3)
    assert {body for _, _, body in taken} == {b"a", b"b", b"c"}
    await sink.close()


async def test_heartbeats(rabbit, rabbitmq, network, address, query, caplog):
    """Both take a while to show, so they are shown at the same time."""
    one, other = rabbit.declare("classic"), rabbit.declare("classic")
    rabbit.publish(other, [b"x" * 100_000] * 100)
    async with asyncio.TaskGroup() as both:
        both.create_task(a_network_that_hangs_is_noticed(one, rabbitmq, network(rabbitmq), address, query(), caplog))
        both.create_task(a_query_that_is_slow_costs_no_connection(other, rabbitmq, caplog))
    assert rabbit.count(other) == 0


async def a_network_that_hangs_is_noticed(queue, rabbitmq, between, address, reader, caplog):
    options = {"url": rabbitmq.url_at(between.port), "heartbeat_seconds": 2, "connect_seconds": 1}
    source = RabbitMQQueueSource(RabbitMQParameters(source="s", queue=queue, **options))
    sink = RabbitMQSink(RabbitMQSinkParameters(sink="out", routing_key=queue, **options))
    async with serving(source, address):
        assert await sink.write(Rows.of(Message(b"a"))) is None
        await reader.read_to(b"a")
        await asyncio.to_thread(between.cut)
        writing = asyncio.create_task(sink.write(Rows.of(Message(b"b"))))
        for waits in (f"queue {queue}", "sink out"):
            await until(lambda waits=waits: f"{waits}: RabbitMQ at 127.0.0.1:{between.port}: AMQPHeartbeat" in caplog.text)
        await asyncio.to_thread(between.restore)
        assert await asyncio.wait_for(writing, DEADLINE_S) is None
        await reader.read_to(b"b")
    await sink.close()


async def a_query_that_is_slow_costs_no_connection(queue, rabbitmq, caplog):
    source = RabbitMQQueueSource(RabbitMQParameters(url=rabbitmq.url, source="s", queue=queue, heartbeat_seconds=2))
    items = source.read(queue, None)
    found = [await anext(items)]
    # No more is taken than the query needs next, whatever the prefetch.
    assert sum(map(len, found[0].values)) < 4 << 20
    # Longer than it takes the broker, and pika, to take a peer for dead that says nothing.
    await asyncio.sleep(10)
    while sum(map(len, found)) < 100:
        if (batch := await anext(items)) is not None:
            assert not batch.headers
            found.append(batch)
    await source.settle(queue, found[-1].tokens)
    await items.aclose()
    assert f"queue {queue}" not in caplog.text


async def test_connections_that_an_operator_closes(rabbit, rabbitmq, address, query, caplog):
    queue = rabbit.declare("quorum")
    source = RabbitMQQueueSource(RabbitMQParameters(url=rabbitmq.url, source="s", queue=queue))
    async with serving(source, address):
        rabbit.publish(queue, [b"a"])
        reader = query()
        await reader.read_to(b"a")
        await asyncio.to_thread(rabbitmq.ctl, "close_all_connections", "maintenance")
        await until(lambda: "CONNECTION_FORCED - maintenance" in caplog.text)
        rabbit.publish(queue, [b"b"])
        await reader.read_to(b"b")


async def test_a_channel_that_the_broker_closes(rabbit, rabbitmq, address, query, caplog):
    queue = rabbit.declare("quorum")
    rabbit.publish(queue, numbered(10))
    source = RabbitMQQueueSource(RabbitMQParameters(url=rabbitmq.url, source="s", queue=queue))
    reader = query()
    await asyncio.to_thread(rabbitmq.ctl, "eval", "application:set_env(rabbit, consumer_timeout, 1).")
    try:
        async with serving(source, address):
            await reader.uncommitted(10)
            # It looks once a minute who has not acknowledged for too long. Later channels have the time that is usual.
            later = "application:set_env(rabbit, consumer_timeout, 1800000), [P ! tick || P <- rabbit_channel:list()]."
            await asyncio.to_thread(rabbitmq.ctl, "eval", later)
            await until(lambda: "delivery acknowledgement on channel 1 timed out" in caplog.text)
            await reader.commit()
            again = await reader.uncommitted(10)
            assert values(again) == numbered(10)
            assert all(is_redelivered(message) for message in again)
            await reader.commit()
            rabbit.publish(queue, [b"last"])
            assert values(await reader.uncommitted(1)) == [b"last"]
    finally:
        await asyncio.to_thread(rabbitmq.ctl, "eval", "application:set_env(rabbit, consumer_timeout, 1800000).")


@asynccontextmanager
async def running(*arguments: str, address: str, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A connector in a process of its own."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace.cli", "connector", "run", *arguments, "--gateway", address, "--url", url),
        env=environ,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.parametrize(("connector", "kind"), [("rabbitmq", "quorum"), ("rabbitmq-stream", "stream")])
async def test_a_connector_that_is_killed(rabbit, rabbitmq, address, query, connector, kind):
    queue = rabbit.declare(kind)
    rabbit.publish(queue, numbered(100))
    reader = query()
    command = (connector, "--queue", queue, "--source", "s")
    async with running(*command, address=address, url=rabbitmq.url):
        await reader.read(100)
        rabbit.publish(queue, numbered(100, 200))
        await reader.uncommitted(100)
    async with running(*command, address=address, url=rabbitmq.url) as process:
        again = await reader.uncommitted(100)
        while not values(again):
            again = await reader.uncommitted(100)
        assert values(again) == numbered(100, 200)
        assert all(is_redelivered(message) for message in again) is (kind == "quorum")
        await reader.commit()
        rabbit.publish(queue, [b"last"])
        await reader.read_to(b"last")
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert (process.returncode, errors) == (0, b"")
    if kind == "quorum":
        await until(lambda: rabbit.count(queue) == 0)


async def test_a_sink_that_is_killed(rabbit, rabbitmq, address):
    queue = rabbit.declare("quorum")
    command = ("rabbitmq-sink", "--routing-key", queue, "--sink", "out")
    writer = Writer(address)
    await writer.report_commits()
    async with running(*command, address=address, url=rabbitmq.url) as process:
        writing = writer.deliver(0, numbered(20_000))
        await until(lambda: rabbit.count(queue) > 1000 and process.kill() is None)
        await process.wait()
    async with running(*command, address=address, url=rabbitmq.url):
        # Spark has the batch written again, by another attempt if need be.
        with contextlib.suppress(AioRpcError):
            await writing
        await writer.deliver(0, numbered(20_000), attempt="b")
    await writer.close()
    ids: dict[bytes, set[str]] = {}
    for _, properties, body in await asyncio.to_thread(rabbit.take, queue, rabbit.count(queue)):
        ids.setdefault(body, set()).add(properties.message_id)
    assert set(ids) == set(numbered(20_000))
    assert {len(each) for each in ids.values()} == {1}


async def test_a_connector_with_a_wrong_password_says_so_and_exits_with_2(rabbit, rabbitmq, address, query):
    queue = rabbit.declare()
    url = rabbitmq.url.replace(":guest@", ":wrong@")
    async with running("rabbitmq", "--queue", queue, "--source", "s", address=address, url=url) as process:
        await query().batch(0)
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == 2
    assert b"the user or the password in the URL is wrong" in errors
    assert b"wrong@" not in errors


@pytest.mark.parametrize("kind", ["quorum", "stream"])
async def test_a_connection_that_this_system_aborts(rabbit, rabbitmq, address, query, monkeypatch, kind):
    opened = []

    def noting(wire, protocol, link=Wire.link):
        opened.append(wire)
        link(wire, protocol)

    monkeypatch.setattr(Wire, "link", noting)
    queue = rabbit.declare(kind)
    reading = {"quorum": (RabbitMQQueueSource, RabbitMQParameters), "stream": (RabbitMQStreamSource, RabbitMQStreamParameters)}
    source, parameters = reading[kind]
    async with serving(source(parameters(url=rabbitmq.url, source="s", queue=(queue,))), address):
        reader = query()
        for number in range(3):
            rabbit.publish(queue, [b"%d" % number])
            await reader.read_to(b"%d" % number)
            opened[-1]._transport.abort()
