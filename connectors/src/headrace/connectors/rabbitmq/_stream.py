"""The `rabbitmq-stream` source: stream queues, readable from any offset.

The sequence of a message is its offset plus one, because sequences begin with 1. Offsets have gaps where the broker stores its
own records: a gap alone does not mean that something was lost.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress, pairwise

from headrace.connectors.bad_records import BadRecords
from headrace.connectors.rabbitmq._errors import Denied, QueueMissing, Unavailable
from headrace.connectors.rabbitmq._parameters import RabbitMQStreamParameters, start_of
from headrace.connectors.rabbitmq.consumer import Consumer
from headrace.connectors.rabbitmq.deliveries import Arrived
from headrace.connectors.rabbitmq.fields import OFFSET, take_offset
from headrace.connectors.rabbitmq.queues import QueuesSource
from headrace.connectors.rabbitmq.stream_backlog import StreamBacklog
from headrace.connectors.retry import Retry
from headrace.sdk import Backlog, Batch, Message, Position, PositionLost

_IDLE_S = 1.0
# Available messages arrive within this time, in seconds.
_SILENT_S = 10.0
# A consumer that receives nothing for this long, in seconds, is reopened. If retention removes its next messages, the broker may
# fall silent.
_STALE_S = 60.0


class RabbitMQStreamSource(QueuesSource[RabbitMQStreamParameters]):
    """Reads stream queues; each is a partition, with its own connection."""

    connector = "rabbitmq-stream"

    def __init__(self, parameters: RabbitMQStreamParameters) -> None:
        """Creates the source, without connecting.

        Raises:
            InvalidSource: Two queues would be the same stream.
        """
        super().__init__(parameters)
        self._backlogs: dict[str, StreamBacklog] = {}

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | None]:
        """Yields the messages after the position; reconnects as needed.

        Raises:
            PositionLost: The queue no longer has all of them.
        """
        queue = self._queues[partition]
        retry = Retry(f"stream queue {queue}", self)
        seen = None if position is None else position.sequence - 1
        while True:
            try:
                async with self._consuming(partition, seen) as consumer:
                    retry.connected()
                    taken = _take(consumer) if seen is None else await self._resume(partition, consumer, seen)
                    heard_at = time.monotonic()
                    while taken or time.monotonic() - heard_at < _STALE_S:
                        for some in taken.pieces():
                            if some.arrived:
                                await self._check_gaps(partition, seen, some.offsets)
                                self._backlogs[partition].note_read(some.offsets[-1])
                                yield self._columns.batch(some.arrived, sequences=_sequences(some.offsets))
                                seen = some.offsets[-1]
                            for unreadable in some.unreadable:
                                await self._leave_out(partition, seen, unreadable)
                        if taken:
                            heard_at = time.monotonic()
                            await consumer.gather()
                        else:
                            yield None
                            await consumer.wait(_IDLE_S)
                        taken = _take(consumer)
            except (QueueMissing, Unavailable) as error:
                await self._wait(retry, error)

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the number of messages in the queue after the last one that was read, as far as that is known."""
        backlog = self._backlogs.get(partition)
        return None if backlog is None else Backlog(messages=backlog.messages())

    @asynccontextmanager
    async def _consuming(self, partition: str, last: int | None) -> AsyncIterator[Consumer]:
        """Consumes a queue from the last message that was read, which shows that nothing after it was removed."""
        start = start_of(self._parameters.start) if last is None else last
        consumer = await self._open(partition, self._parameters.prefetch, start)
        read = last if last is not None else -1 if start == "first" else start - 1 if isinstance(start, int) else None
        backlog = StreamBacklog(consumer, read, lambda: self._open(partition, self._parameters.prefetch, "last"))
        self._backlogs[partition] = backlog
        try:
            yield consumer
        finally:
            del self._backlogs[partition]
            await backlog.close()
            await consumer.close()

    async def _open(self, partition: str, prefetch: int, start: str | int | datetime) -> Consumer:
        """Consumes a queue."""
        queue, name = self._queues[partition], f"{self.name}/{partition}"
        try:
            return await Consumer.open(self._parameters, name, queue, prefetch, arguments={OFFSET: start})
        except Denied as error:
            if OFFSET in str(error):
                raise Denied(f"{error}; queue {queue} is not a stream queue: use the connector rabbitmq") from error
            raise

    async def _leave_out(self, partition: str, last: int | None, unreadable: "_Unreadable") -> None:
        """Applies the policy for bad records to a message whose offset is unknown, so that it has no position.

        Raises:
            Denied: The policy is to fail.
        """
        where = "its first message" if last is None else f"the message after offset {last}"
        what = f"stream queue {self._queues[partition]}: {where} has no offset that can be parsed: {unreadable.error}"
        if self.bad_records.what is BadRecords.FAIL:
            raise Denied(f"{what}; set bad_records to skip or dead-letter to continue after it")
        headers = [("amqp-properties", unreadable.properties), ("amqp-route", unreadable.route)]
        message = Message(unreadable.value, headers=headers)
        await asyncio.to_thread(self.bad_records.take, partition, message, Denied(what))

    async def _resume(self, partition: str, consumer: Consumer, last: int) -> "_Taken":
        """Waits for the last message that was read; returns the messages after it.

        Raises:
            PositionLost: It was removed, and perhaps others after it.
        """
        queue = self._queues[partition]
        while not (found := await _next(consumer)).offsets:
            # The broker is silent about an offset that it does not have yet. Was the queue declared again?
            earliest = await self._earliest(partition)
            if earliest is not None and not (found := await _next(consumer)).offsets:
                raise PositionLost(f"stream queue {queue} is a different one: it has no offset {last}", earliest=earliest + 1)
        if found.offsets[0] > last + 1:
            raise _loss(queue, last, found.offsets[0])
        return found.after(last)

    async def _check_gaps(self, partition: str, last: int | None, offsets: list[int]) -> None:
        """Checks that nothing is missing between messages.

        Raises:
            PositionLost: Something may be missing.
        """
        start = offsets[0] - 1 if last is None else last
        if offsets[-1] - start == len(offsets):
            return
        before, after = next((a, b) for a, b in pairwise([start, *offsets]) if b > a + 1)
        # Messages after a message that still exists cannot have been removed before it.
        earliest = await self._earliest(partition)
        if earliest is None or earliest > before:
            raise _loss(self._queues[partition], before, after)

    async def _earliest(self, partition: str) -> int | None:
        """Returns the first offset that the queue has now; None if it has no message."""
        consumer = await self._open(partition, 1, "first")
        try:
            while not (taken := await _next(consumer)).offsets:
                if not taken:
                    return None
            return taken.offsets[0]
        finally:
            await consumer.close()


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A message whose offset cannot be parsed.

    Attributes:
        place: The number of parsable messages before it, among the messages that arrived with it.
        error: The error in its headers.
        properties: Its properties, as encoded in the frame.
        route: Its exchange and routing key, as encoded in the frame.
        value: Its body.
    """

    place: int
    error: ValueError
    properties: bytes
    route: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class _Taken:
    """Arrived messages, with their offsets, which are removed from the headers."""

    offsets: list[int]
    arrived: Arrived
    unreadable: Sequence[_Unreadable] = ()

    def __bool__(self) -> bool:
        """Returns whether there are any messages."""
        return bool(self.offsets or self.unreadable)

    def after(self, last: int) -> "_Taken":
        """Returns the messages after an offset."""
        fresh = [offset > last for offset in self.offsets]
        old = fresh.count(False)
        unreadable = [replace(one, place=one.place - old) for one in self.unreadable if one.place >= old]
        return _Taken(list(compress(self.offsets, fresh)), self.arrived.only(fresh), unreadable)

    def pieces(self) -> "Iterator[_Taken]":
        """Yields the messages in pieces, each of which ends with a message that cannot be parsed, if any."""
        if not self.unreadable:
            yield self
            return
        start, count = 0, len(self.offsets)
        for place, one in [*((one.place, one) for one in self.unreadable), (count, None)]:
            kept = [start <= at < place for at in range(count)]
            yield _Taken(self.offsets[start:place], self.arrived.only(kept), [] if one is None else [one])
            start = place


async def _next(consumer: Consumer) -> _Taken:
    """Waits for messages, long enough for available ones to arrive."""
    await consumer.wait(_SILENT_S)
    return _take(consumer)


def _take(consumer: Consumer) -> _Taken:
    """Takes the arrived messages.

    Raises:
        Denied: These are not messages of a stream.
    """
    arrived = consumer.take()
    if not arrived:
        return _Taken([], arrived)
    # Acknowledging makes room for further messages; the broker of a stream queue does not store it.
    consumer.acknowledge(arrived.tags[-1])
    try:
        found = [take_offset(properties) for properties in arrived.properties]
        unreadable: list[_Unreadable] = []
    except ValueError:
        found, unreadable, arrived = _sorted_out(arrived)
    offsets = [pair[0] for pair in found if pair is not None]
    if len(offsets) != len(arrived):
        raise Denied(f"a message has no {OFFSET}: this is not a stream queue; use the connector rabbitmq")
    arrived.properties = [pair[1] for pair in found if pair is not None]
    return _Taken(offsets, arrived, unreadable)


def _sorted_out(arrived: Arrived) -> tuple[list[tuple[int, bytes] | None], list[_Unreadable], Arrived]:
    """Returns the offsets of the parsable messages, the unparsable ones, and the parsable ones."""
    found: list[tuple[int, bytes] | None] = []
    unreadable: list[_Unreadable] = []
    readable: list[bool] = []
    for properties, route, value in zip(arrived.properties, arrived.routes, arrived.values, strict=True):
        try:
            found.append(take_offset(properties))
            readable.append(True)
        except ValueError as error:
            unreadable.append(_Unreadable(len(found), error, properties, route, value))
            readable.append(False)
    return found, unreadable, arrived.only(readable)


def _sequences(offsets: list[int]) -> Sequence[int]:
    """Returns the sequences of messages."""
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        return range(offsets[0] + 1, offsets[-1] + 2)
    return [offset + 1 for offset in offsets]


def _loss(queue: str, before: int, after: int) -> PositionLost:
    """Returns the loss of everything between two offsets."""
    return PositionLost(
        f"stream queue {queue} no longer has offsets {before + 1} to {after - 1}: its retention has removed them",
        earliest=after + 1,
    )
