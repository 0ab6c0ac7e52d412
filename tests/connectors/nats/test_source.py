"""The `nats` source, on a real server and through a real gateway."""

import asyncio
import logging
import re
import time

import pytest
from tests.connectors.nats.rig import DEADLINE, connection, numbers, until, unused

from headrace.connectors.nats import NatsError, NatsRefused
from headrace.sdk import PositionLost


async def test_a_message_has_all_that_nats_has(server, source, query, run):
    stream = await server.stream()
    before = time.time_ns() // 1000
    headers = b"NATS/1.0\r\nA: 1\r\nb: \xff\xfe\r\nA: 2\r\nEmpty:\r\nNats-Msg-Id: one\r\n\r\n"
    await server.raw(b"HPUB %s.x %d %d\r\n%s\x00\r\n\xff\r\n" % (stream.encode(), len(headers), len(headers) + 4, headers))
    await server.publish(f"{stream}.y.z", b"")
    run(source(stream))
    first, second = await (await query()).read(2)
    assert (first.value, first.key, first.message_id, first.sequence) == (b"\x00\r\n\xff", f"{stream}.x".encode(), "one", 1)
    assert first.headers == [("A", b"1"), ("b", b"\xff\xfe"), ("A", b"2"), ("Empty", b"")]
    assert (second.value, second.key, second.message_id, second.headers) == (b"", f"{stream}.y.z".encode(), None, None)
    stored_at = before, time.time_ns() // 1000
    assert second.sequence == 2
    assert stored_at[0] <= (first.event_time or 0) < (second.event_time or 0) <= stored_at[1]


@pytest.mark.parametrize("size", [1, 1_000_000, 1_048_576])
async def test_values_of_any_size(server, source, query, run, size):
    stream = await server.stream()
    await server.publish(f"{stream}.x", b"a", b"x" * size, b"b")
    run(source(stream, prefetch_bytes=1024))
    assert [message.value for message in await (await query()).read(3)] == [b"a", b"x" * size, b"b"]


async def test_keys_from_a_header_or_none_and_the_subject_as_a_header(server, source, query, run):
    stream = await server.stream()
    await server.publish(f"{stream}.x", b"1", K="k")
    await server.publish(f"{stream}.x", b"2")
    run(source(stream, key="header:K", subject_header="S"))
    first, second = await (await query()).read(2)
    assert (first.key, first.headers) == (b"k", [("K", b"k"), ("S", f"{stream}.x".encode())])
    assert (second.key, second.headers) == (None, [("S", f"{stream}.x".encode())])


async def test_keys_may_be_any_bytes(server, source, query, run):
    stream = await server.stream()
    headers = b"NATS/1.0\r\nK: \x00\xff\xfe\r\nK: second\r\n\r\n"
    await server.raw(b"HPUB %s.x %d %d\r\n%sv\r\n" % (stream.encode(), len(headers), len(headers) + 1, headers))
    run(source(stream, key="header:K"))
    (message,) = await (await query()).read(1)
    assert (message.key, message.headers) == (b"\x00\xff\xfe", [("K", b"\x00\xff\xfe"), ("K", b"second")])


@pytest.mark.behaviour("nats", "a subject that is not valid UTF-8", "reads it")
async def test_a_subject_that_is_not_text_does_not_stop_the_source(server, source, query, run):
    stream = await server.stream()
    subject = stream.encode() + b".\xff\xfe"
    await server.raw(b"PUB %s 1\r\n1\r\n" % subject, b"PUB %s.x 1\r\n2\r\n" % stream.encode())
    run(source(stream))
    assert [message.key for message in await (await query()).read(2)] == [subject, f"{stream}.x".encode()]


async def test_it_goes_on_where_the_checkpoint_is(server, source, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10_000)
    reading = await query()
    running = run(source(stream))
    found = await reading.read(5000)
    await reading.commit()
    await running.close()
    await server.numbers(f"{stream}.x", 10, first=10_000)
    run(source(stream))
    found += await reading.read(10_010 - len(found))
    assert numbers(found) == list(range(10_010))
    assert [message.sequence for message in found] == list(range(1, 10_011))


async def test_subjects_are_filtered_and_gaps_are_normal(server, source, query, run):
    stream = await server.stream()
    for n in range(300):
        await server.publish(f"{stream}.{n % 3}", b"%d" % n)
    run(source(stream, subjects=[f"{stream}.0", f"{stream}.2"]))
    found = await (await query()).read(200)
    assert numbers(found) == [n for n in range(300) if n % 3 != 1]
    assert [message.sequence for message in found] == [n + 1 for n in range(300) if n % 3 != 1]


