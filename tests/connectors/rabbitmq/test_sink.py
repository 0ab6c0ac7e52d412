"""The `rabbitmq-sink` on a real broker: what is published, what is refused, and what is tried again."""

import asyncio
from collections import Counter

import pytest
from tests.connectors.rabbitmq.rig import DEADLINE_S, numbered, on_each_version, serving, until
from tests.gateway.sink_wire import Writer

from headrace.connectors.rabbitmq import (
    RABBITMQ_SINK,
    Denied,
    RabbitMQParameters,
    RabbitMQQueueSource,
    RabbitMQSink,
    RabbitMQSinkParameters,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
    Unavailable,
    publisher,
)
from headrace.sdk import WRITTEN, ConnectorState, Message, Part, Refused, Rows, Transaction


@pytest.fixture
async def sink(rabbitmq):
    """Makes sinks `out`, and closes them."""
    made = []

    def make(routing_key, **parameters):
        parameters = {"url": rabbitmq.url, "sink": "out", "routing_key": routing_key, **parameters}
        made.append(RabbitMQSink(RabbitMQSinkParameters(**parameters)))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def rows(*values: bytes | None, **columns) -> Rows:
    return Rows.of(*(Message(value, **columns) for value in values))


def bodies(taken) -> list[bytes]:
    return [body for _, _, body in taken]


async def take(rabbit, queue: str, count: int):
    return await asyncio.to_thread(rabbit.take, queue, count)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_what_a_query_writes_is_published_and_persistent(rabbit, sink, address, kind):
    queue = rabbit.declare(kind)
    async with serving(sink(queue), address):
        writer = Writer(address)
        await writer.report_commits()
        for batch in range(2):
            await writer.deliver(batch, numbered(1000 * batch, 1000 * batch + 1000))
            await writer.vote(batch)
            await writer.report_commits(batch)
        await writer.close()
    taken = await take(rabbit, queue, 2000)
    assert bodies(taken) == numbered(2000)
    assert {properties.delivery_mode for _, properties, _ in taken} == {2}
    ids = [properties.message_id for _, properties, _ in taken]
    assert len(set(ids)) == 2000
    assert ids[1999].startswith("query/1/0/999/")


async def test_a_stream_queue_is_written(rabbit, rabbitmq, sink):
    queue = rabbit.declare("stream")
    assert await sink(queue).write(rows(*numbered(2000))) is None
    source = RabbitMQStreamSource(RabbitMQStreamParameters(url=rabbitmq.url, source="s", queue=queue))
    found = []
    async for batch in source.read(queue, None):
        found += batch.values if batch is not None else []
        if len(found) == 2000:
            break
    assert found == numbered(2000)


async def test_a_batch_that_is_written_again_has_the_same_ids(rabbit, sink):
    queue = rabbit.declare("classic")
    publish = sink(queue)
    part = Part(Transaction("p", 7), 3, "a")
    for attempt in "ab":
        some = [Message(b"one", key=b"k"), Message(b"two"), Message(b"two", message_id="mine")]
        assert await publish.write(Rows.of(*some, first=10, part=Part(part.transaction, 3, attempt))) is None
    assert await publish.write(Rows.of(Message(b"other", key=b"k"), first=10, part=part)) is None
    ids = [properties.message_id for _, properties, _ in await take(rabbit, queue, 7)]
    assert ids[:3] == ids[3:6]
    assert [one.rpartition("/")[0] for one in ids[:2]] == ["p/7/3/10", "p/7/3/11"]
    assert ids[2] == "mine"
    assert ids[6] != ids[0]


@on_each_version
async def test_columns_become_properties(rabbit, sink):
    queue = rabbit.declare("classic")
    headers = [("h", b"1"), ("h", b"\xff"), ("n", None), ("amqp-content-type", b"a/b"), ("amqp-priority", b"5"), ("CC", b"q")]
    message = Message(b"v", b"k", event_time=1_700_000_000_123_456, message_id="m", headers=headers)
    assert await sink(queue).write(Rows.of(message)) is None
    ((method, properties, body),) = await take(rabbit, queue, 1)
    assert (method.routing_key, body) == (queue, b"v")
    assert properties.headers == {"h": ["1", b"\xff"], "n": None, "timestamp_in_ms": 1_700_000_000_123}
    assert (properties.content_type, properties.priority, properties.message_id) == ("a/b", 5, "m")
    assert properties.timestamp == 1_700_000_000


