"""The `nats-consumer` source, on a real server and through a real gateway."""

import asyncio
import logging

import pytest
from nats.js import api
from nats.js.errors import NotFoundError
from tests.connectors.nats.rig import DEADLINE, numbers, special, until, unused
from tests.connectors.nats.rig import server as connected
from tests.gateway.wire import until_gone

from headrace.connectors.nats import NatsConsumerParameters, NatsConsumerSource, NatsRefused
from headrace.protocol.v1.connector_pb2 import CONNECTOR_STATE_DEGRADED

AGAIN = "Nats-Num-Delivered"


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_what_is_committed_is_acknowledged_and_nothing_else(server, consumer, query, run, retention):
    stream = await server.stream(retention=retention)
    await server.js.add_consumer(stream, durable_name="c", ack_policy="explicit")
    await server.numbers(f"{stream}.x", 100)
    run(consumer(stream))
    reading = await query()
    assert numbers(await reading.batch(100)) == list(range(100))
    info = await server.js.consumer_info(stream, "c")
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (100, 0)
    await reading.commit()
    await until(lambda: _is_empty(server, stream))


async def _is_empty(server, stream: str) -> bool:
    info = await server.js.consumer_info(stream, "c")
    return info.num_ack_pending == 0 and (await server.js.stream_info(stream)).state.messages == 0


async def test_messages_have_ids_times_and_keys(server, consumer, query, run):
    stream = await server.stream(retention="interest")
    await server.js.add_consumer(stream, durable_name="c", ack_policy="explicit")
    await server.js.publish(f"{stream}.x", b"1", headers={"Nats-Msg-Id": "one", "H": "h"})
    await server.js.publish(f"{stream}.y", b"")
    run(consumer(stream))
    first, second = await (await query()).read(2)
    assert (first.message_id, first.key, first.headers) == ("one", f"{stream}.x".encode(), [("H", b"h")])
    assert (second.message_id, second.value, second.headers) == (f"{stream}/2", b"", None)
    assert first.event_time < second.event_time


async def test_messages_of_a_lost_session_come_again_at_once_with_the_flag(server, consumer, query, run, address):
    stream = await server.stream(retention="workqueue")
    await server.numbers(f"{stream}.x", 100)
    reading = await query()
    lost = run(consumer(stream))
    first = await reading.batch(100)
    assert not any(message.headers for message in first)
    await lost.close()
    await until_gone(address, "s")
    run(consumer(stream))
    again = await reading.batch(100)
    assert sorted(numbers(again)) == list(range(100))
    assert {tuple(message.headers) for message in again} == {((AGAIN, b"2"),)}
    assert {message.message_id for message in again} == {message.message_id for message in first}
    await reading.commit()
    await until(lambda: _is_empty(server, stream))


async def test_messages_of_a_connector_that_is_killed_come_again_in_another_session(server, process, query):
    stream = await server.stream(retention="workqueue")
    await server.numbers(f"{stream}.x", 3000)
    connector = process("nats-consumer", source="s", stream=stream, consumer="c", ack_wait_seconds=1.0, max_ack_pending=2000)
    connector.start()
    reading = await query()
    committed = await reading.batch(500)
    await reading.commit()
    await until(lambda: _has_acknowledged(server, stream, len(committed)))
    lost = await reading.batch(500)
    connector.kill()
    connector.start()
    rest = await reading.read(3000 - len(committed))
    assert sorted(numbers(committed + rest)) == list(range(3000))
    again = {message.message_id for message in rest if message.headers}
    assert again >= {message.message_id for message in lost}
    await reading.commit()
    await until(lambda: _is_empty(server, stream))


async def _has_acknowledged(server, stream: str, count: int) -> bool:
    return (await server.js.stream_info(stream)).state.messages <= 3000 - count