async def test_each_subject_may_be_a_partition(server, source, query, run):
    stream = await server.stream()
    for n in range(10):
        await server.publish(f"{stream}.{'ab'[n % 2]}.x", b"%d" % n)
    made = source(stream, subjects=[f"{stream}.a.*", f"{stream}.b.>"], partition_by_subject=True)
    run(made)
    reading = await query()
    await reading.read(10)
    await reading.commit()
    assert {name: position.sequence for name, position in reading.committed.items()} == {
        f"s/{stream}.a._": 9,
        f"s/{stream}.b._": 10,
    }


@pytest.mark.parametrize("subjects", [[], ["{}.x"], ["{}.x", "{}.y"], ["{}.none"]])
async def test_a_run_that_ends_when_it_has_caught_up(server, source, query, run, subjects):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 100)
    await server.numbers(f"{stream}.z", 100)
    run(source(stream, subjects=[subject.format(stream) for subject in subjects]))
    reading = await query(available_now=True)
    expected = {0: 200, 1: 0 if "{}.none" in subjects else 100, 2: 100}[len(subjects)]
    assert len(await reading.rest()) == expected


# Faults


async def test_a_connector_that_is_killed_goes_on_exactly_where_it_was(server, process, query):
    stream = await server.stream()
    connector = process("nats", source="s", stream=stream)
    reading = await query()
    found = []
    for round_ in range(3):
        connector.start()
        await server.numbers(f"{stream}.x", 2000, first=2000 * round_)
        found += await reading.read(500)
        connector.kill()
        await reading.commit()
    connector.start()
    found += await reading.read(6000 - len(found))
    assert numbers(found) == list(range(6000))


async def test_a_server_that_is_killed_is_waited_for(nats, server, source, query, run, caplog):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 1000)
    running = run(source(stream))
    reading = await query()
    found = await reading.read(1000)
    with caplog.at_level(logging.WARNING):
        nats.kill()
        await until(lambda: "retrying" in caplog.text)
        nats.start()
    await server.answers()
    await server.numbers(f"{stream}.x", 1000, first=1000)
    found += await reading.read(1000)
    assert numbers(found) == list(range(2000))
    assert not running.task.done()


@pytest.mark.parametrize("fault", ["cut", "refuse", "reset"])
async def test_a_network_that_fails_is_waited_for(nats, server, source, query, run, network, monkeypatch, caplog, fault):
    monkeypatch.setattr("headrace.connectors.nats.pull.HEARTBEAT_S", 0.2)
    monkeypatch.setattr("headrace.connectors.nats.pull._SILENCE_S", 1.0)
    stream = await server.stream()
    between = network(nats)
    await server.numbers(f"{stream}.x", 20_000)
    run(source(stream, **connection(nats, between.port), connect_seconds=0.5))
    reading = await query()
    found = await reading.read(100)
    with caplog.at_level(logging.WARNING):
        await asyncio.to_thread(getattr(between, fault))
        await server.numbers(f"{stream}.x", 1000, first=20_000)
        async with asyncio.timeout(DEADLINE):
            while "retrying" not in caplog.text:
                found += await reading.poll()
        await asyncio.to_thread(between.restore)
    found += await reading.read(21_000 - len(found))
    assert numbers(found) == list(range(21_000))


