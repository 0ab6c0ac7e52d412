"""The `rabbitmq-stream` source on a real broker: offsets, replays, and what retention has removed."""

import asyncio
from contextlib import suppress

import pytest
from tests.connectors.rabbitmq.rig import DEADLINE_S, numbered, serving, until, values

from headrace.connectors.rabbitmq import (
    RABBITMQ_STREAM,
    Denied,
    QueueMissing,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
    _stream,
)
from headrace.sdk import Position, PositionLost


@pytest.fixture
def source(rabbitmq):
    """Makes the source `s` of some stream queues."""

    def make(*queues, **parameters):
        return RabbitMQStreamSource(
            RabbitMQStreamParameters(**{"url": rabbitmq.url, "source": "s", "queue": queues, **parameters})
        )

    return make


async def read(source, queue: str, position: int | None = None, count: int = 1):
    """The messages of a source after a position."""
    found = []
    items = source.read(queue, None if position is None else Position(sequence=position))
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for batch in items:
                if batch is not None:
                    found += zip(batch.sequences, batch.values, strict=True)
                if len(found) >= count:
                    return found
    finally:
        await items.aclose()


async def test_a_stream_is_read_from_its_beginning_and_stays(rabbit, source, address, query):
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(3000), content_type="text/plain", headers={"a": 1})
    async with serving(source(queue, prefetch=100), address):
        messages = await query("one").read(3000)
        assert values(messages) == numbered(3000)
        assert [message.sequence for message in messages] == list(range(1, 3001))
        assert {tuple(message.headers) for message in messages} == {(("a", b"1"), ("amqp-content-type", b"text/plain"))}
        rabbit.publish(queue, [b"more"])
        assert values(await query("two").read(3001)) == [*numbered(3000), b"more"]


async def test_reading_goes_on_where_the_checkpoint_is_and_replays_what_is_not_in_it(rabbit, source, address, query):
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(100))
    reader = query()
    async with serving(source(queue), address):
        await reader.read(100)
        rabbit.publish(queue, numbered(100, 200))
        uncommitted = await reader.uncommitted(100)
    async with serving(source(queue), address):
        again = await reader.uncommitted(100)
        assert values(again) == values(uncommitted) == numbered(100, 200)
        assert [m.sequence for m in again] == [m.sequence for m in uncommitted] == list(range(101, 201))


async def test_reading_goes_on_after_any_position(rabbit, source):
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(50))
    everything = await read(source(queue), queue, count=50)
    for done in (1, 2, 25, 49):
        assert await read(source(queue), queue, done, 50 - done) == everything[done:]


async def test_a_query_without_a_checkpoint_may_begin_elsewhere(rabbit, source):
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(10))
    assert await read(source(queue, start="7"), queue, count=3) == [(8, b"7"), (9, b"8"), (10, b"9")]
    assert (await read(source(queue, start="2020-01-01"), queue))[0] == (1, b"0")


@pytest.mark.parametrize("start", ["next", "last", "soon"])
def test_a_beginning_must_be_one_that_can_be_found_again(source, start):
    with pytest.raises(ValueError, match="write first, an offset, or a time"):
        source("q", start=start)


async def test_values_of_any_size(rabbit, source, address, query):
    queue = rabbit.declare("stream")
    sent = [b"", b"x", b"\x00\xff" * 500_000, b"z"]
    rabbit.publish(queue, sent)
    async with serving(source(queue), address):
        assert values(await query().read(4)) == sent


async def read_to(items, value: bytes) -> None:
    """Reads on, until there is this value."""
    async with asyncio.timeout(DEADLINE_S):
        async for batch in items:
            if batch is not None and value in batch.values:
                return


def short(rabbit) -> str:
    """A stream that keeps a few dozen messages of 500 bytes."""
    return rabbit.declare("stream", max_length_bytes=20_000, stream_max_segment_size_bytes=5_000)


def fill(rabbit, queue: str) -> None:
    """Publishes more than such a stream keeps."""
    for _ in range(30):
        rabbit.publish(queue, [b"x" * 500] * 10)


async def until_removed(rabbit, source, queue: str) -> None:
    """Waits until such a stream has lost its first messages: the broker takes its time, and looks when something is published."""

    async def is_removed() -> bool:
        rabbit.publish(queue, [b"y"])
        return (await read(source(queue), queue))[0][0] > 100

    await until(is_removed)


async def test_what_retention_has_removed_is_named(rabbit, source, address, query):
    queue = short(rabbit)
    rabbit.publish(queue, [b"x"])
    reader = query()
    async with serving(source(queue), address):
        await reader.read(1)
    fill(rabbit, queue)
    await until_removed(rabbit, source, queue)
    with pytest.raises(PositionLost, match=f"stream queue {queue} no longer has offsets 1 to .*retention") as lost:
        await read(source(queue), queue, 1)
    # The broker may still be at it, and remove more.
    earliest = (await read(source(queue), queue))[0][0]
    assert 100 < lost.value.earliest <= earliest
    async with serving(source(queue), address):
        with pytest.raises(Exception, match=rf"s/{queue}.*its earliest message is \d+"):
            await reader.uncommitted(1)