async def test_nothing_comes_again_while_it_is_being_worked_on(server, consumer, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 200)
    run(consumer(stream, ack_wait_seconds=2.0, max_ack_pending=150))
    reading = await query()
    found = await reading.batch(150)
    # Somebody else's message, which was delivered later, comes again: that much time has passed.
    other = await server.js.pull_subscribe("", "other", stream, config=api.ConsumerConfig(ack_wait=2.0, max_ack_pending=1))
    await other.fetch(1)
    (late,) = await other.fetch(1, timeout=60)
    assert late.metadata.num_delivered == 2
    info = await server.js.consumer_info(stream, "c")
    assert (info.num_redelivered, info.num_ack_pending) == (0, 150)
    found += await reading.read(200 - len(found))
    assert sorted(numbers(found)) == list(range(200))
    assert not any(message.headers for message in found)


async def test_a_stop_in_good_order_gives_back_what_was_asked_for_ahead(server, consumer, query, run, address):
    stream = await server.stream(retention="workqueue")
    await server.numbers(f"{stream}.x", 5000)
    running = run(consumer(stream))
    reading = await query()
    found = await reading.read(1)
    await reading.commit()
    stopping = asyncio.create_task(running.stop())
    while not stopping.done():
        found += await reading.poll()
    await stopping
    # Within far less than the thirty seconds that it would take otherwise.
    run(consumer(stream))
    found += await reading.read(5000 - len(found))
    assert sorted(numbers(found)) == list(range(5000))


@pytest.mark.parametrize("subjects", [[], ["{}.x"], ["{}.x", "{}.y"], ["{}.none"]])
async def test_a_run_that_ends_when_it_has_caught_up(server, consumer, query, run, subjects):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 100)
    await server.numbers(f"{stream}.z", 100)
    run(consumer(stream, subjects=[subject.format(stream) for subject in subjects]))
    reading = await query(available_now=True)
    expected = {0: 200, 1: 0 if "{}.none" in subjects else 100, 2: 100}[len(subjects)]
    assert len(await reading.rest()) == expected


async def test_messages_that_are_purged_before_they_are_read_are_not_waited_for(server, consumer, query, run, monkeypatch):
    monkeypatch.setattr("headrace.connectors.nats.pull.HEARTBEAT_S", 0.2)
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 1000)
    run(consumer(stream, max_ack_pending=100))
    reading = await query()
    found = await reading.batch(100)
    await server.js.purge_stream(stream)
    await reading.commit()
    await until(lambda: _has_nothing_left(reading))
    await server.numbers(f"{stream}.x", 10, first=1000)
    found += await reading.read(10)
    assert numbers(found) == [*range(100), *range(1000, 1010)]


async def _has_nothing_left(reading) -> bool:
    (stream,) = (await reading.engine.status()).streams
    return stream.lag_messages == 0


async def test_one_message_at_a_time(server, consumer, query, run):
    stream = await server.stream(retention="workqueue")
    await server.numbers(f"{stream}.x", 5)
    run(consumer(stream, max_ack_pending=1))
    reading = await query()
    assert numbers(await reading.read(5)) == list(range(5))
    await reading.commit()
    await until(lambda: _is_empty(server, stream))


async def test_several_instances_share_a_consumer(server, consumer, query, run):
    stream = await server.stream(retention="workqueue")
    run(consumer(stream, source="s"))
    run(consumer(stream, source="t"))
    first = await query(name="one", streams="s/*")
    second = await query(name="two", streams="t/*")
    await until(lambda: _has_readers(server, stream, 2))
    found = []
    for n in range(20):
        await server.numbers(f"{stream}.x", 50, first=50 * n)
    async with asyncio.timeout(60):
        while len(found) < 1000:
            for reading in (first, second):
                found += await reading.poll()
    assert sorted(numbers(found)) == list(range(1000))
    await first.commit()
    await second.commit()
    await until(lambda: _is_empty(server, stream))


async def _has_readers(server, stream: str, count: int) -> bool:
    return [info.num_waiting >= count for info in await server.js.consumers_info(stream)] == [True]


# Faults


async def test_a_server_that_is_killed_is_waited_for_and_then_told_what_is_committed(nats, server, consumer, query, run, caplog):
    stream = await server.stream(retention="workqueue")
    await server.numbers(f"{stream}.x", 1000)
    running = run(consumer(stream, ack_wait_seconds=2.0))
    reading = await query()
    found = await reading.read(1000)
    with caplog.at_level(logging.WARNING):
        nats.kill()
        await until(lambda: "retrying" in caplog.text)
        await reading.commit()
        nats.start()
    await server.answers()
    await until(lambda: _is_empty(server, stream))
    await server.numbers(f"{stream}.x", 1000, first=1000)
    found += await reading.read(1000)
    assert sorted(numbers(found)) == list(range(2000))
    assert not running.task.done()


