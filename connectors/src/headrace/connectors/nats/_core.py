"""The `nats-core` source: subscriptions without JetStream, by best effort."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence

from nats.aio.msg import Msg

from headrace.connectors._connector import VERSION
from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.nats._errors import NatsAway
from headrace.connectors.nats._parameters import NatsCoreParameters
from headrace.connectors.nats.client import heed_cancellation
from headrace.connectors.nats.columns import batch_of
from headrace.connectors.nats.connection import connected
from headrace.connectors.retry import Retry
from headrace.contract.counts import counted
from headrace.sdk import Backlog, Batch, Position, SourceKind

log = logging.getLogger(__name__)

_PARTITION = "0"
_BATCH_MESSAGES = 5000
_TELL_S = 10.0


class NatsCoreSource(PolicySource):
    """Reads subjects by best effort: messages are neither stored, acknowledged nor redelivered."""

    connector = "nats-core"
    version = VERSION
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.0

    def __init__(self, parameters: NatsCoreParameters) -> None:
        """Creates the source, without connecting."""
        self.name = parameters.source
        self._parameters = parameters
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._waiting: _Waiting | None = None

    async def partitions(self) -> Sequence[str]:
        """Returns the single partition."""
        return [_PARTITION]

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the messages that have arrived and are not read yet."""
        return None if self._waiting is None else self._waiting.backlog()

    async def read(self, partition: str, position: Position | None) -> AsyncGenerator[Batch | None, None]:
        """Yields the messages that have arrived, as batches; reconnects with backoff, without limit.

        Raises:
            NatsRefused: The server rejects this client, or a subscription.
        """
        stream = f"stream {self.name}/{partition}"
        retry = Retry(f"{stream}, which loses messages sent in the meantime", self)
        waiting = self._waiting = _Waiting(self._parameters, stream)
        while True:
            try:
                async with connected(self._parameters) as client:
                    client.watchers.append(waiting.wake.set)
                    for subject in self._parameters.subjects:
                        await client.subscribe(
                            subject,
                            queue=self._parameters.queue_group or "",
                            cb=waiting.add,
                            # Waiting messages are bounded and counted in one place, not in nats-py.
                            pending_msgs_limit=0,
                            pending_bytes_limit=0,
                        )
                    await client.flush()
                    client.check_allowed()
                    retry.connected()
                    while waiting.messages or not client.lost:
                        heed_cancellation()
                        if not waiting.messages:
                            yield None
                            await waiting.wake.wait()
                        if messages := waiting.take():
                            yield batch_of(messages, self._parameters)
                    raise client.loss
            except NatsAway as error:
                await retry.wait(error)


class _Waiting:
    """Messages that wait for Spark, up to a limit."""

    def __init__(self, parameters: NatsCoreParameters, stream: str) -> None:
        """Creates an empty buffer.

        Args:
            parameters: The limits.
            stream: The stream that loses messages if there are too many, for the log.
        """
        self.messages: list[Msg] = []
        self.wake = asyncio.Event()
        self._bytes = 0
        self._max_messages, self._max_bytes = parameters.buffer_messages, parameters.buffer_bytes
        self._stream = stream
        self._dropped = self._logged_drops = 0
        self._tell_at = 0.0

    async def add(self, message: Msg) -> None:
        """Adds a message, or drops it."""
        size = len(message.data)
        if len(self.messages) < self._max_messages and self._bytes + size <= self._max_bytes:
            self.messages.append(message)
            self._bytes += size
            self.wake.set()
        else:
            self._dropped += 1
            self._tell()

    def backlog(self) -> Backlog:
        """Returns how many messages and bytes wait."""
        return Backlog(messages=len(self.messages), bytes=self._bytes)

    def take(self) -> list[Msg]:
        """Takes the messages that have waited longest."""
        self.wake.clear()
        taken, self.messages = self.messages[:_BATCH_MESSAGES], self.messages[_BATCH_MESSAGES:]
        self._bytes -= sum(len(message.data) for message in taken)
        self._tell()
        return taken

    def _tell(self) -> None:
        """Logs the number of dropped messages periodically."""
        if self._dropped > self._logged_drops and time.monotonic() >= self._tell_at:
            log.warning(
                "%s: %s dropped, %d in total: they arrive faster than they are read",
                self._stream, counted(self._dropped - self._logged_drops, "message"), self._dropped,
            )  # fmt: skip
            self._logged_drops, self._tell_at = self._dropped, time.monotonic() + _TELL_S