async def test_what_retention_has_removed_is_skipped_where_that_is_accepted(rabbit, source, address, query):
    queue = short(rabbit)
    rabbit.publish(queue, [b"x"])
    reader = query(skip_lost=True)
    async with serving(source(queue), address):
        await reader.read(1)
        fill(rabbit, queue)
        await until_removed(rabbit, source, queue)
    async with serving(source(queue), address):
        rabbit.publish(queue, [b"last"])
        async with asyncio.timeout(DEADLINE_S):
            while values(await reader.read(1))[-1] != b"last":
                reader.messages += await reader.batch()
                await reader.commit()


async def test_what_retention_removes_before_it_is_read_is_noticed(rabbit, source, monkeypatch):
    # One time in thirty, the broker says no more once what it reads is gone.
    monkeypatch.setattr(_stream, "_STALE_S", 1.0)
    queue = short(rabbit)
    rabbit.publish(queue, [b"first", *[b"x" * 500] * 9])
    items = source(queue, prefetch=1).read(queue, None)
    await read_to(items, b"first")
    fill(rabbit, queue)
    await until_removed(rabbit, source, queue)
    with pytest.raises(PositionLost, match=r"no longer has offsets \d+ to \d+"):
        await read_to(items, b"y")


async def test_a_stream_that_is_silent_is_asked_anew(rabbit, source, monkeypatch):
    monkeypatch.setattr(_stream, "_STALE_S", 0.01)
    monkeypatch.setattr(_stream, "_IDLE_S", 0.01)
    queue = rabbit.declare("stream")
    found = []
    items = source(queue).read(queue, None)
    for value in numbered(5):
        # Nothing, then a consumer that is new, which has nothing either.
        for _ in range(2):
            while (batch := await anext(items)) is not None:
                found += zip(batch.sequences, batch.values, strict=True)
        rabbit.publish(queue, [value])
    while len(found) < 5:
        if (batch := await anext(items)) is not None:
            found += zip(batch.sequences, batch.values, strict=True)
    await items.aclose()
    assert found == [(n + 1, b"%d" % n) for n in range(5)]


async def test_gaps_between_offsets_are_no_losses(rabbit, source):
    # The broker writes a record of its own into each new segment.
    queue = rabbit.declare("stream", stream_max_segment_size_bytes=5_000)
    rabbit.publish(queue, [b"%03d" % n + b"x" * 500 for n in range(200)])
    found = await read(source(queue), queue, count=200)
    assert [value[:3] for _, value in found] == [b"%03d" % n for n in range(200)]
    assert found[-1][0] > 200
    for sequence, _ in found[::40]:
        rest = [each for each in found if each[0] > sequence]
        assert await read(source(queue), queue, sequence, len(rest)) == rest


async def test_a_stream_that_is_another_one_is_noticed(rabbit, source, monkeypatch):
    monkeypatch.setattr(_stream, "_SILENT_S", 0.3)
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(5))
    with pytest.raises(PositionLost, match=f"stream queue {queue} is a different one: it has no offset 99") as lost:
        await read(source(queue), queue, 100)
    assert lost.value.earliest == 1


@pytest.mark.parametrize("silent", [0.0005, 0.001, 0.002, 0.004])
async def test_a_broker_that_takes_its_time_loses_nothing(rabbit, source, monkeypatch, silent):
    monkeypatch.setattr(_stream, "_SILENT_S", silent)
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(50))
    # Where it was not given that time, the source reports it.
    with suppress(PositionLost):
        assert await read(source(queue), queue, 20, 30) == [(n + 1, b"%d" % n) for n in range(20, 50)]


async def test_a_queue_of_another_kind_needs_the_other_connector(rabbit, source, address, query):
    queue = rabbit.declare("classic")
    async with serving(source(queue), address) as task:
        await query().batch(0)
        with pytest.raises(Denied, match=f"queue {queue} is not a stream queue: use the connector rabbitmq"):
            await asyncio.wait_for(task, DEADLINE_S)


async def test_a_queue_that_is_deleted_ends_the_connector(rabbit, source, address, query):
    queue = rabbit.declare("stream")
    rabbit.publish(queue, [b"a"])
    async with serving(source(queue), address) as task:
        await query().read(1)
        rabbit.delete(queue)
        with pytest.raises(QueueMissing, match=f"no queue '{queue}'.*missing_queue to wait"):
            await asyncio.wait_for(task, DEADLINE_S)


async def test_a_reader_that_is_slow_holds_the_broker_back(rabbit, source):
    queue = rabbit.declare("stream")
    rabbit.publish(queue, [b"x" * 100_000] * 100)
    items = source(queue, prefetch=100).read(queue, None)
    found = []
    async for batch in items:
        found += batch.values if batch is not None else []
        held = sum(map(len, batch.values)) if batch is not None else 0
        assert held < 4 << 20
        await asyncio.sleep(0.01)
        if len(found) == 100:
            break
    await items.aclose()


def test_check_tries_what_a_run_does(rabbitmq, rabbit):
    queue, stream = rabbit.declare("classic"), rabbit.declare("stream")

    def check(*queues):
        return RABBITMQ_STREAM.check(RabbitMQStreamParameters(url=rabbitmq.url, source="s", queue=queues))

    assert check(stream).startswith(f"RabbitMQ at {rabbitmq.host}:{rabbitmq.port} has the queue")
    with pytest.raises(Denied, match=f"{queue} is not a stream queue; use the connector rabbitmq"):
        check(stream, queue)