async def test_a_network_that_breaks_loses_nothing_and_repeats_only_what_it_lost(nats, server, consumer, query, run, network):
    stream = await server.stream(retention="workqueue")
    between = network(nats)
    await server.numbers(f"{stream}.x", 3000)
    servers = f"nats://{between.address}"
    run(consumer(stream, servers=servers, ack_wait_seconds=1.0))
    reading = await query()
    found = await reading.read(100)
    await asyncio.to_thread(between.reset)
    while len(set(numbers(found))) < 3000:
        found += await reading.read(1)
    assert set(numbers(found)) == set(range(3000))
    await reading.commit()
    await until(lambda: _is_empty(server, stream))


async def test_a_consumer_that_is_deleted_ends_it(server, consumer, query, run):
    stream = await server.stream()
    running = run(consumer(stream))
    await query()
    await until(lambda: _has_readers(server, stream, 1))
    await server.js.delete_consumer(stream, "c")
    assert f"consumer c of stream {stream} was deleted while it was read" in str(await running.broken())


@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_consumer_that_was_deleted_while_away_is_refused_or_accepted(
    server, consumer, query, run, address, caplog, made_anew
):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    running = run(consumer(stream))
    reading = await query()
    # Micro-batches of fewer messages than a frame has, in two sessions.
    found = []
    for _ in range(2):
        found += numbers(await reading.poll(wait_ms=60_000, max_messages=1))
        await reading.commit()
        await running.close()
        await until_gone(address, "s")
        running = run(consumer(stream))
    assert len(found) == 2
    await running.close()
    await until_gone(address, "s")
    await server.js.delete_consumer(stream, "c")
    if made_anew:
        await server.js.add_consumer(stream, durable_name="c", ack_policy="explicit")
    refused = str(await run(consumer(stream)).broken())
    assert f"consumer c of stream {stream} {'is not the one whose' if made_anew else 'no longer exists'}" in refused
    assert 'set new_consumer = "accept"' in refused
    assert len(await server.js.consumers_info(stream)) == made_anew
    with caplog.at_level(logging.WARNING):
        running = run(consumer(stream, new_consumer="accept"))
        found = await reading.read(10)
    assert sorted(numbers(found)) == list(range(10))
    assert 'new_consumer is "accept"' in caplog.text
    await reading.commit()
    await running.close()
    await until_gone(address, "s")
    # From then on, that consumer is the one of the checkpoint.
    run(consumer(stream))
    await server.numbers(f"{stream}.x", 1, first=10)
    found = await reading.read(1)
    assert 10 in numbers(found)


async def test_a_new_consumer_that_was_accepted_is_read_on_after_a_part_of_its_first_frame(server, consumer, query, run, address):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 100)
    running = run(consumer(stream))
    reading = await query()
    await reading.read(1)
    await reading.commit()
    await running.close()
    await until_gone(address, "s")

    async def cut() -> bool:
        """Commits the first message of a new consumer; returns whether its frame has more of them."""
        await server.js.delete_consumer(stream, "c")
        running = run(consumer(stream, new_consumer="accept"))
        while not await reading.poll(wait_ms=200, max_messages=1):
            pass
        await reading.commit()
        await running.close()
        await until_gone(address, "s")
        return reading.frames[0].count > 1

    async with asyncio.timeout(DEADLINE):
        # The first message may have arrived alone.
        while not await cut():
            pass
    running = run(consumer(stream))
    await server.numbers(f"{stream}.x", 1, first=100)
    found: set[int] = set()
    async with asyncio.timeout(DEADLINE):
        while not found >= set(range(1, 101)):
            assert not running.task.done(), await running.broken()
            found |= set(numbers(await reading.poll(wait_ms=200)))


