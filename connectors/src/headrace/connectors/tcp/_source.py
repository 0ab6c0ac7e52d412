"""The `tcp` source: receives length-prefixed messages from clients, without answering them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from headrace.connectors._bad_records import BadRecordPolicy, PolicySource
from headrace.connectors._version import VERSION
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.connectors.tcp._server import Server
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, SourceKind


class TcpSource(PolicySource):
    """Receives length-prefixed messages; those of one client stay in order.

    It listens from its first session on, and keeps what it has received until it is in the checkpoint. Losing a gateway or a
    query loses no messages; losing this process does.
    """

    connector = "tcp"
    version = VERSION
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.001

    def __init__(self, parameters: TcpParameters) -> None:
        """Creates a source that does not listen yet."""
        self.name = parameters.source
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._server = Server(parameters)
        self._starting: asyncio.Task[None] | None = None

    @property
    def port(self) -> int | None:
        """The port that it listens on; None before it listens."""
        return self._server.port

    async def partitions(self) -> Sequence[str]:
        """Returns one partition for all clients."""
        if self._starting is None:
            # In a separate task, because the first session may be lost in the meantime.
            self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)
        return ["0"]

    def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields the messages that are not yet in the checkpoint, then new ones."""
        return self._server.inbox.items()

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the messages that were received and are not read yet."""
        return self._server.inbox.backlog()

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Removes messages that are in the checkpoint."""
        self._server.inbox.settle(tokens)

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Skips a message, and removes the messages that it arrived with."""
        await super().unsendable(partition, message, error)
        if message.token is not None:
            self._server.inbox.refuse(message.token, error)
