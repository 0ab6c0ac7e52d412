"""The `nats-core` source, on a real server and through a real gateway."""

import asyncio
import logging

from tests.connectors.nats.rig import connection, numbers, until

from headrace.connectors.nats import NatsCoreParameters, NatsCoreSource


def core(nats, subject: str, **more) -> NatsCoreSource:
    return NatsCoreSource(NatsCoreParameters(**{"source": "s", "subjects": [subject], **connection(nats), **more}))


async def subscribed(server, reading, subject: str):
    """Publishes until the source listens."""
    async with asyncio.timeout(60):
        while True:
            await server.client.publish(subject, b"hello")
            if await reading.poll():
                return


async def without_hello(count: int, *readings):
    """Reads `count` messages that are not greetings."""
    found = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for reading in readings:
                found += [message for message in await reading.poll() if message.value != b"hello"]
    return found


async def test_messages_are_read_as_they_are_sent(nats, server, query, run):
    run(core(nats, "core1.>"))
    reading = await query()
    await subscribed(server, reading, "core1.hello")
    await server.client.publish("core1.a", b"\x00\xff", headers={"H": "h", "Nats-Msg-Id": "one"})
    await server.client.publish("core1.b", b"")
    first, second = await without_hello(2, reading)
    assert (first.value, first.key, first.headers, first.message_id) == (b"\x00\xff", b"core1.a", [("H", b"h")], "one")
    assert (second.value, second.key, second.event_time, second.message_id) == (b"", b"core1.b", None, None)


async def test_a_queue_group_shares_messages(nats, server, query, run):
    run(core(nats, "core2.>", queue_group="g"))
    run(core(nats, "core2.>", queue_group="g", source="t"))
    first, second = await query(name="one"), await query(name="two", streams="t/*")
    for reading in (first, second):
        await subscribed(server, reading, "core2.hello")
    for n in range(1000):
        await server.client.publish("core2.x", b"%d" % n)
    found = await without_hello(1000, first, second)
    assert sorted(numbers(found)) == list(range(1000))


async def test_what_is_too_much_is_dropped_counted_and_told(nats, server, caplog):
    reading = core(nats, "core3.x", buffer_messages=10).read("0", None)
    assert await anext(reading) is None
    waiting = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)
    with caplog.at_level(logging.WARNING):
        for n in range(100):
            await server.client.publish("core3.x", b"%d" % n)
        await server.client.flush()
        await until(lambda: "arrive faster than they are read" in caplog.text)
    taken = (await waiting).values
    assert [int(value) for value in taken] == list(range(len(taken)))
    assert len(taken) <= 10
    await reading.aclose()


async def test_what_is_sent_while_nobody_listens_is_lost(nats, server, query, run):
    first = run(core(nats, "core5.>"))
    reading = await query()
    await subscribed(server, reading, "core5.hello")
    await reading.commit()
    await first.stop()
    await server.client.publish("core5.x", b"lost")
    run(core(nats, "core5.>"))
    await subscribed(server, reading, "core5.hello")
    await server.client.publish("core5.x", b"heard")
    (only,) = await without_hello(1, reading)
    assert only.value == b"heard"


async def test_it_connects_again(nats, server, query, run, caplog):
    run(core(nats, "core4.>"))
    reading = await query()
    await subscribed(server, reading, "core4.hello")
    with caplog.at_level(logging.WARNING):
        nats.kill()
        await until(lambda: "which loses messages sent in the meantime" in caplog.text)
        nats.start()
    await until(lambda: server.client.is_connected)
    await subscribed(server, reading, "core4.again")
