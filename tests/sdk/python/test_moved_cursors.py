"""A source of Python's SDK moves its cursor without a message, within the gateway's limit, and gives headers as text."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from tests.fake_gateway.server import until
from tests.sdk.python.test_session import resume

from headrace.protocol.v1 import source_pb2 as pb
from headrace.sdk import AsyncSource, Batch, InvalidMessage, Message, Position, Source

Items = Sequence[Message | Batch | None]


class Scripted(Source):
    """Yields what it is given, and then nothing."""

    name = "log"

    def __init__(self, items: Items) -> None:
        self.items = items
        self.acks: list[tuple[int, bytes | None]] = []

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        yield from self.items
        while True:
            yield None

    def acknowledged(self, partition: str, position: Position) -> None:
        self.acks.append((position.sequence, position.cursor))


class AsyncScripted(AsyncSource):
    """As Scripted, on the event loop."""

    name = "log"

    def __init__(self, items: Items) -> None:
        self.items = items
        self.acks: list[tuple[int, bytes | None]] = []

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        for item in self.items:
            yield item
        while True:
            yield None

    async def acknowledged(self, partition: str, position: Position) -> None:
        self.acks.append((position.sequence, position.cursor))


KINDS = pytest.mark.parametrize("kind", [Scripted, AsyncScripted])
MOVES = (pb.CAPABILITY_CURSORS,)


@KINDS
async def test_a_batch_without_messages_moves_the_cursor_which_is_acknowledged_at_the_same_sequence(gateway, connect, kind):
    gateway.limits.capabilities = MOVES
    source = kind([Batch([], cursor=b"idle")])
    connect(source)
    session = await gateway.session()
    stream = await session.open("log/0", resume=resume(41, b"41"), acknowledged=resume(41, b"41"))
    frame = (await session.next("frame")).frame
    assert (frame.count, frame.first_sequence, frame.cursor) == (0, 41, b"idle")
    session.ack(stream, 41, cursor=b"idle", moves=1)
    await until(lambda: source.acks == [(41, b"41"), (41, b"idle")])


@KINDS
async def test_a_cursor_after_messages_goes_with_them(gateway, connect, kind):
    gateway.limits.capabilities = MOVES
    connect(kind([Message(b"a", sequence=1), Batch([], cursor=b"later"), None]))
    session = await gateway.session()
    await session.open("log/0")
    frame = (await session.next("frame")).frame
    if not frame.HasField("cursor"):  # The message was sent before the cursor came.
        frame = (await session.next("frame")).frame
        assert frame.count == 0
    assert frame.cursor == b"later"


async def test_a_gateway_without_the_capability_gets_no_cursor_alone(gateway, connect):
    connect(Scripted([Batch([], cursor=b"idle"), Message(b"a", sequence=1)]))
    session = await gateway.session()
    await session.open("log/0")
    (message,) = await session.messages(1)
    assert message.value == b"a"


@pytest.mark.parametrize(
    "item", [Batch([], cursor=b"c" * 101), Message(b"a", cursor=b"c" * 101), Batch([b"a"], cursor=b"c" * 101)]
)
async def test_a_cursor_above_the_limit_of_the_gateway_is_named(gateway, connect, item):
    gateway.limits.capabilities, gateway.limits.max_cursor_bytes = MOVES, 100
    task = connect(Scripted([item]))
    session = await gateway.session()
    await session.open("log/0")
    with pytest.raises(
        InvalidMessage, match=r"stream log/0, sequence \d: a cursor of 101 bytes; the gateway accepts at most 100"
    ):
        await asyncio.wait_for(task, 60)


async def test_headers_are_bytes_or_text(gateway, connect):
    connect(Scripted([Message(b"a", headers=[("text", "é"), ("bytes", b"\xff"), ("null", None)])]))
    session = await gateway.session()
    await session.open("log/0")
    (message,) = await session.messages(1)
    assert message.headers == [("text", "é".encode()), ("bytes", b"\xff"), ("null", None)]
