"""The `http` source: receives webhooks, and answers them once they are in the checkpoint."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from headrace.connectors._bad_records import BadRecordPolicy, PolicySource
from headrace.connectors._inbox import Inbox, Room
from headrace.connectors._version import VERSION
from headrace.connectors.http._parameters import HttpParameters
from headrace.connectors.http._server import Received, Server
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, SourceKind


class HttpSource(PolicySource):
    """Receives POST requests as messages.

    It listens from its first session on, also while the gateway is unavailable: messages then wait, as long as there is room. A
    request that has no 2xx response yet is sent again in the next session, as long as its client waits.
    """

    connector = "http"
    version = VERSION
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.001

    def __init__(self, parameters: HttpParameters) -> None:
        """Creates a source that does not listen yet."""
        self.name = parameters.source
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        room = Room(parameters.max_waiting_messages, parameters.max_waiting_bytes)
        self._inboxes: dict[str, Inbox[Received]] = {name: Inbox(room) for name in parameters.partitions}
        self._server = Server(parameters, self._inboxes, room)
        self._starting: asyncio.Task[None] | None = None

    @property
    def port(self) -> int | None:
        """The port that it listens on; None before it listens."""
        return self._server.port

    async def partitions(self) -> Sequence[str]:
        """Returns one partition for each path, or one for all."""
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
        """Answers the requests whose messages are in the checkpoint."""
        self._inboxes[partition].settle(tokens)

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Skips a message, and removes the messages that it arrived with."""
        await super().unsendable(partition, message, error)
        if message.token is not None:
            self._inboxes[partition].refuse(message.token, error)
