"""The `nats` source: reads a JetStream stream by its sequences, from the position in the checkpoint."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import NoReturn

from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig, StreamInfo

from headrace.connectors._parameters import start_of
from headrace.connectors.nats._errors import NatsAway, NatsRefused
from headrace.connectors.nats._parameters import NatsParameters
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.columns import Delivered, batch_of, delivered
from headrace.connectors.nats.connection import connected, jetstream, server_time, stream_info
from headrace.connectors.nats.ephemeral import consumer_of, discard, sequence_before
from headrace.connectors.nats.jetstream_source import JetStreamSource
from headrace.connectors.nats.pull import Pull
from headrace.connectors.retry import Retry
from headrace.contract.counts import counted
from headrace.sdk import Backlog, Batch, Position, PositionLost


@dataclass(slots=True)
class _Reading:
    """The progress of reading a partition.

    Attributes:
        subjects: The subjects to read; empty for all.
        after: The sequence of the last message that was yielded or is in the checkpoint; None before the first.
        stream: Distinguishes the stream from another one of its name; None if that is not known yet.
        skips: Whether to skip lost messages.
        time: When that message was stored, in microseconds since 1970-01-01 UTC; None if that is not known.
        pending: The number of messages that were left after the last yielded one.
    """

    subjects: Sequence[str]
    after: int | None
    stream: bytes | None
    skips: bool = False
    time: int | None = None
    pending: int = 0

    @property
    def cursor(self) -> bytes:
        """What a position has besides the sequence: which stream it is, and when its message was stored."""
        return (self.stream or b"") + (b"" if self.time is None else b" %d" % self.time)


class NatsSource(JetStreamSource[NatsParameters, _Reading]):
    """Reads a stream with ephemeral consumers that begin after the last message, and acknowledge nothing.

    The sequence of a message is the stream's. The cursor is the creation time of the stream: if that changes, its sequences
    have started over. After a space follows the time at which the message was stored.
    """

    connector = "nats"

    def __init__(self, parameters: NatsParameters) -> None:
        """Creates the source, without connecting."""
        super().__init__(parameters)
        self.chooses_start = parameters.start != "earliest"
        self._readings: dict[str, _Reading] = {}
        self._acknowledged: dict[str, Position] = {}

    async def partitions(self) -> Sequence[str]:
        """Returns one partition for the stream, or one for each of the subjects."""
        return list(self._parameters.partitions)

    async def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """Returns where `start` is in the stream, by its own index; waits for the server."""
        retry = Retry(f"start of stream {self._parameters.stream}", self)
        while True:
            try:
                async with connected(self._parameters) as client:
                    found = {
                        partition: await self._start(client, self._parameters.partitions[partition]) for partition in partitions
                    }
                    retry.connected()
                    return found
            except NatsAway as error:
                await retry.wait(error)

    async def _start(self, client: Client, subjects: Sequence[str]) -> Position:
        info, start = await stream_info(client, self._parameters), start_of(self._parameters.start)
        check_retention(info)
        if isinstance(start, datetime):
            sequence = await sequence_before(client, self._parameters, subjects, info.config, start)
        else:
            sequence = info.state.last_seq
        return Position(sequence=sequence, cursor=_created(info))

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Remembers the position that is reported before reading: if losses should be skipped, `read` gets no position."""
        if partition not in self._readings:
            self._acknowledged[partition] = position

    async def read(self, partition: str, position: Position | None) -> AsyncGenerator[Batch | None, None]:
        """Yields the messages that have arrived, as batches."""
        seen = self._acknowledged.pop(partition, None) if position is None else position
        stream, _, time = (seen.cursor or b"" if seen else b"").partition(b" ")
        reading = self._readings[partition] = _Reading(
            self._parameters.partitions[partition],
            after=seen.sequence if seen else None,
            stream=stream or None,
            skips=seen is not None and position is None,
            time=int(time) if time.isdigit() else None,
        )
        try:
            async with aclosing(self._reconnecting(partition, reading)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            del self._readings[partition]

    async def _consume(self, client: Client, reading: _Reading, /) -> AsyncGenerator[Batch | None, None]:
        """Yields messages, using one connection and one consumer."""
        info = await stream_info(client, self._parameters)
        await self._check(client, info, reading)
        manager = jetstream(client, self._parameters.domain)
        consumer = await manager.add_consumer(
            self._parameters.stream, consumer_of(reading.subjects, self.name, info.config, after=reading.after)
        )
        reading.pending = consumer.num_pending or 0
        if not reading.pending:
            yield None
        place = 0
        try:
            async with Pull(client, self._parameters, consumer.name) as pull:
                while True:
                    messages = await pull.take()
                    if not messages:
                        _check_silence(client, reading)
                        continue
                    told = delivered(messages)
                    if (told.first_place, told.last_place) != (place + 1, place + len(messages)):
                        raise NatsAway(f"{client.where}: messages of consumer {consumer.name} were lost in transit")
                    await self._check_gaps(client, reading, told)
                    place, reading.after, reading.pending = told.last_place, told.sequences[-1], told.pending
                    reading.time = told.times[-1]
                    yield batch_of(messages, self._parameters, times=told.times, sequences=told.sequences, cursor=reading.cursor)
                    if not told.pending and not pull.ready:
                        yield None
        finally:
            await discard(client, self._parameters, consumer.name)

    async def _check(self, client: Client, info: StreamInfo, reading: _Reading) -> None:
        """Checks that a stream still has the messages after the last one that was read.

        Raises:
            PositionLost: Some of them were removed.
            NatsRefused: The stream is not suitable for this connector.
        """
        check_retention(info)
        name, first, last = self._parameters.stream, info.state.first_seq, info.state.last_seq
        created = _created(info)
        if reading.after is not None:
            if reading.stream not in (None, created):
                _begins_again(f"stream {name} was deleted and recreated", reading)
            if last < reading.after:
                _begins_again(f"stream {name} ends with message {last}", reading)
            if first > reading.after + 1 and await self._loses(client, info.config, reading):
                if not reading.skips:
                    raise _loss(info.config, reading, reading.after + 1, first - 1, first)
                reading.after = first - 1
        reading.stream, reading.skips = created, False

    async def _check_gaps(self, client: Client, reading: _Reading, delivery: Delivered) -> None:
        """Checks that no messages have expired while they waited to be read.

        Gaps alone prove nothing: other subjects are skipped, and messages may be deleted individually.

        Raises:
            PositionLost: Some messages have expired.
        """
        if reading.after is None or delivery.sequences[-1] - reading.after == len(delivery.sequences):
            return
        if reading.subjects and not reading.pending:
            # No message of these subjects was left: messages that were removed since then count as messages of other subjects.
            return
        info = await stream_info(client, self._parameters)
        first = info.state.first_seq
        if first <= reading.after + 1 or not await self._loses(client, info.config, reading):
            return
        for before, sequence in pairwise(chain([reading.after], delivery.sequences)):
            if before + 1 < min(first, sequence):
                raise _loss(info.config, reading, before + 1, min(first, sequence) - 1, first)

    async def _loses(self, client: Client, config: StreamConfig, reading: _Reading) -> bool:
        """Returns whether messages after the last one that was read may have gone without newer ones of their subjects."""
        bounds = _bounds(config)
        if config.max_msgs_per_subject > 0 and not bounds:
            return False
        if config.max_msgs_per_subject > 0 and list(bounds) == ["max_age"] and reading.time is not None:
            # They are younger than the last one. If it could not expire so far, none of them could.
            now = await server_time(client, self._parameters)
            return now is None or now - reading.time >= (config.max_age or 0) * 1_000_000
        return True

    async def backlog(self, partition: str) -> Backlog:
        """Returns the number of messages that the consumer has left."""
        return Backlog(messages=self._readings[partition].pending)


def check_retention(info: StreamInfo) -> None:
    """Checks that a stream keeps acknowledged messages.

    Raises:
        NatsRefused: It removes them.
    """
    if info.config.retention not in (None, RetentionPolicy.LIMITS):
        raise NatsRefused(
            f"stream {info.config.name} has {info.config.retention} retention, which removes acknowledged messages; "
            "read it with the connector nats-consumer"
        )


def _check_silence(client: Client, reading: _Reading) -> None:
    """Checks that a silent server has no messages left: they may have expired, or been purged.

    Raises:
        NatsAway: It reported more messages. Another consumer will find out what happened to them.
    """
    if reading.pending:
        raise NatsAway(f"{client.where}: {counted(reading.pending, 'message')} did not arrive")


def _created(info: StreamInfo) -> bytes:
    """Returns what distinguishes a stream from a later one of the same name."""
    return info.created.isoformat().encode() if info.created else b""


def _bounds(config: StreamConfig) -> dict[str, str]:
    """Returns the limits of a stream for which it removes messages that no newer ones replace, with their values."""
    bounds = {}
    if config.max_age:
        bounds["max_age"] = f"{config.max_age:g} s"
    # Otherwise it refuses new messages.
    if config.discard != DiscardPolicy.NEW:
        for name, value in (("max_msgs", config.max_msgs), ("max_bytes", config.max_bytes)):
            if value is not None and value > 0:
                bounds[name] = str(value)
    return bounds


def _loss(config: StreamConfig, reading: _Reading, first: int, last: int, earliest: int) -> PositionLost:
    """Returns the error for removed messages."""
    causes = [f"{name} = {value}" for name, value in _bounds(config).items()]
    if config.allow_rollup_hdrs:
        causes.append("a message with Nats-Rollup")
    causes.append("a purge")
    text = f"stream {config.name} no longer has messages {first} to {last}: {' or '.join(causes)} has removed them"
    if reading.subjects:
        text += "; it is unknown whether any of them had one of the subjects that are read"
    return PositionLost(text, earliest=earliest)


def _begins_again(what: str, reading: _Reading) -> NoReturn:
    """Raises the error for a stream that is not the one that was read, despite its name.

    Skipping does not help: all new messages up to the old position would be mistaken for messages that were read.
    """
    text = f"{what}, though message {reading.after} was read: its sequences have started over"
    if reading.skips:
        raise NatsRefused(f"{text}; give the source another name, and its query another checkpoint")
    raise PositionLost(text)
