"""Headers that cannot be read, from a real broker: they are damaged on their way, since RabbitMQ takes none that are."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pika
import pytest
from tests.connectors.rabbitmq.rig import DEADLINE_S, Query, numbered, serving, values

from headrace.connectors import dead_letters
from headrace.connectors.rabbitmq import (
    Denied,
    RabbitMQParameters,
    RabbitMQQueueSource,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
)
from headrace.connectors.rabbitmq.columns import Columns
from headrace.connectors.rabbitmq.deliveries import Arrived
from headrace.connectors.rabbitmq.fields import take_offset
from headrace.sdk import serve

OFFSET = b"x-stream-offset"
HEADER = {"damage": "here"}


@asynccontextmanager
async def damaging(port: int, pattern: bytes, replacement: bytes) -> AsyncIterator[str]:
    """A way to a broker on which its frames are changed."""

    async def there(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)

    async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            start = await reader.readexactly(7)
            frame = start + await reader.readexactly(int.from_bytes(start[3:], "big") + 1)
            writer.write(re.sub(pattern, replacement, frame, flags=re.DOTALL))

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        ways = [asyncio.create_task(there(reader, to_writer)), asyncio.create_task(back(to_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for side in (writer, to_writer):
                side.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 5)


def publish(rabbit) -> str:
    """A stream queue with twelve messages, the fourth and the eighth of which will be damaged."""
    queue = rabbit.declare("stream")
    rabbit.publish(queue, numbered(0, 3))
    rabbit.publish(queue, [b"damaged"], headers=HEADER)
    rabbit.publish(queue, numbered(4, 7))
    rabbit.publish(queue, [b"damaged"], headers=HEADER)
    rabbit.publish(queue, numbered(8, 12))
    return queue


SOUND = [*range(3), *range(4, 7), *range(8, 12)]
NUMBERS = [b"%d" % number for number in SOUND]
NO_OFFSET = rb"(\x06damageS\x00\x00\x00\x04here.{0,40}?\x0fx-stream-offset)l", rb"\1Z"


def source_at(url: str, where: str, queue: str, **parameters) -> RabbitMQStreamSource:
    url = re.sub(r"127\.0\.0\.1:\d+", where, url)
    return RabbitMQStreamSource(RabbitMQStreamParameters(url=url, source="s", queue=(queue,), **parameters))


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
async def test_what_is_around_a_message_without_an_offset_arrives_once(rabbit, address, tmp_path, caplog, policy):
    queue = publish(rabbit)
    folder = {} if policy == "skip" else {"dead_letters": tmp_path / "dead"}
    async with damaging(rabbit.broker.port, *NO_OFFSET) as where:
        reader = Query(address)
        source = source_at(rabbit.broker.url, where, queue, bad_records=policy, **folder)
        async with serving(source, address):
            messages = await reader.read(len(NUMBERS))
            assert values(messages) == NUMBERS
            assert [message.sequence for message in messages] == [offset + 1 for offset in SOUND]
            assert source.bad_records.total == 2
        assert f"stream queue {queue}: the message after offset 2 has no offset that can be parsed" in caplog.text
        if policy == "dead-letter":
            letters = list(dead_letters(tmp_path / "dead"))
            assert [letter.message.value for letter in letters] == [b"damaged"] * 2
            assert all(OFFSET in dict(letter.message.headers)["amqp-properties"] for letter in letters)
        # They lie before the position, so that who begins anew does not meet them again.
        again = source_at(rabbit.broker.url, where, queue, bad_records=policy, **folder)
        async with serving(again, address):
            rabbit.publish(queue, [b"last"])
            assert values(await reader.read(len(NUMBERS) + 1)) == [*NUMBERS, b"last"]
            assert again.bad_records.total == 0
        await reader.close()


async def test_a_message_without_an_offset_ends_the_connector_where_nothing_else_is_said(rabbit, address):
    queue = publish(rabbit)
    async with damaging(rabbit.broker.port, *NO_OFFSET) as where:
        reader = Query(address)
        task = asyncio.create_task(serve(source_at(rabbit.broker.url, where, queue), gateway=address))
        assert values(await reader.read(3)) == numbered(0, 3)
        what = f"stream queue {queue}: the message after offset 2 has no offset that can be parsed: .*; set bad_records to skip"
        with pytest.raises(Denied, match=what):
            await asyncio.wait_for(task, DEADLINE_S)
        await reader.close()


def table(*fields: bytes) -> bytes:
    return b"\x20\x00" + len(b"".join(fields)).to_bytes(4, "big") + b"".join(fields)


NESTED = b"t\x01"
for _ in range(3000):
    NESTED = b"F" + (len(NESTED) + 2).to_bytes(4, "big") + b"\x01n" + NESTED


class Nested(pika.BasicProperties):
    """Properties with a header that is nested more deeply than Python reads."""

    def encode(self) -> list[bytes]:
        return [table(b"\x01a" + NESTED)]


async def test_a_header_that_is_nested_too_deeply_ends_no_queue(rabbit, address):
    queue = rabbit.declare("classic")
    with contextlib.closing(rabbit.channel()) as channel:
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"nested", Nested())
        channel.basic_publish("", queue, b"plain")
    source = RabbitMQQueueSource(RabbitMQParameters(url=rabbit.broker.url, source="s", queue=(queue,)))
    reader = Query(address)
    async with serving(source, address):
        nested, plain = await reader.read(2)
        assert (nested.value, plain.value) == (b"nested", b"plain")
        assert b"recursion" in dict(nested.headers)["amqp-unreadable"]
    await reader.close()


@pytest.mark.parametrize("bad", [b"\x01aZ1", b"\x01a" + NESTED, b"\x01aS\xff\xff\xff\xff"])
@pytest.mark.parametrize("first", [True, False])
def test_an_offset_is_found_among_headers_that_cannot_be_read(bad, first):
    offset = bytes([len(OFFSET)]) + OFFSET + b"l" + (77).to_bytes(8, "big")
    found = take_offset(table(offset, bad) if first else table(bad, offset))
    assert found is not None
    assert found[0] == 77


def test_a_message_whose_other_headers_cannot_be_read_is_taken():
    offset = bytes([len(OFFSET)]) + OFFSET + b"l" + (77).to_bytes(8, "big")
    found = take_offset(table(b"\x01aZ1", offset))
    assert found is not None
    batch = Columns("routing-key").batch(Arrived([1], [b"\x00\x00\x01k"], [found[1]], [b"a"]))
    assert batch.values == [b"a"]
    assert b"unknown type 'Z'" in dict(batch.headers[0])["amqp-unreadable"]


def test_headers_without_an_offset_that_cannot_be_read_are_told():
    with pytest.raises(ValueError, match="the headers of a message cannot be parsed: a header is of the unknown type 'Z'"):
        take_offset(table(b"\x01aZ1"))