async def test_what_a_source_has_read_can_be_written_as_it_was(rabbit, rabbitmq, sink):
    queue = rabbit.declare("classic")
    message = Message(
        b"v",
        queue.encode(),
        event_time=1_700_000_000_123_000,
        message_id="m",
        headers=[("h", b"1"), ("amqp-type", b"t"), ("amqp-reply-to", b"r")],
    )
    publish = sink("{key}")
    read = RabbitMQQueueSource(RabbitMQParameters(url=rabbitmq.url, source="s", queue=queue)).read(queue, None)
    for _ in range(2):
        assert await publish.write(Rows.of(message)) is None
        batch = await anext(read)
        while batch is None:
            batch = await anext(read)
        assert (batch.values, batch.keys, batch.message_ids) == ([message.value], [message.key], [message.message_id])
        assert batch.event_times == [message.event_time]
        found = dict(batch.headers[0])
        assert found.pop("timestamp_in_ms") == b"1700000000123"
        assert found.items() <= dict(message.headers).items()
        assert len(found) == 3
        message = Message(batch.values[0], batch.keys[0], batch.event_times[0], None, batch.message_ids[0], batch.headers[0])
    await read.aclose()


async def test_a_routing_key_may_be_made_of_the_message(rabbit, sink):
    queue = rabbit.declare("classic")
    exchange = f"{queue}-x"
    with rabbit.channel() as channel:
        channel.exchange_declare(exchange, "topic", auto_delete=True)
        channel.queue_bind(queue, exchange, "#")
    message = Message(b"v", b"\xffk", message_id="m", headers=[("where", b"berlin")])
    assert await sink("a.{header:where}.{message_id}", exchange=exchange).write(Rows.of(message)) is None
    assert await sink("{key}", exchange=exchange).write(Rows.of(message)) is None
    taken = await take(rabbit, queue, 2)
    assert [method.routing_key for method, _, _ in taken] == ["a.berlin.m", b"\xffk"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(None), "no value"),
        (Message(b"v"), "its routing key is 'nobody.{key}', and its key is null"),
        (Message(b"v", b"k" * 250), "its routing key has 257 bytes"),
        (Message(b"v", b"k", message_id="m" * 256), "its message id has 256 bytes"),
        (Message(b"v", b"k", headers=[("n" * 256, b"")]), "its header name has 256 bytes"),
        (
            Message(b"v", b"k", headers=[("h", b"v" * 131_072)]),
            "and the broker accepts at most 131072 (frame_max)",
        ),
        (Message(b"v", b"k", headers=[("amqp-priority", b"9" * 5000)]), "its amqp-priority is b'999"),
        (
            Message(b"v", b"k", headers=[("amqp-expiration", b"9" * 5000)]),
            "its amqp-expiration has 5000 bytes, and AMQP allows at most 255",
        ),
        (Message(b"v", b"k", headers=[("amqp-priority", b"high")]), "its amqp-priority is b'high'"),
        (Message(b"v", b"k", headers=[("amqp-expiration", b"soon")]), "its amqp-expiration is b'soon'"),
        (Message(b"v", b"k"), "it reaches no queue: there is no queue 'nobody.k'"),
    ],
)
async def test_what_can_never_be_published_is_refused(sink, message, reason):
    (outcome,) = await sink("nobody.{key}").write(Rows.of(message))
    assert isinstance(outcome, Refused)
    assert reason in outcome.reason


async def test_only_what_no_queue_takes_is_refused(rabbit, sink, address):
    queue = rabbit.declare("quorum")
    some = [Message(b"%d" % (n % 5), queue.encode() if n % 3 else b"nowhere") for n in range(3000)]
    outcomes = await sink("{key}", window=500).write(Rows.of(*some))
    assert [outcome == WRITTEN for outcome in outcomes] == [n % 3 != 0 for n in range(3000)]
    assert bodies(await take(rabbit, queue, 2000)) == [message.value for message in some if message.key != b"nowhere"]


