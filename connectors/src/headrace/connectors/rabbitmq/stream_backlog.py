"""How many messages a stream queue has after the last one that was read.

AMQP tells the offset of a message only with the message. A second consumer therefore reads the last one, for a moment, and only
where the first one is silent although the number of messages in the queue has changed.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from headrace.connectors.rabbitmq._errors import RabbitMQError
from headrace.connectors.rabbitmq.consumer import Consumer
from headrace.connectors.rabbitmq.fields import take_offset

log = logging.getLogger(__name__)

_QUIET_S = 5.0
"""A consumer that has received nothing for this long, in seconds, may have stopped although there are messages."""
_ANSWER_S = 10.0
"""An available message arrives within this time, in seconds."""


class StreamBacklog:
    """The backlog of one reading of a stream queue."""

    def __init__(self, consumer: Consumer, read: int | None, open_last: Callable[[], Awaitable[Consumer]]) -> None:
        """Creates a backlog that is not known yet.

        Args:
            consumer: Reads the queue.
            read: The offset before the first one to read; None if it is unknown.
            open_last: Opens a consumer that begins with the last messages of the queue.
        """
        self._consumer = consumer
        self._read = read
        self._open_last = open_last
        self._heard_at = time.monotonic()
        self._latest: int | None = None
        self._request: asyncio.Task[None] | None = None
        self._asked_at_count: int | None = None

    def note_read(self, offset: int) -> None:
        """Notes the last offset that was read."""
        self._read = offset
        self._heard_at = time.monotonic()

    def messages(self) -> int:
        """Returns the number of messages that are left, as far as that is known; it is not more than the queue has."""
        count = self._consumer.messages()
        if time.monotonic() - self._heard_at >= _QUIET_S:
            self._ask_if_changed(count)
        ahead = 0 if self._latest is None or self._read is None else self._latest - self._read
        return max(self._consumer.held, min(ahead, count))

    async def close(self) -> None:
        """Ends an open question."""
        if self._request is not None:
            self._request.cancel()
            await asyncio.wait({self._request})

    def _ask_if_changed(self, count: int) -> None:
        """Asks for the last offset, unless the queue has as many messages as at the last question."""
        if count != self._asked_at_count and (self._request is None or self._request.done()):
            self._asked_at_count = count
            self._request = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        """Reads some of the last messages."""
        try:
            consumer = await self._open_last()
            try:
                await consumer.wait(_ANSWER_S)
                await consumer.gather()
                for properties in reversed(consumer.take().properties):
                    # One that cannot be parsed is reported where it is read.
                    with contextlib.suppress(ValueError):
                        if (found := take_offset(properties)) is not None:
                            self._latest = found[0]
                            return
            finally:
                await consumer.close()
        except RabbitMQError as error:
            log.debug("the last offset of a stream queue is unknown: %s", error)
            self._asked_at_count = None
