"""One consumer of one queue: what has arrived, and its acknowledgement."""

import asyncio
import contextlib
import itertools
import time
from typing import Any

from pika.frame import Method

from headrace.connectors.rabbitmq._deliveries import CONSUMER_TAG, Arrived, Deliveries
from headrace.connectors.rabbitmq._errors import Denied, Unavailable
from headrace.connectors.rabbitmq._fields import OFFSET
from headrace.connectors.rabbitmq._link import Link
from headrace.connectors.rabbitmq._parameters import RabbitMQConnection

# Above this, nothing more is taken from the broker before what has arrived is taken from here.
_HELD_BYTES = 1 << 20
_HELD_MESSAGES = 8192
# The broker sends a few messages at a time. What comes within this time is worth one batch, and one frame.
_GATHER_SECONDS = 0.005
_ASK_SECONDS = 1.0
_numbers = itertools.count(1)


class Consumer:
    """A consumer, from when it is opened until it is closed."""

    def __init__(self, queue: str, prefetch: int) -> None:
        """Is not open yet."""
        self.number = next(_numbers)
        """Tells it from every other consumer of this process."""
        self._queue = queue
        self._prefetch = prefetch
        self._deliveries = Deliveries()
        self._something = asyncio.Event()
        self._link: Link
        self._closing = False
        self._last_tag = 0
        self._acknowledged = 0
        self._ready = 0
        self._next_question = 0.0

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
    ) -> "Consumer":
        """Connects, and begins to consume.

        Args:
            parameters: Where the broker is.
            name: What its operators see.
            queue: The queue.
            prefetch: How many messages may be unacknowledged.
            exclusive: Whether nobody else may consume it.
            arguments: As for Basic.Consume.

        Raises:
            QueueMissing: There is no such queue.
            Denied: The broker refuses.
            Unavailable: The broker is away, or somebody else has the queue for himself.
        """
        consumer = cls(queue, prefetch)
        link = consumer._link = await Link.open(parameters, name, consumer._deliveries, consumer._on_arrival)
        try:
            await consumer._begin(exclusive, arguments)
        except BaseException:
            await link.close()
            raise
        return consumer

    async def _begin(self, exclusive: bool, arguments: dict[str, Any] | None) -> None:
        """Makes sure that there is a queue, and consumes it."""
        link, channel = self._link, self._link.channel
        link.lost.add_done_callback(lambda _: self._something.set())
        channel.add_on_cancel_callback(
            lambda _: link.lose(Unavailable(f"{link.broker}: the consumer of {self._queue} was cancelled"))
        )
        declared = await link.ask(channel.queue_declare, self._queue, passive=True)
        self._ready = declared.message_count
        await link.ask(channel.basic_qos, prefetch_count=self._prefetch)
        await link.ask(
            channel.basic_consume,
            self._queue,
            lambda *_: None,  # deliveries never come this way
            exclusive=exclusive,
            consumer_tag=CONSUMER_TAG,
            arguments=arguments,
        )

    def take(self) -> Arrived:
        """What has arrived since this was last called; may be nothing.

        Raises:
            RabbitMQError: The link is lost. What had arrived comes again.
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
        """Waits until something has arrived, the link is lost, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._something.wait()

    async def gather(self) -> None:
        """Lets more arrive, for a moment."""
        await asyncio.sleep(_GATHER_SECONDS)

    def acknowledge(self, tag: int) -> None:
        """Acknowledges everything up to a delivery. Nothing where the link is lost: it all comes again."""
        if not self._link.lost.done():
            self._link.channel.basic_ack(tag, multiple=True)
            self._acknowledged = tag

    def acknowledge_one(self, tag: int) -> None:
        """Acknowledges one delivery alone."""
        if not self._link.lost.done():
            self._link.channel.basic_ack(tag)

    def reject(self, tag: int) -> None:
        """Rejects one delivery for good: it goes to the dead-letter exchange of its queue, if there is one."""
        if not self._link.lost.done():
            self._link.channel.basic_reject(tag, requeue=False)

    def backlog(self) -> int:
        """About how many messages there are besides those that were taken. Asks the broker, and does not wait for the answer."""
        held = len(self._deliveries.arrived)
        if not held and self._last_tag - self._acknowledged < self._prefetch:
            return 0
        if not self._link.lost.done() and time.monotonic() >= self._next_question:
            self._next_question = time.monotonic() + _ASK_SECONDS
            self._link.channel.queue_declare(self._queue, passive=True, callback=self._answered)
        return self._ready + held

    async def close(self) -> None:
        """Gives back what is not acknowledged."""
        self._closing = True
        self._link.wire.resume()
        await self._link.close()

    def _on_arrival(self) -> None:
        """Something has arrived."""
        self._something.set()
        arrived = self._deliveries.arrived
        if self._closing:
            self._deliveries.take()
        elif arrived.bytes >= _HELD_BYTES or len(arrived) >= _HELD_MESSAGES:
            self._link.wire.pause()

    def _answered(self, frame: Method[Any]) -> None:
        """The broker has told how many messages wait."""
        self._ready = frame.method.message_count


async def is_stream(parameters: RabbitMQConnection, name: str, queue: str) -> bool:
    """Whether a queue is a stream queue: only these can be consumed from an offset.

    Raises:
        RabbitMQError: It cannot be told.
    """
    try:
        consumer = await Consumer.open(parameters, name, queue, 1, arguments={OFFSET: "next"})
    except Denied as error:
        if OFFSET in str(error):
            return False
        raise
    await consumer.close()
    return True