async def test_what_is_refused_is_told_to_the_query(sink, address):
    async with serving(sink("nowhere"), address):
        writer = Writer(address)
        await writer.report_commits()
        response = await writer.deliver(0, [b"a", b"b"])
        await writer.close()
    assert [(each.sequence, each.reason) for each in response.refused] == [
        (place, "it reaches no queue: there is no queue 'nowhere'") for place in range(2)
    ]


async def test_without_mandatory_the_broker_drops_what_no_queue_takes(sink):
    assert await sink("nowhere", mandatory=False).write(rows(b"a")) is None


def _allowing(size: int) -> str:
    """Lets a broker allow messages up to a size. Version 4 reads its settings only at the start, and keeps them elsewhere."""
    return f"application:set_env(rabbit, max_message_size, {size}), persistent_term:put(max_message_size, {size})."


@on_each_version
async def test_what_is_larger_than_the_broker_allows_is_refused(rabbit, rabbitmq, sink):
    queue = rabbit.declare("classic")
    await asyncio.to_thread(rabbitmq.ctl, "eval", _allowing(10_000))
    try:
        outcomes = await sink(queue).write(rows(b"a", b"x" * 10_001, b"b" * 10_000, b"x" * 20_000, b"c"))
    finally:
        await asyncio.to_thread(rabbitmq.ctl, "eval", _allowing(134_217_728))
    assert [outcome == WRITTEN for outcome in outcomes] == [True, False, True, False, True]
    assert outcomes[1].reason == "it has 10001 bytes, and the broker accepts at most 10000 (max_message_size)"
    # Messages without a confirmation when the broker closed the channel are there twice.
    await until(lambda: rabbit.count(queue) >= 3)
    assert set(bodies(await take(rabbit, queue, rabbit.count(queue)))) == {b"a", b"b" * 10_000, b"c"}


