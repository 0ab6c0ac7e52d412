"""The base class of both JetStream sources, which read over one connection until it breaks, and then over the next one."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

from headrace.connectors._connector import VERSION
from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.nats._errors import NatsAway
from headrace.connectors.nats._parameters import NatsConsumerParameters, NatsParameters
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.connection import connected
from headrace.connectors.retry import Retry
from headrace.sdk import Batch

Given = TypeVar("Given", NatsParameters, NatsConsumerParameters)
"""The parameters of the source."""
Progress = TypeVar("Progress")
"""The state that a `read` keeps when its connection breaks."""


class JetStreamSource(PolicySource, Generic[Given, Progress]):
    """Reads partitions from JetStream; reconnects with backoff, without limit."""

    version = VERSION
    idle_seconds = 0.0

    def __init__(self, parameters: Given) -> None:
        """Creates the source, without connecting."""
        self.name = parameters.source
        self._parameters: Given = parameters
        self.bad_records = BadRecordPolicy.of(self.name, parameters)

    async def _reconnecting(self, partition: str, progress: Progress) -> AsyncGenerator[Batch | None, None]:
        """Yields the items of `_consume`, with a new connection whenever the last one has broken.

        Raises:
            NatsRefused: The server, the stream or the consumer does not permit reading.
            PositionLost: The stream no longer has the messages after the position.
        """
        retry = Retry(f"stream {self.name}/{partition}", self)
        while True:
            try:
                async with connected(self._parameters) as client, aclosing(self._consume(client, progress)) as batches:
                    async for batch in batches:
                        retry.connected()
                        yield batch
            except NatsAway as error:
                await retry.wait(error)

    def _consume(self, client: Client, progress: Progress, /) -> AsyncGenerator[Batch | None, None]:
        """Yields the messages that arrive on one connection, as batches; None when there are no more for now.

        Raises:
            NatsAway: The connection has broken.
        """
        raise NotImplementedError
