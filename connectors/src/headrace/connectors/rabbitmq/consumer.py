"""One consumer of one queue: arrived messages, and their acknowledgement."""

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pika.frame import Method

from headrace.connectors.rabbitmq._errors import Denied, Unavailable
from headrace.connectors.rabbitmq._parameters import RabbitMQConnection
from headrace.connectors.rabbitmq.deliveries import CONSUMER_TAG, Arrived, Deliveries
from headrace.connectors.rabbitmq.fields import OFFSET
from headrace.connectors.rabbitmq.link import Link

# Above this size, nothing more is read from the broker until the arrived messages are taken.
_HELD_BYTES = 1 << 20
_HELD_MESSAGES = 8192
# The broker sends a few messages at a time. Messages that arrive within this time, in seconds, form one batch, and one frame.
_GATHER_S = 0.005
_ASK_S = 1.0
# A broker does not always notify a consumer that its queue is gone, for instance RabbitMQ 4.0 shortly after its start.
_IDLE_ASK_S = 10.0
_numbers = itertools.count(1)


class Consumer:
    """A consumer, from when it is opened until it is closed."""

    def __init__(self, queue: str, prefetch: int) -> None:
        """Creates a consumer that is not open yet."""
        self.number = next(_numbers)
        """Distinguishes it from every other consumer of this process."""
        self._queue = queue
        self._prefetch = prefetch
        self._deliveries = Deliveries()
        self._something = asyncio.Event()
        self._link: Link
        self._closing = False
        self._last_tag = 0
        self._acknowledged = 0
        self._ready = 0
        self._asked_at = -math.inf

    @classmethod
    async def open(
        cls,
        parameters: RabbitMQConnection,
        name: str,
        queue: str,
        prefetch: int,
        *,
        exclusive: bool = False,
        arguments: dict[str, Any] | None = None,
        check: Callable[[Link], Awaitable[None]] | None = None,
    ) -> "Consumer":
        """Connects, and starts consuming.

        Args:
            parameters: How to reach the broker.
            name: The connection name that operators of the broker see.
            queue: The queue.
            prefetch: How many messages may be unacknowledged.
            exclusive: Whether to be the only consumer.
            arguments: Arguments of Basic.Consume.
            check: Awaited before the queue has a consumer, whose end may be the end of the queue.

        Raises:
            QueueMissing: The queue does not exist.
            Denied: The broker rejects the connection or the consumer.
            Unavailable: The broker is unavailable, or another client consumes the queue exclusively.
        """
        consumer = cls(queue, prefetch)
        link = consumer._link = await Link.open(parameters, name, consumer._deliveries, consumer._on_arrival)
        try:
            await consumer._begin(exclusive, arguments, check)
        except BaseException:
            await link.close()
            raise
        return consumer

    async def _begin(
        self, exclusive: bool, arguments: dict[str, Any] | None, check: Callable[[Link], Awaitable[None]] | None
    ) -> None:
        """Checks that the queue exists, and consumes it."""
        link, channel = self._link, self._link.channel
        link.lost.add_done_callback(lambda _: self._something.set())
        channel.add_on_cancel_callback(
            lambda _: link.lose(Unavailable(f"{link.broker}: the consumer of {self._queue} was cancelled"))
        )
        declared = await link.ask(channel.queue_declare, self._queue, passive=True)
        self._ready = declared.message_count
        if check is not None:
            await check(link)
        await link.ask(channel.basic_qos, prefetch_count=self._prefetch)
        await link.ask(
            channel.basic_consume,
            self._queue,
            lambda *_: None,  # deliveries never use this callback
            exclusive=exclusive,
            consumer_tag=CONSUMER_TAG,
            arguments=arguments,
        )

    def take(self) -> Arrived:
        """Takes the messages that have arrived since the last call, if any.

        Raises:
            RabbitMQError: The connection is lost. Arrived messages are redelivered.
        """
        if self._link.lost.done():
            raise self._link.lost.result()
        arrived = self._deliveries.take()
        self._something.clear()
        self._link.wire.resume()
        if arrived:
            self._last_tag = arrived.tags[-1]
        return arrived

    async def wait(self, seconds: float) -> None:
        """Waits until something has arrived or the connection is lost, for a limited time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._something.wait()

    async def gather(self) -> None:
        """Waits a moment for more messages."""
        await asyncio.sleep(_GATHER_S)

    def acknowledge(self, tag: int) -> None:
        """Acknowledges everything up to a delivery. No effect if the connection is lost: the messages are redelivered."""
        if not self._link.lost.done():
            self._link.channel.basic_ack(tag, multiple=True)
            self._acknowledged = tag

    def acknowledge_one(self, tag: int) -> None:
        """Acknowledges a single delivery."""
        if not self._link.lost.done():
            self._link.channel.basic_ack(tag)

    def reject(self, tag: int) -> None:
        """Rejects a single delivery permanently: it goes to the dead-letter exchange of its queue, if there is one."""
        if not self._link.lost.done():
            self._link.channel.basic_reject(tag, requeue=False)

    @property
    def held(self) -> int:
        """The number of messages that have arrived and were not taken."""
        return len(self._deliveries.arrived)

    def backlog(self) -> int:
        """Returns the approximate number of messages that were not taken; requests it again, without waiting for the answer."""
        held = self.held
        if not held and self._last_tag - self._acknowledged < self._prefetch:
            self._ask(_IDLE_ASK_S)
            return 0
        return self.messages() + held

    def messages(self) -> int:
        """Returns the number of messages in the queue at the last answer; requests it again, without waiting for the answer."""
        self._ask(_ASK_S)
        return self._ready

    async def close(self) -> None:
        """Closes the connection, which returns unacknowledged messages to the queue."""
        self._closing = True
        self._link.wire.resume()
        await self._link.close()

    def _on_arrival(self) -> None:
        """Handles an arrival."""
        self._something.set()
        arrived = self._deliveries.arrived
        if self._closing:
            self._deliveries.take()
        elif arrived.bytes >= _HELD_BYTES or len(arrived) >= _HELD_MESSAGES:
            self._link.wire.pause()

    def _ask(self, pause_seconds: float) -> None:
        """Requests the number of waiting messages, unless it was just requested. If the queue is gone, the link is lost."""
        if not self._link.lost.done() and time.monotonic() - self._asked_at >= pause_seconds:
            self._asked_at = time.monotonic()
            self._link.channel.queue_declare(self._queue, passive=True, callback=self._answered)

    def _answered(self, frame: Method[Any]) -> None:
        """Handles the broker's answer about waiting messages."""
        self._ready = frame.method.message_count


async def is_stream(parameters: RabbitMQConnection, name: str, queue: str) -> bool:
    """Returns whether a queue is a stream queue: only these can be consumed from an offset.

    Raises:
        RabbitMQError: It cannot be determined.
    """
    try:
        consumer = await Consumer.open(parameters, name, queue, 1, arguments={OFFSET: "next"})
    except Denied as error:
        if OFFSET in str(error):
            return False
        raise
    await consumer.close()
    return True
