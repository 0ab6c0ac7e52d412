"""RabbitMQ as publishers and operators see it, and what reads from it and writes to it through a gateway."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from scripts.brokers import RabbitMQ
from tests.gateway.wire import Engine, until_gone

from headrace.protocol.v1.frame_pb2 import Position
from headrace.sdk import AsyncSink, AsyncSource, Message, decode_frame, serve

DEADLINE_S = 150.0
on_each_version = pytest.mark.parametrize("rabbitmq", ["rabbitmq", "rabbitmq4"], indirect=True)
"""Has a test run on RabbitMQ 3 and 4."""
_numbers = itertools.count()


class Rabbit:
    """The broker from the other side, by an unchanged client."""

    def __init__(self, broker: RabbitMQ) -> None:
        self.broker = broker
        self._connection: pika.BlockingConnection | None = None

    def channel(self) -> BlockingChannel:
        """A channel of its own, on a connection that outlives restarts of the broker."""
        if self._connection is None or not self._works(self._connection):
            self._connection = pika.BlockingConnection(pika.URLParameters(f"{self.broker.url}?heartbeat=0"))
        return self._connection.channel()

    def declare(self, kind: str = "quorum", **arguments: object) -> str:
        """Declares a durable queue; returns its name. Arguments are written without their `x-`."""
        name = f"q{os.getpid()}-{next(_numbers)}"
        options = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        with contextlib.closing(self.channel()) as channel:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **options})
        return name

    def delete(self, queue: str) -> None:
        with contextlib.closing(self.channel()) as channel:
            channel.queue_delete(queue)

    def publish(self, queue: str, values: Iterable[bytes], exchange: str = "", **properties: Any) -> None:
        """Publishes persistent messages, and waits until the broker has them on disk."""
        with contextlib.closing(self.channel()) as channel:
            channel.tx_select()
            for value in values:
                channel.basic_publish(exchange, queue, value, pika.BasicProperties(delivery_mode=2, **properties))
            channel.tx_commit()

    def count(self, queue: str) -> int:
        """How many messages wait."""
        with contextlib.closing(self.channel()) as channel:
            return channel.queue_declare(queue, passive=True).method.message_count

    def take(self, queue: str, count: int) -> list[tuple[Any, pika.BasicProperties, bytes]]:
        """Waits for `count` messages, and takes them away."""
        taken = []
        with contextlib.closing(self.channel()) as channel:
            for method, properties, body in channel.consume(queue, inactivity_timeout=DEADLINE_S):
                assert method is not None, f"{len(taken)} of {count} messages have come"
                taken.append((method, properties, body))
                channel.basic_ack(method.delivery_tag)
                if len(taken) == count:
                    break
            channel.cancel()
        return taken

    def look(self, queue: str) -> list[bytes]:
        """Returns the values of all messages that wait, which stay in the queue."""
        found = []
        with contextlib.closing(self.channel()) as channel:
            while (got := channel.basic_get(queue))[0] is not None:
                found.append(got[2])
        return found

    def deliver_in_vain(self, queue: str) -> None:
        """Takes all messages that wait, and loses the channel before it acknowledges them."""
        self.look(queue)

    def close(self) -> None:
        # The broker may have been killed since.
        if self._connection is not None and self._works(self._connection):
            self._connection.close()

    @staticmethod
    def _works(connection: pika.BlockingConnection) -> bool:
        try:
            connection.process_data_events()
        except (pika.exceptions.AMQPError, ValueError):  # the latter where it was lost within a call
            return False
        return connection.is_open


class Query:
    """A query that reads the source `s`, as the gateway sees it, with its checkpoint."""

    def __init__(self, address: str, name: str = "q", *, skip_lost: bool = False) -> None:
        self._engine = Engine(address, name, streams="s/*", skip_lost=skip_lost)
        self._attached = False
        self.committed: dict[str, Position] = {}
        self._read: dict[str, Position] = {}
        self.messages: list[Message] = []

    async def batch(self, wait_ms: int = 100) -> list[Message]:
        """Reads what there is now, as a micro-batch that is not committed yet."""
        if not self._attached:
            await self._engine.attach(dict(self.committed))
            self._attached = True
        found: list[Message] = []
        planned = await self._engine.plan(self.committed, wait_ms=wait_ms)
        for each in planned.ranges:
            frames = await self._engine.fetch(each.stream, self.committed.get(each.stream), each.end)
            found += [message for frame in frames for message in decode_frame(frame)]
            self._read[each.stream] = each.end
        return found

    async def commit(self) -> None:
        """The micro-batch that was read last is in the checkpoint from now on."""
        self.committed |= self._read
        self._read.clear()
        await self._engine.plan(self.committed, wait_ms=0)

    async def uncommitted(self, count: int) -> list[Message]:
        """Reads a micro-batch of `count` messages."""
        async with asyncio.timeout(DEADLINE_S):
            while len(found := await self.batch()) < count:
                pass
        return found

    async def read(self, count: int) -> list[Message]:
        """Runs and commits micro-batches until it has read `count` messages in all."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.messages) < count:
                self.messages += await self.batch()
                await self.commit()
        return self.messages

    async def read_to(self, value: bytes) -> list[Message]:
        """Runs and commits micro-batches until one has had a message with this value."""
        async with asyncio.timeout(DEADLINE_S):
            while value not in values(self.messages):
                self.messages += await self.batch()
                await self.commit()
        return self.messages

    async def detach(self) -> None:
        """Ends it in good order."""
        await self._engine.detach()

    async def close(self) -> None:
        await self._engine.close()


@asynccontextmanager
async def serving(
    connector: AsyncSource | AsyncSink, address: str, instance: str | None = None
) -> "AsyncIterator[asyncio.Task[None]]":
    """Serves a connector; ends it as a crash would, without waiting for acknowledgements, and until the gateway knows."""
    task = asyncio.create_task(serve(connector, gateway=address, instance=instance))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
        await until_gone(address, instance or connector.name)


async def until(holds: Callable[[], Any]) -> None:
    """Waits for a condition; one that is no coroutine may block, as questions to a broker do."""
    deadline = time.monotonic() + DEADLINE_S
    while not await (holds() if asyncio.iscoroutinefunction(holds) else asyncio.to_thread(holds)):
        assert time.monotonic() < deadline, "it does not come about"
        await asyncio.sleep(0.02)


def values(messages: Iterable[Message]) -> list[bytes | None]:
    """The values of messages."""
    return [message.value for message in messages]


def numbered(*bounds: int) -> list[bytes]:
    """The numbers of a range, as values."""
    return [b"%d" % number for number in range(*bounds)]
