"""The `nats` source: JetStream, read by the sequences of a stream, from wherever the checkpoint says."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain, pairwise
from secrets import token_hex
from typing import NoReturn

import nats.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamConfig, StreamInfo

from headrace.connectors._bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.nats._client import Client
from headrace.connectors.nats._columns import Delivered, batch_of, delivered
from headrace.connectors.nats._connection import api, connected, jetstream, stream_info
from headrace.connectors.nats._errors import NatsAway, NatsRefused
from headrace.connectors.nats._parameters import NatsParameters
from headrace.connectors.nats._pull import Pull
from headrace.connectors.nats._retry import Retry
from headrace.sdk import Backlog, Batch, Position, PositionLost

_INACTIVE_SECONDS = 60.0


@dataclass(slots=True)
class _Reading:
    """How far a partition has been read.

    Attributes:
        subjects: The subjects to read; empty for all.
        after: The sequence of the last message that was yielded, or is in the checkpoint; None before the first.
        stream: What tells the stream from another one of its name; None where that is not known yet.
        skips: Whether what is lost is to be skipped.
        pending: How many messages were left, after the last that was yielded.
    """

    subjects: Sequence[str]
    after: int | None
    stream: bytes | None
    skips: bool = False
    pending: int = 0


class NatsSource(PolicySource):
    """Reads a stream by ephemeral consumers that begin after the last message, and acknowledge nothing.

    The sequence of a message is that of the stream. The cursor is when the stream was created: if that changes, its sequences
    have begun again.
    """

    connector = "nats"
    version = "0.1.0"
    idle_seconds = 0.0

    def __init__(self, parameters: NatsParameters) -> None:
        """Connects to nothing yet."""
        self.name = parameters.source
        self._parameters = parameters
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._readings: dict[str, _Reading] = {}
        self._acknowledged: dict[str, Position] = {}

    async def partitions(self) -> Sequence[str]:
        """The stream, or each of the subjects."""
        return list(self._parameters.partitions)

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Remembers what is told before reading: where losses are to be skipped, `read` is given no position."""
        if partition not in self._readings:
            self._acknowledged[partition] = position

    async def read(self, partition: str, position: Position | None) -> AsyncGenerator[Batch | None, None]:
        """Yields a batch for what has arrived; connects again, with backoff, for as long as it takes."""
        seen = self._acknowledged.pop(partition, None) if position is None else position
        reading = self._readings[partition] = _Reading(
            self._parameters.partitions[partition],
            after=seen.sequence if seen else None,
            stream=seen.cursor if seen else None,
            skips=seen is not None and position is None,
        )
        retry = Retry(f"stream {self.name}/{partition}")
        try:
            while True:
                try:
                    async with connected(self._parameters) as client, aclosing(self._consume(client, reading)) as batches:
                        async for batch in batches:
                            retry.succeeded()
                            yield batch
                except NatsAway as error:
                    await retry.wait(error)
        finally:
            del self._readings[partition]

    async def _consume(self, client: Client, reading: _Reading) -> AsyncGenerator[Batch | None, None]:
        """Yields what comes, by way of one connection and one consumer."""
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
                        raise NatsAway(f"{client.where}: messages of consumer {consumer.name} were lost on their way")
                    await self._check_gaps(client, reading, told)
                    place, reading.after, reading.pending = told.last_place, told.sequences[-1], told.pending
                    yield batch_of(messages, self._parameters, times=told.times, sequences=told.sequences, cursor=reading.stream)
                    if not told.pending and not pull.ready:
                        yield None
        finally:
            # Nobody waits for the answer: the server removes it by itself, too, only later.
            with contextlib.suppress(nats.errors.Error):
                stream, prefix = self._parameters.stream, api(self._parameters.domain)
                await client.publish(f"{prefix}.CONSUMER.DELETE.{stream}.{consumer.name}")

    def _check(self, info: StreamInfo, reading: _Reading) -> None:
        """Sees that a stream still has what comes after what was read.

        Raises:
            PositionLost: It has not.
            NatsRefused: It is not fit for this connector.
        """
        check_retention(info)
        name, first, last = self._parameters.stream, info.state.first_seq, info.state.last_seq
        created = info.created.isoformat().encode() if info.created else b""
        if reading.after is not None:
            if reading.stream not in (None, created):
                _begins_again(f"stream {name} was deleted and created anew", reading)
            if last < reading.after:
                _begins_again(f"stream {name} ends with message {last}", reading)
            if first > reading.after + 1 and not _compacts(info.config):
                if not reading.skips:
                    raise _lost(name, reading, reading.after + 1, first - 1, first)
                reading.after = first - 1
        reading.stream, reading.skips = created, False

    async def _check_gaps(self, client: Client, reading: _Reading, told: Delivered) -> None:
        """Sees that no messages have expired while they waited to be read.

        Gaps alone say nothing: other subjects are left out, and messages may be deleted one by one.

        Raises:
            PositionLost: Some have.
        """
        if reading.after is None or told.sequences[-1] - reading.after == len(told.sequences):
            return
        if reading.subjects and not reading.pending:
            # None of these subjects was left: what has gone since is taken for messages of others.
            return
        info = await stream_info(client, self._parameters)
        first = info.state.first_seq
        if first <= reading.after + 1 or _compacts(info.config):
            return
        for before, sequence in pairwise(chain([reading.after], told.sequences)):
            if before + 1 < min(first, sequence):
                raise _lost(self._parameters.stream, reading, before + 1, min(first, sequence) - 1, first)

    async def backlog(self, partition: str) -> Backlog:
        """What the consumer has left."""
        return Backlog(messages=self._readings[partition].pending)


def check_retention(info: StreamInfo) -> None:
    """Sees that a stream keeps what somebody has acknowledged.

    Raises:
        NatsRefused: It does not.
    """
    if info.config.retention not in (None, RetentionPolicy.LIMITS):
        raise NatsRefused(
            f"stream {info.config.name} has {info.config.retention} retention, so that what is acknowledged is gone from it; "
            "read it with the connector nats-consumer"
        )


def _check_silence(client: Client, reading: _Reading) -> None:
    """Sees that a server that sends nothing has nothing: what it had may have expired, or been purged.

    Raises:
        NatsAway: It said that it had more. Another consumer will tell what has become of it.
    """
    if reading.pending:
        raise NatsAway(f"{client.where}: {reading.pending} messages are left, and do not come")


def _consumer(reading: _Reading, source: str) -> ConsumerConfig:
    """An ephemeral consumer of what is still to be read."""
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
    """Whether a stream only ever drops messages that newer ones of their subject take the place of."""
    bounds = (config.max_msgs, config.max_bytes, config.max_age)
    return config.max_msgs_per_subject > 0 and not any(bound is not None and bound > 0 for bound in bounds)


def _lost(stream: str, reading: _Reading, first: int, last: int, earliest: int) -> PositionLost:
    """What to say of messages that are gone."""
    text = f"stream {stream} no longer has messages {first} to {last}: they expired, or were purged"
    if reading.subjects:
        text += "; whether any was of the subjects that are read cannot be told"
    return PositionLost(text, earliest=earliest)


def _begins_again(what: str, reading: _Reading) -> NoReturn:
    """Raises what is to be said of a stream that is not the one that was read, whatever it is called.

    Skipping does not help: all new messages up to the old position would be taken for those that were read.
    """
    text = f"{what}, though message {reading.after} was read: its sequences begin again"
    if reading.skips:
        raise NatsRefused(f"{text}; give the source another name, and its query another checkpoint")
    raise PositionLost(text)
