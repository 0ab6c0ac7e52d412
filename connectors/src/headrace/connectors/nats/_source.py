"""The `nats` source: reads a JetStream stream by its sequences, from the position in the checkpoint."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain, pairwise
from secrets import token_hex
from typing import NoReturn

import nats.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamConfig, StreamInfo

from headrace.connectors.nats._client import Client
from headrace.connectors.nats._columns import Delivered, batch_of, delivered
from headrace.connectors.nats._connection import api, jetstream, stream_info
from headrace.connectors.nats._errors import NatsAway, NatsRefused
from headrace.connectors.nats._jetstream_source import JetStreamSource
from headrace.connectors.nats._parameters import NatsParameters
from headrace.connectors.nats._pull import Pull
from headrace.sdk import Backlog, Batch, Position, PositionLost

_INACTIVE_SECONDS = 60.0


@dataclass(slots=True)
class _Reading:
    """The progress of reading a partition.

    Attributes:
        subjects: The subjects to read; empty for all.
        after: The sequence of the last message that was yielded or is in the checkpoint; None before the first.
        stream: Distinguishes the stream from another one of its name; None if that is not known yet.
        skips: Whether to skip lost messages.
        pending: The number of messages that were left after the last yielded one.
    """

    subjects: Sequence[str]
    after: int | None
    stream: bytes | None
    skips: bool = False
    pending: int = 0


class NatsSource(JetStreamSource[NatsParameters, _Reading]):
    """Reads a stream with ephemeral consumers that begin after the last message, and acknowledge nothing.

    The sequence of a message is that of the stream. The cursor is the creation time of the stream: if that changes, its sequences
    have started over.
    """

    connector = "nats"

    def __init__(self, parameters: NatsParameters) -> None:
        """Creates the source, without connecting."""
        super().__init__(parameters)
        self._readings: dict[str, _Reading] = {}
        self._acknowledged: dict[str, Position] = {}

    async def partitions(self) -> Sequence[str]:
        """Returns one partition for the stream, or one for each of the subjects."""
        return list(self._parameters.partitions)

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Remembers the position that is reported before reading: if losses should be skipped, `read` gets no position."""
        if partition not in self._readings:
            self._acknowledged[partition] = position

    async def read(self, partition: str, position: Position | None) -> AsyncGenerator[Batch | None, None]:
        """Yields the messages that have arrived, as batches."""
        seen = self._acknowledged.pop(partition, None) if position is None else position
        reading = self._readings[partition] = _Reading(
            self._parameters.partitions[partition],
            after=seen.sequence if seen else None,
            stream=seen.cursor if seen else None,
            skips=seen is not None and position is None,
        )
        try:
            async with aclosing(self._reconnecting(partition, reading)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            del self._readings[partition]

    async def _consume(self, client: Client, reading: _Reading, /) -> AsyncGenerator[Batch | None, None]:
        """Yields messages, using one connection and one consumer."""
        self._check(await stream_info(client, self._parameters), reading)
        manager = jetstream(client, self._parameters.domain)
        consumer = await manager.add_consumer(self._parameters.stream, _consumer(reading, self.name))
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
                    yield batch_of(messages, self._parameters, times=told.times, sequences=told.sequences, cursor=reading.stream)
                    if not told.pending and not pull.ready:
                        yield None
        finally:
            # The answer does not matter: the server would also remove the consumer itself, but later.
            with contextlib.suppress(nats.errors.Error):
                stream, prefix = self._parameters.stream, api(self._parameters.domain)
                await client.publish(f"{prefix}.CONSUMER.DELETE.{stream}.{consumer.name}")

    def _check(self, info: StreamInfo, reading: _Reading) -> None:
        """Checks that a stream still has the messages after those that were read.

        Raises:
            PositionLost: Some of them were removed.
            NatsRefused: The stream is not suitable for this connector.
        """
        check_retention(info)
        name, first, last = self._parameters.stream, info.state.first_seq, info.state.last_seq
        created = info.created.isoformat().encode() if info.created else b""
        if reading.after is not None:
            if reading.stream not in (None, created):
                _begins_again(f"stream {name} was deleted and recreated", reading)
            if last < reading.after:
                _begins_again(f"stream {name} ends with message {last}", reading)
            if first > reading.after + 1 and not _compacts(info.config):
                if not reading.skips:
                    raise _lost(name, reading, reading.after + 1, first - 1, first)
                reading.after = first - 1
        reading.stream, reading.skips = created, False

    async def _check_gaps(self, client: Client, reading: _Reading, told: Delivered) -> None:
        """Checks that no messages have expired while they waited to be read.

        Gaps alone prove nothing: other subjects are skipped, and messages may be deleted individually.

        Raises:
            PositionLost: Some messages have expired.
        """
        if reading.after is None or told.sequences[-1] - reading.after == len(told.sequences):
            return
        if reading.subjects and not reading.pending:
            # No message of these subjects was left: messages that were removed since then count as messages of other subjects.
            return
        info = await stream_info(client, self._parameters)
        first = info.state.first_seq
        if first <= reading.after + 1 or _compacts(info.config):
            return
        for before, sequence in pairwise(chain([reading.after], told.sequences)):
            if before + 1 < min(first, sequence):
                raise _lost(self._parameters.stream, reading, before + 1, min(first, sequence) - 1, first)

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
        raise NatsAway(f"{client.where}: {reading.pending} messages are left, and do not arrive")


def _consumer(reading: _Reading, source: str) -> ConsumerConfig:
    """Creates an ephemeral consumer for the unread messages."""
    config = ConsumerConfig(
        name=f"headrace-{token_hex(8)}",
        description=f"Headrace source {source}",
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_INACTIVE_SECONDS,
        num_replicas=1,
        mem_storage=True,
    )
    if reading.after is not None:
        config = config.evolve(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=reading.after + 1)
    if len(reading.subjects) == 1:
        return config.evolve(filter_subject=reading.subjects[0])
    return config.evolve(filter_subjects=list(reading.subjects) or None)


def _compacts(config: StreamConfig) -> bool:
    """Returns whether a stream drops only messages that newer ones of the same subject replace."""
    bounds = (config.max_msgs, config.max_bytes, config.max_age)
    return config.max_msgs_per_subject > 0 and not any(bound is not None and bound > 0 for bound in bounds)


def _lost(stream: str, reading: _Reading, first: int, last: int, earliest: int) -> PositionLost:
    """Returns the error for removed messages."""
    text = f"stream {stream} no longer has messages {first} to {last}: they expired, or were purged"
    if reading.subjects:
        text += "; it is unknown whether any of them had one of the subjects that are read"
    return PositionLost(text, earliest=earliest)


def _begins_again(what: str, reading: _Reading) -> NoReturn:
    """Raises the error for a stream that is not the one that was read, despite its name.

    Skipping does not help: all new messages up to the old position would be mistaken for those that were read.
    """
    text = f"{what}, though message {reading.after} was read: its sequences have started over"
    if reading.skips:
        raise NatsRefused(f"{text}; give the source another name, and its query another checkpoint")
    raise PositionLost(text)
