"""Delivered, unacknowledged messages: acknowledges them, extends their deadlines, and returns them."""

import asyncio
import contextlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress, islice

import nats.errors
from nats.aio.msg import Msg

from headrace.connectors.nats._errors import NatsAway
from headrace.connectors.nats.client import Client, heed_cancellation
from headrace.connectors.nats.columns import Delivered

_PAUSE_EVERY = 1000
_REMEMBERED = 50_000
_FLUSH_S = 5
_GIVE_BACK_S = 2


class Unsettled:
    """The messages of one session, by their sequences in the stream.

    They outlive connections: any connection may acknowledge them.
    """

    def __init__(self, settled: dict[int, None]) -> None:
        """Creates an empty set without a connection.

        Args:
            settled: The messages that were acknowledged last, also in earlier sessions. They may still be redelivered, if the
                server did not receive the acknowledgement, or had already sent them.
        """
        self._replies: dict[int, str] = {}
        self._settled = settled
        self._client: Client | None = None
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def replies(self) -> list[str]:
        """Their acknowledgement subjects."""
        return list(self._replies.values())

    def connected(self, client: Client) -> None:
        """Uses this connection for acknowledgements from now on."""
        self._client = client
        self._changed.set()

    def close(self) -> None:
        """Stops acknowledging."""
        self._closed = True
        self._changed.set()

    async def admit(self, client: Client, messages: Sequence[Msg], delivery: Delivered) -> tuple[Sequence[Msg], Delivered]:
        """Adds delivered messages; returns the new ones.

        A message that is redelivered although it is already here was in transit for too long, or its deadline could not be
        extended. A message that is redelivered although it is in the checkpoint is acknowledged again.
        """
        if self._replies.keys().isdisjoint(delivery.sequences) and self._settled.keys().isdisjoint(delivery.sequences):
            self._replies.update(zip(delivery.sequences, [message.reply for message in messages], strict=True))
            return messages, delivery
        fresh, again = [], []
        for sequence, message in zip(delivery.sequences, messages, strict=True):
            fresh.append(sequence not in self._replies and sequence not in self._settled)
            if sequence in self._settled:
                again.append(message.reply)
            else:
                self._replies[sequence] = message.reply
        await say(client, again, b"")
        return list(compress(messages, fresh)), replace(
            delivery,
            sequences=list(compress(delivery.sequences, fresh)),
            times=array("q", compress(delivery.times, fresh)),
            deliveries=list(compress(delivery.deliveries, fresh)),
        )

    async def settle(self, sequences: Iterable[int], what: bytes = b"") -> None:
        """Acknowledges messages, or ends them with another reply, and waits for the server's confirmation.

        Raises:
            NatsAway: The reader has ended, so there will be no further connection.
            NatsRefused: This user may not acknowledge.
        """
        tokens = [sequence for sequence in sequences if sequence in self._replies]
        while tokens:
            heed_cancellation()
            client = await self._connection()
            try:
                await say(client, [self._replies[token] for token in tokens], what)
                await client.flush(_FLUSH_S)
            except (nats.errors.Error, OSError, TimeoutError):
                continue
            client.check_allowed()
            self._forget(tokens)
            return

    def _forget(self, sequences: Sequence[int]) -> None:
        """Removes acknowledged messages; remembers the last ones."""
        for sequence in sequences:
            self._replies.pop(sequence, None)
            self._settled[sequence] = None
        for sequence in list(islice(self._settled, max(0, len(self._settled) - _REMEMBERED))):
            del self._settled[sequence]

    async def _connection(self) -> Client:
        """Returns the connection; waits until there is one."""
        while self._client is None or self._client.is_closed:
            if self._closed:
                raise NatsAway("messages could not be acknowledged before the reader ended; they will be redelivered")
            self._changed.clear()
            await self._changed.wait()
        return self._client


async def say(client: Client, replies: Sequence[str], what: bytes) -> None:
    """Sends a reply for messages: an empty text acknowledges them."""
    for place in range(0, len(replies), _PAUSE_EVERY):
        for reply in replies[place : place + _PAUSE_EVERY]:
            await client.publish(reply, what)
        await asyncio.sleep(0)


async def give_back(client: Client, replies: Sequence[str]) -> None:
    """Requests immediate redelivery, as far as this is possible now; otherwise messages are redelivered later."""
    with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
        await say(client, replies, b"-NAK")
        await client.flush(_GIVE_BACK_S)
