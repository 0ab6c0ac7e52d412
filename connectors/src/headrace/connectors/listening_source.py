"""A source that listens: clients send to it, and it keeps what it has received until that is in the checkpoint."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.inbox import Inbox
from headrace.connectors.version import VERSION
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, SourceKind


class ListeningServer(Protocol):
    """What receives messages for a source, and fills its inboxes."""

    @property
    def port(self) -> int | None:
        """The port that it listens on; None before it listens."""

    async def start(self) -> None:
        """Begins to listen."""

    async def close(self) -> None:
        """Stops listening, if it listens, and disconnects all clients."""


class ListeningSource(PolicySource):
    """Receives messages from clients.

    It listens from its first session on, also while the gateway is unavailable: messages then wait, as long as there is room.
    """

    version = VERSION
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.001

    def __init__(self, name: str, policy: BadRecordPolicy, server: ListeningServer, inboxes: Mapping[str, Inbox[Any]]) -> None:
        """Creates a source that does not listen yet.

        Args:
            name: The name of the source.
            policy: What happens to a message that cannot be sent.
            server: What receives messages.
            inboxes: The messages that it has received, by partition.
        """
        self.name = name
        self.bad_records = policy
        self._server = server
        self._inboxes = inboxes
        self._starting: asyncio.Task[None] | None = None

    @property
    def port(self) -> int | None:
        """The port that it listens on; None before it listens."""
        return self._server.port

    async def partitions(self) -> Sequence[str]:
        """Returns one partition for each inbox, once the server listens."""
        if self._starting is None:
            # In a separate task, because the first session may be lost in the meantime.
            self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)
        return list(self._inboxes)

    def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields the messages that are not yet in the checkpoint, then new ones."""
        return self._inboxes[partition].items()

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the messages that were received and are not read yet."""
        return self._inboxes[partition].backlog()

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Removes the messages that are in the checkpoint, and answers their clients if they wait for that."""
        self._inboxes[partition].settle(tokens)

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Skips a message, and removes the messages that it arrived with."""
        await super().unsendable(partition, message, error)
        if message.token is not None:
            self._inboxes[partition].refuse(message.token, error)

    async def close(self) -> None:
        """Stops listening."""
        if self._starting is not None:
            await asyncio.wait({self._starting})
        await self._server.close()