@pytest.mark.parametrize("size", [127_000, 131_072])
@on_each_version
async def test_headers_up_to_the_largest_frame_are_written_and_larger_ones_are_refused(rabbit, sink, size):
    queue = rabbit.declare("classic")
    many = [("h", b"v") for _ in range(size // 10)] if size < 131_072 else [("a", b"x" * size)]
    messages = [Message(b"%d" % n, headers=many if n == 5 else None) for n in range(10)]
    outcomes = await sink(queue).write(Rows.of(*messages))
    written = [n for n in range(10) if outcomes is None or outcomes[n] == WRITTEN]
    assert written == [n for n in range(10) if n != 5 or size < 131_072]
    assert bodies(await take(rabbit, queue, len(written))) == [b"%d" % n for n in written]


@on_each_version
async def test_a_message_for_which_the_broker_closes_the_channel_is_found_and_refused_alone(rabbit, sink):
    queue = rabbit.declare("classic")
    # AMQP has no limit of expirations; brokers have.
    bad = [("amqp-expiration", b"9" * 18)]
    messages = [Message(b"%d" % n, headers=bad if n in (3, 7) else None) for n in range(10)]
    outcomes = await sink(queue, window=1).write(Rows.of(*messages))
    assert [n for n in range(10) if outcomes[n] != WRITTEN] == [3, 7]
    assert "the broker does not allow it" in outcomes[3].reason
    assert "invalid expiration" in outcomes[3].reason
    assert set(bodies(await take(rabbit, queue, 8))) == {b"%d" % n for n in range(10)} - {b"3", b"7"}


@on_each_version
async def test_values_of_any_size(rabbit, sink):
    queue = rabbit.declare("classic")
    some = [b"", b"x", b"\x00\xff" * 500_000, b"y" * 131_064, b"z"]
    assert await sink(queue).write(rows(*some)) is None
    assert bodies(await take(rabbit, queue, 5)) == some


async def test_a_queue_that_is_full_holds_the_query_back(rabbit, sink, caplog):
    queue = rabbit.declare("classic", max_length=10, overflow="reject-publish")
    writing = asyncio.create_task(sink(queue).write(rows(*numbered(25))))
    await until(lambda: "is a queue at its limit?" in caplog.text)
    found = []
    while len(found) < 25:
        found += bodies(await take(rabbit, queue, min(10, 25 - len(found))))
    assert await asyncio.wait_for(writing, DEADLINE_S) is None
    assert Counter(found) == Counter(numbered(25))


async def test_a_queue_that_stays_full_fails_the_batch(rabbit, sink):
    queue = rabbit.declare("classic", max_length=1, overflow="reject-publish")
    with pytest.raises(Unavailable, match="is a queue at its limit"):
        await sink(queue, wait_seconds=0.2).write(rows(b"a", b"b"))


async def test_an_alarm_holds_the_query_back(rabbit, rabbitmq, sink, caplog, monkeypatch):
    monkeypatch.setattr(publisher, "_SILENT_S", 0.1)
    queue = rabbit.declare("classic")
    publish, reports = sink(queue, wait_seconds=0.2), list[tuple[ConnectorState, str]]()
    monkeypatch.setattr(publish, "report_state", lambda state, reason="": reports.append((state, reason)))
    assert await publish.write(rows(b"a")) is None
    await asyncio.to_thread(rabbitmq.ctl, "set_vm_memory_high_watermark", "absolute", "1")
    try:
        writing = asyncio.create_task(publish.write(rows(b"b")))
        await until(lambda: "accepts no messages: low on memory; waiting" in caplog.text)
        await until(lambda: caplog.text.count("does not confirm 1 message: it blocks publishers") > 4)
        assert not writing.done()
        state, reason = reports[-1]
        assert state is ConnectorState.WAITING
        assert reason == f"RabbitMQ at {rabbitmq.host}:{rabbitmq.port} accepts no messages: low on memory"
    finally:
        # A broker on a busy machine may take its time from now on.
        monkeypatch.setattr(publisher, "_SILENT_S", DEADLINE_S)
        await asyncio.to_thread(rabbitmq.ctl, "set_vm_memory_high_watermark", "absolute", "1GB")
    assert await asyncio.wait_for(writing, DEADLINE_S) is None
    assert reports[-1] == (ConnectorState.RUNNING, "")
    assert bodies(await take(rabbit, queue, 2)) == [b"a", b"b"]


async def test_an_exchange_that_is_missing_fails_the_batch(sink, address):
    async with serving(sink("k", exchange="nowhere"), address):
        writer = Writer(address)
        await writer.report_commits()
        with pytest.raises(Exception, match=r"Denied: RabbitMQ at 127.*no exchange 'nowhere'"):
            await writer.deliver(0)
        await writer.close()


async def test_a_broker_that_is_away_for_too_long_fails_the_batch(sink):
    with pytest.raises(Unavailable, match=r"RabbitMQ at 127\.0\.0\.1:1: ConnectionRefusedError"):
        await sink("k", url="amqp://127.0.0.1:1/", wait_seconds=0.3).write(rows(b"a"))


async def test_credentials_that_are_wrong_fail_the_batch_at_once(rabbitmq, sink):
    url = f"amqp://guest:wrong@{rabbitmq.host}:{rabbitmq.port}/"
    with pytest.raises(Denied, match="the user or the password in the URL is wrong"):
        await sink("k", url=url).write(rows(b"a"))


def test_a_routing_key_of_what_no_message_has(rabbitmq):
    with pytest.raises(ValueError, match=r"\{value\} is not a placeholder; write \{key\}"):
        RabbitMQSinkParameters(sink="out", routing_key="a.{value}")


def test_check_looks_for_the_exchange(rabbitmq):
    def check(**parameters):
        return RABBITMQ_SINK.check(RabbitMQSinkParameters(url=rabbitmq.url, sink="out", routing_key="k", **parameters))

    broker = f"RabbitMQ at {rabbitmq.host}:{rabbitmq.port}"
    assert check() == f"{broker} has the exchange (default)"
    assert check(exchange="amq.topic") == f"{broker} has the exchange amq.topic"
    with pytest.raises(Denied, match="no exchange 'nowhere'"):
        check(exchange="nowhere")