async def test_a_consumer_that_is_gone_is_made_again(server, source, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    run(source(stream))
    reading = await query()
    found = await reading.read(10)
    for consumer in await server.js.consumers_info(stream):
        await server.js.delete_consumer(stream, consumer.name)
    await server.numbers(f"{stream}.x", 10, first=10)
    found += await reading.read(10)
    assert numbers(found) == list(range(20))


async def test_its_consumer_is_removed_when_it_stops(server, source, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    running = run(source(stream))
    reading = await query()
    await reading.read(10)
    await reading.commit()
    assert len(await server.js.consumers_info(stream)) == 1
    await running.stop()
    await until(lambda: _has_no_consumer(server, stream))


async def _has_no_consumer(server, stream: str) -> bool:
    return not await server.js.consumers_info(stream)


# What is lost


async def test_messages_that_expired_while_it_was_away_are_named(server, source, query, run):
    stream = await server.stream(max_msgs=10)
    await server.numbers(f"{stream}.x", 10)
    reading = await query()
    running = run(source(stream))
    await reading.read(10)
    await reading.commit()
    await running.stop()
    await server.numbers(f"{stream}.x", 30, first=10)
    run(source(stream))
    why = await reading.fails()
    assert f"stream {stream} no longer has messages 11 to 30" in why


async def test_what_expired_is_skipped_where_the_query_accepts_it(server, source, query, run):
    stream = await server.stream(max_msgs=10)
    await server.numbers(f"{stream}.x", 10)
    reading = await query(skip_lost=True)
    running = run(source(stream))
    await reading.read(10)
    await reading.commit()
    await running.stop()
    await server.numbers(f"{stream}.x", 30, first=10)
    run(source(stream))
    assert numbers(await reading.read(10)) == list(range(30, 40))


async def test_messages_that_expire_while_they_wait_to_be_read_are_named(server, source):
    stream = await server.stream(max_msgs=1000)
    await server.numbers(f"{stream}.x", 1000)
    made = source(stream, prefetch_messages=100)
    reading = made.read(stream, None)
    first = await anext(reading)
    assert len(first) < 1000
    await server.numbers(f"{stream}.x", 1000, first=1000)
    # Some that came after the lost ones may have been delivered before they expired.
    with pytest.raises(PositionLost, match=rf"stream {stream} no longer has messages \d+ to \d+") as lost:
        async for _ in reading:
            pass
    assert lost.value.earliest == 1001


async def test_messages_that_expire_though_all_was_read_before_them_are_named(server, source):
    stream = await server.stream(max_msgs=10)
    await server.numbers(f"{stream}.x", 1)
    reading = source(stream, prefetch_messages=10).read(stream, None)
    found = [await anext(reading)]
    # As many as it has asked for are delivered at once; nothing is left then, and the next ones are too many for the stream.
    for n in range(1, 11):
        await server.numbers(f"{stream}.x", 1, first=n)
    await server.numbers(f"{stream}.x", 1000, first=11)

    async def rest() -> None:
        async for batch in reading:
            found.append(batch)

    with pytest.raises(PositionLost, match=f"stream {stream} no longer has messages") as lost:
        await rest()
    assert f"{sum(len(batch or ()) for batch in found) + 1} to 1001" in str(lost.value)


async def test_messages_that_are_purged_before_they_are_read_are_named(server, source, monkeypatch):
    monkeypatch.setattr("headrace.connectors.nats.pull.HEARTBEAT_S", 0.2)
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 1000)
    reading = source(stream, prefetch_messages=100).read(stream, None)
    found = [await anext(reading)]
    await server.js.purge_stream(stream)

    async def rest() -> None:
        async for batch in reading:
            found.append(batch)

    with pytest.raises(PositionLost) as lost:
        await rest()
    assert f"stream {stream} no longer has messages {sum(len(batch or ()) for batch in found) + 1} to 1000" in str(lost.value)
    assert lost.value.earliest == 1001


async def test_messages_that_were_purged_after_they_were_read_are_not_missed(server, source, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    run(source(stream))
    reading = await query()
    found = await reading.read(10)
    await server.js.purge_stream(stream)
    await server.numbers(f"{stream}.x", 10, first=10)
    found += await reading.read(10)
    assert numbers(found) == list(range(20))


async def test_a_stream_that_keeps_the_last_message_of_each_subject_loses_nothing(server, source, query, run):
    stream = await server.stream(max_msgs_per_subject=1)
    for n in range(10):
        await server.publish(f"{stream}.{n % 2}", b"%d" % n)
    running = run(source(stream))
    reading = await query()
    assert numbers(await reading.read(2)) == [8, 9]
    await reading.commit()
    await running.stop()
    for n in range(10, 20):
        await server.publish(f"{stream}.{n % 2}", b"%d" % n)
    run(source(stream))
    assert numbers(await reading.read(2)) == [18, 19]


@pytest.mark.parametrize("count", [5, 50])
async def test_a_stream_that_was_created_anew_is_noticed(server, source, query, run, count):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    running = run(source(stream))
    reading = await query()
    await reading.read(10)
    await reading.commit()
    await running.stop()
    await server.anew(stream)
    await server.numbers(f"{stream}.x", count)
    run(source(stream))
    assert f"stream {stream} was deleted and recreated, though message 10 was read" in await reading.fails()


async def test_a_stream_that_was_created_anew_is_never_skipped_silently(server, source, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    reading = await query(skip_lost=True)
    running = run(source(stream))
    await reading.read(10)
    await reading.commit()
    await running.stop()
    await server.anew(stream)
    await server.numbers(f"{stream}.x", 5)
    assert "give the source another name" in str(await run(source(stream)).broken())


# What it cannot read


async def test_a_stream_that_is_deleted_ends_it(server, source, query, run):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 10)
    running = run(source(stream))
    reading = await query()
    await reading.read(10)
    await reading.commit()
    await server.js.delete_stream(stream)
    error = await running.broken()
    assert isinstance(error, NatsRefused)
    assert f"has no stream {stream}; create it, or correct the parameter stream" in str(error)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_a_stream_that_forgets_what_is_acknowledged_is_for_another_connector(server, source, query, run, retention):
    stream = await server.stream(retention=retention)
    running = run(source(stream))
    await query()
    assert f"has {retention} retention" in str(await running.broken())


async def test_wrong_credentials_end_it(server, source, query, run):
    stream = await server.stream()
    running = run(source(stream, password="secret-and-wrong"))
    await query()
    error = await running.broken()
    assert isinstance(error, NatsRefused)
    assert "rejects this client: check user and password" in str(error)
    assert "secret-and-wrong" not in str(error)


async def test_subjects_that_overlap_are_refused(server, source, query, run):
    stream = await server.stream()
    running = run(source(stream, subjects=[f"{stream}.>", f"{stream}.x"]))
    await query()
    error = await running.broken()
    assert isinstance(error, NatsError)
    assert "consumer subject filters cannot overlap" in str(error)


@pytest.mark.parametrize("limits", [{"inactive_threshold": 10_000_000_000}, {"max_ack_pending": 1000}])
async def test_limits_that_a_stream_imposes_on_consumers_are_kept(server, source, query, run, limits):
    stream = await server.raw_stream(unused("LIMITS"), consumer_limits=limits)
    await server.numbers(f"{stream}.x", 100)
    run(source(stream))
    assert numbers(await (await query()).read(100)) == list(range(100))


@pytest.mark.behaviour(
    "nats",
    "a KV bucket with `max_bytes` or a TTL",
    "reads the latest values; a key that expired unread loses the position, and the error names `max_age`",
)
@pytest.mark.parametrize("limits", [{"max_bytes": 100_000}, {"max_age": 3600 * 10**9}])
async def test_a_bucket_whose_values_are_replaced_loses_nothing(server, source, query, run, limits):
    bucket = unused("KV_b")
    await server.raw_stream(bucket, subjects=[f"$KV.{bucket}.>"], discard="new", max_msgs_per_subject=1, **limits)
    for n in range(10):
        await server.publish(f"$KV.{bucket}.{n % 2}", b"%d" % n)
    running = run(source(bucket))
    reading = await query()
    assert numbers(await reading.read(2)) == [8, 9]
    await reading.commit()
    await running.stop()
    for n in range(10, 20):
        await server.publish(f"$KV.{bucket}.{n % 2}", b"%d" % n)
    run(source(bucket))
    assert numbers(await reading.read(2)) == [18, 19]


async def test_values_of_a_bucket_that_expired_unread_are_named_with_the_setting(server, source, query, run):
    bucket = unused("KV_b")
    await server.raw_stream(bucket, subjects=[f"$KV.{bucket}.>"], discard="new", max_msgs_per_subject=1, max_age=10**9)
    running = run(source(bucket))
    reading = await query()
    await server.publish(f"$KV.{bucket}.a", b"0")
    assert numbers(await reading.read(1)) == [0]
    await reading.commit()
    await running.stop()
    await server.publish(f"$KV.{bucket}.b", b"1")

    async def expired() -> bool:
        return (await server.js.stream_info(bucket)).state.messages == 0

    await until(expired)
    await server.publish(f"$KV.{bucket}.c", b"2")
    run(source(bucket))
    # The last value may expire, too, before the source looks.
    named = rf"stream {bucket} no longer has messages 2 to [23]: max_age = 1 s or a purge has removed them"
    assert re.search(named, await reading.fails())


async def test_a_rollup_that_removes_unread_messages_is_named(server, source, query, run):
    stream = await server.stream(allow_rollup_hdrs=True)
    running = run(source(stream))
    reading = await query()
    await server.numbers(f"{stream}.x", 1)
    await reading.read(1)
    await reading.commit()
    await running.stop()
    await server.numbers(f"{stream}.x", 5)
    await server.publish(f"{stream}.x", b"all", **{"Nats-Rollup": "all"})
    run(source(stream))
    said = await reading.fails()
    assert f"stream {stream} no longer has messages 2 to 6: a message with Nats-Rollup or a purge has removed them" in said
