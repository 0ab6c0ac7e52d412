"""The `nats-consumer` source: a durable consumer, whose messages are acknowledged once they are in the checkpoint."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import cast

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, RetentionPolicy, StreamInfo
from nats.js.errors import NotFoundError

from headrace.connectors.nats._errors import NatsRefused
from headrace.connectors.nats._parameters import NatsConsumerParameters
from headrace.connectors.nats.ack_deadlines import ack_wait, extending
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.columns import Delivered, batch_of, delivered
from headrace.connectors.nats.connection import consumer_config, jetstream, stream_info
from headrace.connectors.nats.consumer_check import check_consumer, described
from headrace.connectors.nats.jetstream_source import JetStreamSource
from headrace.connectors.nats.pull import Pull, PullLimits
from headrace.connectors.nats.unsettled import Unsettled, give_back
from headrace.connectors.waiting import fine, goes_on, is_near, waits, warns
from headrace.contract.counts import counted
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, SourceKind

log = logging.getLogger(__name__)

_GIVE_UP = b"+TERM"
_DEFAULT_ACK_PENDING = 20_000
_PAUSE = "pause"
_LIMIT = "max_deliver"


class NatsConsumerSource(JetStreamSource[NatsConsumerParameters, Unsettled]):
    """Reads a durable pull consumer, and acknowledges each message individually.

    Cumulative acknowledgements would be cheaper, but would lose messages, because redelivered messages arrive after later ones.
    """

    connector = "nats-consumer"
    kind = SourceKind.REDELIVERING

    def __init__(self, parameters: NatsConsumerParameters) -> None:
        """Creates the source, without connecting."""
        super().__init__(parameters)
        self._what = described(parameters)
        self._settled: dict[int, None] = {}
        self._unsettled = Unsettled(self._settled)
        self._created: datetime | None = None
        self._earlier: Position | None = None
        self._cursor = b""
        self._pending = 0
        self._limit = 0
        self._endangered: set[int] = set()

    async def partitions(self) -> Sequence[str]:
        """Returns the stream."""
        return [self._parameters.partition]

    async def read(self, partition: str, position: Position | None) -> AsyncGenerator[Batch | None, None]:
        """Yields the messages that have arrived, as batches."""
        self._unsettled = unsettled = Unsettled(self._settled)
        self._earlier = position
        self._no_longer_endangered(list(self._endangered))
        try:
            async with aclosing(self._reconnecting(partition, unsettled)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            unsettled.close()

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Acknowledges messages, and waits for the server's confirmation; if the server is unavailable, once it is back."""
        await self._unsettled.settle(cast("Sequence[int]", tokens))
        self._no_longer_endangered(cast("Sequence[int]", tokens))

    def _no_longer_endangered(self, sequences: Sequence[int]) -> None:
        if self._endangered:
            self._endangered.difference_update(sequences)
            if not self._endangered:
                fine(self, _LIMIT)

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Skips a message, and tells the server not to redeliver it."""
        await super().unsendable(partition, message, error)
        await self._unsettled.settle([cast("int", message.token)], _GIVE_UP)
        self._no_longer_endangered([cast("int", message.token)])

    async def backlog(self, partition: str) -> Backlog:
        """Returns the number of messages that the consumer has left."""
        return Backlog(messages=self._pending)

    async def _consume(self, client: Client, unsettled: Unsettled, /) -> AsyncGenerator[Batch | None, None]:
        """Yields messages, using one connection."""
        consumer = await self._ready(client)
        self._pending = consumer.num_pending or 0
        config = await consumer_config(client, self._parameters, self._parameters.consumer)
        if config.get("priority_groups"):
            raise NatsRefused(f"{self._what} has priority_groups, which this connector does not use; name another one")
        pull = Pull(client, self._parameters, self._parameters.consumer, PullLimits.of(config))
        unsettled.connected(client)
        leaving = True
        try:
            async with pull, extending(client, pull, unsettled, consumer.config):
                if not self._pending:
                    yield None
                while True:
                    arrived = await pull.take()
                    if not arrived:
                        await self._look(client)
                        yield None
                        continue
                    goes_on(self, _PAUSE)
                    messages, told = await unsettled.admit(client, arrived, delivered(arrived))
                    self._pending = told.pending
                    if messages:
                        self._see_limit(told)
                        yield self._batch(messages, told)
                    if not told.pending and not pull.ready:
                        yield None
        except Exception:
            leaving = False
            raise
        finally:
            # A new connection acknowledges what was yielded; an ended session does not.
            replies = [message.reply for message in pull.left]
            await give_back(client, [*unsettled.replies, *replies] if leaving else replies)

    async def _look(self, client: Client) -> None:
        """Requests the number of messages left: some may have expired or been purged, or another reader may have them."""
        if self._pending:
            manager = jetstream(client, self._parameters.domain)
            info = await manager.consumer_info(self._parameters.stream, self._parameters.consumer)
            self._pending = info.num_pending or 0
            if info.paused:
                waits(self, _PAUSE, f"{self._what} is paused until {info.config.pause_until}; resume it, or wait")
            else:
                goes_on(self, _PAUSE)

    def _see_limit(self, delivery: Delivered) -> None:
        """Warns of messages that the server gives up soon: it counts each lost session."""
        limit = self._limit
        if limit <= 0:
            return
        counts = zip(delivery.sequences, map(int, delivery.deliveries), strict=True)
        near = {sequence: count for sequence, count in counts if is_near(count, limit)}
        if not near:
            return
        reason = (
            f"{self._what} has delivered a message {max(near.values())} times, and its max_deliver is {limit}: after that, the "
            "server delivers it no more, acknowledged or not; find out why the connector loses its sessions, or raise max_deliver"
        )
        if not self._endangered:
            log.warning("%s", reason)
        self._endangered |= near.keys()
        warns(self, _LIMIT, reason)

    def _batch(self, messages: Sequence[Msg], delivery: Delivered) -> Batch:
        """Converts messages to a batch."""
        return batch_of(
            messages,
            self._parameters,
            times=delivery.times,
            cursor=self._cursor,
            ids=[f"{self._parameters.stream}/{sequence}" for sequence in delivery.sequences],
            deliveries=delivery.deliveries,
            tokens=delivery.sequences,
        )

    async def _ready(self, client: Client) -> ConsumerInfo:
        """Returns the consumer; creates it if `create` is set.

        Raises:
            NatsRefused: It does not exist, or is not suitable for this connector.
        """
        stream = await stream_info(client, self._parameters)
        manager = jetstream(client, self._parameters.domain)
        try:
            info: ConsumerInfo = await manager.consumer_info(self._parameters.stream, self._parameters.consumer)
        except NotFoundError:
            self._check_earlier(client, None)
            info = await manager.add_consumer(self._parameters.stream, self._config(client, stream))
            self._tell_created(stream)
        check_consumer(info, self._parameters)
        self._limit = info.config.max_deliver or 0
        cursor = _identity(info)
        if self._created is None:
            self._check_earlier(client, cursor)
            self._tell(info, stream)
        elif self._created != info.created:
            # Sequences may have started over: continuing could mistake new messages for old ones.
            raise self._deleted(client)
        self._created, self._cursor = info.created, cursor
        return info

    def _check_earlier(self, client: Client, cursor: bytes | None) -> None:
        """Checks that the consumer is the one whose messages are in a checkpoint; `cursor` is None if there is no consumer.

        Raises:
            NatsRefused: It is another one, and `new_consumer` does not accept it.
        """
        earlier = self._earlier
        if earlier is None or (cursor is not None and earlier.cursor in (None, cursor)):
            return
        what = "no longer exists" if cursor is None else "is not the one whose messages are in a checkpoint"
        begins = "a new one begins" if cursor is None else "one that is created begins"
        text = (
            f"{client.where}: {self._what} {what}: it was deleted while nobody read it; {begins} with the first message that the "
            "stream still has, so messages come again, and with interest retention those stored meanwhile are gone"
        )
        if self._parameters.new_consumer == "refuse":
            raise NatsRefused(f'{text}; set new_consumer = "accept" to read it all the same')
        log.warning('%s; new_consumer is "accept", it is read', text)

    def _deleted(self, client: Client) -> NatsRefused:
        """Returns the error if the consumer no longer exists, or is a different one."""
        return NatsRefused(
            f'{client.where}: {self._what} was deleted while it was read; restart the connector, with new_consumer = "accept" if '
            "messages of it are in a checkpoint: a recreated consumer begins with the first message that the stream still has"
        )

    def _tell_created(self, stream: StreamInfo) -> None:
        """Logs where a new consumer begins: one that was deleted while nobody read it has left no trace."""
        if not stream.state.messages:
            log.info("%s: created", self._what)
            return
        log.warning(
            "%s: created, it begins with the first of %s that the stream has; if it was there before, it was deleted "
            "meanwhile, and messages that it had acknowledged come again", self._what, counted(stream.state.messages, "message"),
        )  # fmt: skip

    def _tell(self, info: ConsumerInfo, stream: StreamInfo) -> None:
        """Logs warnings about a consumer before it is read."""
        config = info.config
        if config.inactive_threshold:
            effect = "messages that are stored meanwhile are lost to it, and" if _forgets(stream) else "afterwards"
            reason = (
                f"{self._what}: the server deletes it once nobody has read it for {config.inactive_threshold:g} s "
                f"(inactive_threshold): {effect} a new one begins with the first message that the stream still has"
            )
            log.warning("%s", reason)
            if _forgets(stream):
                warns(self, self._what, reason)
        if info.num_ack_pending:
            log.warning(
                "%s: %s unacknowledged by other readers; a killed reader's messages are redelivered within %.0f s",
                self._what, counted(info.num_ack_pending, "message", "is"), ack_wait(config),
            )  # fmt: skip
        if config.max_deliver and config.max_deliver > 0:
            log.warning("%s: the server stops redelivering a message after %d deliveries", self._what, config.max_deliver)

    def _config(self, client: Client, stream: StreamInfo) -> ConsumerConfig:
        """Returns the configuration of a new consumer."""
        parameters = self._parameters
        if self._created is not None:
            raise self._deleted(client)
        if not parameters.create:
            raise NatsRefused(f"{client.where}: there is no {self._what}; create it, or set create = true")
        config = ConsumerConfig(
            name=parameters.consumer,
            durable_name=parameters.consumer,
            description=f"Headrace source {self.name}",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=parameters.ack_wait_seconds,
            max_ack_pending=self._max_ack_pending(stream),
        )
        if len(parameters.subjects) == 1:
            return config.evolve(filter_subject=parameters.subjects[0])
        return config.evolve(filter_subjects=list(parameters.subjects) or None)

    def _max_ack_pending(self, stream: StreamInfo) -> int:
        """Returns the `max_ack_pending` of a new consumer.

        Raises:
            NatsRefused: The stream does not allow it.
        """
        wanted, limits = self._parameters.max_ack_pending, stream.config.consumer_limits
        limit = (limits and limits.max_ack_pending) or 0
        if limit <= 0:
            return wanted or _DEFAULT_ACK_PENDING
        if wanted is not None and wanted > limit:
            raise NatsRefused(
                f"max_ack_pending is {wanted}, and consumer_limits of stream {self._parameters.stream} allow {limit}; lower the "
                "parameter, or raise the limit"
            )
        return min(wanted or _DEFAULT_ACK_PENDING, limit)


def _forgets(stream: StreamInfo) -> bool:
    """Returns whether a stream keeps no messages for a consumer that is not there."""
    return stream.config.retention == RetentionPolicy.INTEREST


def _identity(info: ConsumerInfo) -> bytes:
    """Returns what tells a consumer from one that is created under the same name later."""
    created = info.created
    return b"" if created is None else created.astimezone(UTC).isoformat(timespec="microseconds").encode()