async def test_a_consumer_that_was_deleted_before_anything_was_committed_is_created_again(server, consumer, query, run, address):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    running = run(consumer(stream))
    reading = await query()
    await until(lambda: _has_delivered(server, stream, 10))
    await running.close()
    await until_gone(address, "s")
    await server.js.delete_consumer(stream, "c")
    run(consumer(stream))
    assert sorted(numbers(await reading.read(10))) == list(range(10))


async def _has_delivered(server, stream: str, count: int) -> bool:
    try:
        return (await server.js.consumer_info(stream, "c")).num_ack_pending == count
    except NotFoundError:
        return False


# What it cannot read


@pytest.mark.parametrize(
    ("config", "more", "why"),
    [
        ({"ack_policy": "all"}, {}, "has ack policy all"),
        ({"ack_policy": "explicit", "deliver_subject": "push"}, {}, "is a push consumer"),
        ({"ack_policy": "explicit", "filter_subject": "{}.x"}, {"subjects": ["{}.y"]}, "reads {}.x; delete it"),
        ({"ack_policy": "explicit", "headers_only": True}, {}, "has headers_only: its messages come without their values"),
        (None, {"create": False}, "there is no consumer c of stream {}; create it, or set create = true"),
    ],
)
async def test_a_consumer_that_is_not_fit_ends_it(server, consumer, query, run, config, more, why):
    stream = await server.stream()
    if config is not None:
        config = {key: value.format(stream) if isinstance(value, str) else value for key, value in config.items()}
        await server.js.add_consumer(stream, durable_name="c", **config)
    more = {key: [one.format(stream) for one in value] if value else value for key, value in more.items()}
    running = run(consumer(stream, **more))
    await query()
    error = await running.broken()
    assert isinstance(error, NatsRefused)
    assert why.format(stream) in str(error)


async def test_a_user_who_may_not_acknowledge_is_told(query, run, tmp_path):
    config = """
        authorization { users: [
            { user: all, password: p }
            { user: few, password: p, permissions: { publish: { deny: "$JS.ACK.>" } } }
        ] }
    """
    with special(tmp_path, config) as where:
        way = {"servers": f"nats://{where}", "password": "p"}
        async with connected(f"nats://all:p@{where}") as other:
            await other.stream(name="S", retention="workqueue")
            await other.publish("S.x", b"1")
            running = run(NatsConsumerSource(NatsConsumerParameters(source="s", stream="S", consumer="c", user="few", **way)))
            reading = await query()
            await reading.read(1)
            await reading.commit()
            assert "permissions violation for publish" in str(await running.broken())


async def test_a_consumer_that_gives_up_is_warned_of(server, consumer, query, run, caplog):
    stream = await server.stream()
    await server.js.add_consumer(stream, durable_name="c", ack_policy="explicit", max_deliver=3)
    await server.numbers(f"{stream}.x", 1)
    run(consumer(stream))
    with caplog.at_level(logging.WARNING):
        await (await query()).read(1)
    assert "stops redelivering a message after 3 deliveries" in caplog.text


async def test_a_message_that_is_near_its_last_delivery_is_named(server, consumer, query, run, caplog, address):
    stream = await server.stream()
    await server.js.add_consumer(stream, durable_name="c", ack_policy="explicit", max_deliver=4)
    await server.numbers(f"{stream}.x", 3)
    reading = await query()

    async def named() -> bool:
        sessions = (await reading.engine.status()).sessions
        reported = [each.reported for each in sessions]
        return any("max_deliver is 4" in each.reason and each.state == CONNECTOR_STATE_DEGRADED for each in reported)

    running = run(consumer(stream))
    await until(lambda: _has_delivered(server, stream, 3))
    assert not await named()
    await running.stop()
    await until_gone(address, "s")
    run(consumer(stream))
    await until(named)
    assert f"consumer c of stream {stream} has delivered a message 2 times, and its max_deliver is 4" in caplog.text
    assert sorted(numbers(await reading.read(3))) == [0, 1, 2]
    await reading.commit()

    async def over() -> bool:
        return not await named()

    await until(over)


