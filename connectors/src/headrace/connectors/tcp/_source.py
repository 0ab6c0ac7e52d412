"""The `tcp` source: receives length-prefixed messages from clients that are told nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from headrace.connectors._bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.connectors.tcp._server import Server
from headrace.sdk import Batch, InvalidMessage, Message, Position, SourceKind


class TcpSource(PolicySource):
    """Receives length-prefixed messages; those of one client keep their order.

    It listens from its first session on, and keeps what it has received until it is in the checkpoint: a gateway or a query that
    is lost loses nothing. This process does, when it ends.
    """

    connector = "tcp"
    version = "0.1.0"
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.001

    def __init__(self, parameters: TcpParameters) -> None:
        """Does not listen yet."""
        self.name = parameters.source
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._server = Server(parameters)
        self._starting: asyncio.Task[None] | None = None

    @property
    def port(self) -> int | None:
        """Where it listens; None before it does."""
        return self._server.port

    async def partitions(self) -> Sequence[str]:
        """One for all clients."""
        if self._starting is None:
            # A task of its own: the session that asks first may be lost meanwhile.
            self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)
        return ["0"]

    def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """What is not in the checkpoint yet, then what arrives."""
        return self._server.inbox.items()

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Lets go of what is in the checkpoint."""
        self._server.inbox.settle(tokens)

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Leaves a message out, and lets go of what it came with."""
        await super().unsendable(partition, message, error)
        if message.token is not None:
            self._server.inbox.refuse(message.token, error)
