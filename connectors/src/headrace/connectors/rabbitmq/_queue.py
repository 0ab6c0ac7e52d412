"""The `rabbitmq` source: classic and quorum queues, acknowledged in bulk once their messages are in the checkpoint."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headrace.connectors.bad_records import BadRecords
from headrace.connectors.rabbitmq._errors import Denied, QueueMissing, Unavailable
from headrace.connectors.rabbitmq._parameters import RabbitMQParameters
from headrace.connectors.rabbitmq.consumer import Consumer, is_stream
from headrace.connectors.rabbitmq.deliveries import Arrived
from headrace.connectors.rabbitmq.fields import OFFSET
from headrace.connectors.rabbitmq.lifetime import Lifetime, lifetime_of
from headrace.connectors.rabbitmq.link import Link
from headrace.connectors.rabbitmq.queues import QueuesSource
from headrace.connectors.retry import Retry
from headrace.connectors.waiting import fine, is_near, warns
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, SourceKind

log = logging.getLogger(__name__)

# A token is a delivery tag, with the number of the consumer in the higher bits.
_TAG_BITS = 48
_TAG = (1 << _TAG_BITS) - 1
_IDLE_S = 1.0
_USUAL_LIMIT = 20
"""How often a quorum queue of RabbitMQ 4 delivers a message in vain, unless it was declared otherwise."""


class RabbitMQQueueSource(QueuesSource[RabbitMQParameters]):
    """Reads queues; each is a partition, with its own connection."""

    connector = "rabbitmq"
    kind = SourceKind.REDELIVERING

    def __init__(self, parameters: RabbitMQParameters) -> None:
        """Creates the source, without connecting.

        Raises:
            InvalidSource: Two queues would be the same stream.
        """
        super().__init__(parameters)
        self._consumers: dict[str, Consumer] = {}
        self._no_streams: set[str] = set()
        self._lifetimes: dict[str, Lifetime] = {}
        self._endangered: dict[str, int] = {}
        """The last token of each partition whose message may be near the delivery limit."""

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | None]:
        """Yields delivered messages; reconnects as needed.

        Raises:
            QueueMissing: The queue does not exist, and `missing_queue` is `fail`.
            Denied: The broker rejects the client or the request, the queue is a stream queue, or it goes with its last consumer,
                and `temporary_queue` is `refuse`.
        """
        retry = Retry(f"queue {self._queues[partition]}", self)
        while True:
            try:
                async with self._consuming(partition) as consumer:
                    retry.connected()
                    while True:
                        if arrived := consumer.take():
                            await self._see_that_it_is_no_stream(partition, arrived)
                            yield self._batch(partition, arrived, consumer)
                            await consumer.gather()
                        else:
                            yield None
                            await consumer.wait(_IDLE_S)
            except (QueueMissing, Unavailable) as error:
                await self._wait(retry, error)

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Acknowledges all messages up to the last one, on its channel. If its consumer is gone, the messages are redelivered."""
        last = tokens[-1]
        assert isinstance(last, int)
        if (consumer := self._consumer_of(partition, last)) is not None:
            consumer.acknowledge(last & _TAG)
        if last >= self._endangered.get(partition, last + 1):
            del self._endangered[partition]
            fine(self, _near(self._queues[partition]))

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Removes one message from the queue; without a folder for dead letters, by rejecting it."""
        token = message.token
        assert isinstance(token, int)
        if (consumer := self._consumer_of(partition, token)) is None:
            return  # it is redelivered
        await super().unsendable(partition, message, error)
        if self.bad_records.what is BadRecords.DEAD_LETTER and self._parameters.dead_letters is None:
            consumer.reject(token & _TAG)
        else:
            consumer.acknowledge_one(token & _TAG)

    def _consumer_of(self, partition: str, token: int) -> Consumer | None:
        """Returns the consumer to which a message was delivered; None if it is gone."""
        consumer = self._consumers.get(partition)
        return consumer if consumer is not None and token >> _TAG_BITS == consumer.number else None

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the number of messages in the queue."""
        consumer = self._consumers.get(partition)
        return None if consumer is None else Backlog(messages=consumer.backlog())

    @asynccontextmanager
    async def _consuming(self, partition: str) -> AsyncIterator[Consumer]:
        """Consumes a queue."""
        options, queue = self._parameters, self._queues[partition]
        consumer = await Consumer.open(
            options,
            f"{self.name}/{partition}",
            queue,
            options.prefetch,
            exclusive=options.exclusive,
            check=lambda link: self._check_lifetime(link, queue),
        )
        self._consumers[partition] = consumer
        if self._endangered.pop(partition, None) is not None:
            fine(self, _near(queue))
        try:
            yield consumer
        finally:
            del self._consumers[partition]
            await consumer.close()

    async def _check_lifetime(self, link: Link, queue: str) -> None:
        """Checks that a queue outlives a stop of this connector and the loss of its connection.

        Raises:
            Denied: It does not, and the user has not accepted that.
        """
        lifetime = await lifetime_of(link, queue)
        check_lifetime(lifetime, queue, self._parameters)
        if self._lifetimes.get(queue) == lifetime:
            return
        self._lifetimes[queue] = lifetime
        if lifetime.temporary is not None:
            reason = f"queue {queue}: {lifetime.temporary}: the broker deletes it, with its messages, once it has no consumer"
            log.warning("%s", reason)
            warns(self, queue, reason)
        if lifetime.unknown is not None:
            log.info("queue %s: it is unknown whether it goes with its last consumer: %s", queue, lifetime.unknown)
        if lifetime.transient:
            log.warning("queue %s is transient: its messages go when the broker restarts", queue)

    async def _see_that_it_is_no_stream(self, partition: str, arrived: Arrived) -> None:
        """Checks for stream queues, which deliver all messages to every consumer and keep acknowledged messages.

        Raises:
            Denied: The queue is a stream queue.
        """
        # Messages of other queues may also have the header, if they were in a stream queue before.
        if OFFSET.encode() in arrived.properties[0] and partition not in self._no_streams:
            queue = self._queues[partition]
            if await is_stream(self._parameters, f"{self.name}/{partition}", queue):
                raise Denied(f"queue {queue} is a stream queue; use the connector rabbitmq-stream")
            self._no_streams.add(partition)

    def _batch(self, partition: str, arrived: Arrived, consumer: Consumer) -> Batch:
        """Converts deliveries to a batch, except deliveries that are too large."""
        limit = self._parameters.reject_above_bytes
        if limit is not None and max(map(len, arrived.values)) > limit:
            fitting = [len(value) <= limit for value in arrived.values]
            for tag, fits in zip(arrived.tags, fitting, strict=True):
                if not fits:
                    consumer.reject(tag)
            arrived = arrived.only(fitting)
        base = consumer.number << _TAG_BITS
        batch = self._columns.batch(arrived, tokens=[base + tag for tag in arrived.tags])
        if self._columns.failed:
            self._see_limit(partition, self._columns.failed, base + arrived.tags[-1])
        return batch

    def _see_limit(self, partition: str, failed: int, last: int) -> None:
        """Warns of a message that the broker gives up soon: it counts each lost session."""
        queue = self._queues[partition]
        lifetime = self._lifetimes.get(queue)
        known = None if lifetime is None else lifetime.delivery_limit
        limit = _USUAL_LIMIT if known is None else known
        if limit < 0 or not is_near(failed + 1, limit + 1):
            return
        told = f"its delivery limit is {limit}" if known is not None else f"the limit is {limit} unless it was declared otherwise"
        reason = (
            f"queue {queue} has delivered a message {failed} times in vain, and {told}: beyond it, the broker drops the message, "
            "or moves it to the dead letters of the queue; find out why sessions are lost, or raise x-delivery-limit"
        )
        if partition not in self._endangered:
            log.warning("%s", reason)
        self._endangered[partition] = last
        warns(self, _near(queue), reason)


def _near(queue: str) -> str:
    """Names what is reported of a queue's delivery limit."""
    return f"delivery limit of {queue}"


def check_lifetime(lifetime: Lifetime, queue: str, parameters: RabbitMQParameters) -> None:
    """Checks that a queue does not go with its last consumer, unless that is accepted.

    Raises:
        Denied: It does.
    """
    if lifetime.temporary is not None and parameters.temporary_queue == "refuse":
        raise Denied(
            f"queue {queue}: {lifetime.temporary}: the broker deletes it, with its messages, once this connector stops or "
            "loses its connection; declare a queue that stays, or set temporary_queue to accept"
        )