@pytest.mark.behaviour(
    "nats",
    "`consumer_limits` that allow fewer unacknowledged messages",
    "`nats-consumer` uses as many; if `max_ack_pending` asks for more, it ends and names both",
)
async def test_a_stream_may_limit_what_is_unacknowledged(server, consumer, query, run):
    stream = await server.raw_stream(unused("LIMITED"), consumer_limits={"max_ack_pending": 10})
    await server.numbers(f"{stream}.x", 100)
    reading = await query()
    running = run(consumer(stream, max_ack_pending=11))
    error = await running.broken()
    assert isinstance(error, NatsRefused)
    assert f"max_ack_pending is 11, and consumer_limits of stream {stream} allow 10" in str(error)
    run(consumer(stream))
    assert sorted(numbers(await reading.read(100))) == list(range(100))


@pytest.mark.behaviour(
    "nats",
    "a consumer that the server deletes while nobody reads it (`inactive_threshold`)",
    "`nats-consumer` warns, and again when it creates the consumer anew; with interest retention, it is degraded",
)
@pytest.mark.parametrize("retention", ["limits", "interest"])
async def test_a_consumer_that_does_not_stay_is_warned_of(server, consumer, query, run, caplog, address, retention):
    limits = {"inactive_threshold": 600_000_000_000}
    stream = await server.raw_stream(unused("FORGETS"), consumer_limits=limits, retention=retention)
    if retention == "limits":
        await server.numbers(f"{stream}.x", 10)
    running = run(consumer(stream))
    reading = await query()
    if retention == "interest":
        await until(lambda: "the server deletes it" in caplog.text)
        await server.numbers(f"{stream}.x", 10)
    assert numbers(await reading.read(10)) == list(range(10))
    await reading.commit()
    assert "the server deletes it once nobody has read it for 600 s (inactive_threshold)" in caplog.text

    async def named() -> bool:
        sessions = (await reading.engine.status()).sessions
        return any(each.reported.state == CONNECTOR_STATE_DEGRADED for each in sessions)

    if retention == "interest":
        await until(named)
    else:
        assert not await named()
    await running.stop()
    if retention == "limits":
        await server.js.delete_consumer(stream, "c")
        run(consumer(stream))
        await until(lambda: "created, it begins with the first of 10 messages that the stream has" in caplog.text)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_batch": 7},
        {"max_bytes": 5000},
        {"max_expires": 1_000_000_000},
        {"max_batch": 1, "max_expires": 100_000_000, "max_bytes": 1000},
    ],
)
async def test_a_consumer_may_limit_requests(server, consumer, query, run, limits):
    stream = await server.stream()
    await server.raw_consumer(stream, **limits)
    await server.numbers(f"{stream}.x", 50)
    run(consumer(stream))
    reading = await query()
    assert numbers(await reading.read(50)) == list(range(50))
    await server.publish(f"{stream}.x", b"x" * 6000)
    await server.numbers(f"{stream}.x", 50, first=50)
    assert len((await reading.read(51))[0].value) == 6000


async def test_a_consumer_with_priority_groups_is_refused(server, consumer, query, run):
    stream = await server.stream()
    await server.raw_consumer(stream, priority_groups=["a"], priority_policy="overflow")
    running = run(consumer(stream))
    await query()
    assert "has priority_groups" in str(await running.broken())


@pytest.mark.behaviour("nats", "a consumer that is paused", "`nats-consumer` reports until when it waits")
async def test_a_consumer_that_is_paused_is_named(server, consumer, query, run, monkeypatch):
    monkeypatch.setattr("headrace.connectors.nats.pull.HEARTBEAT_S", 0.2)
    stream = await server.stream()
    await server.raw_consumer(stream)
    await server.ask(f"CONSUMER.PAUSE.{stream}.c", {"pause_until": "2099-01-01T00:00:00Z"})
    await server.numbers(f"{stream}.x", 10)
    run(consumer(stream))
    reading = await query()

    async def named() -> bool:
        await reading.poll()
        sessions = (await reading.engine.status()).sessions
        return any("is paused until 2099" in each.reported.reason for each in sessions)

    await until(named)
    await server.ask(f"CONSUMER.PAUSE.{stream}.c", {})
    assert numbers(await reading.read(10)) == list(range(10))
