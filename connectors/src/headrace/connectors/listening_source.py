"""A source that listens: clients send to it, and it keeps what it has received until that is in the checkpoint."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from headrace.connectors._connector import VERSION
from headrace.connectors.acceptor import Acceptor, Peer
from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.inbox import Inbox
from headrace.connectors.listening import Listening
from headrace.contract.addresses import joined_address
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, SourceKind

log = logging.getLogger(__name__)

_P = TypeVar("_P", bound=Peer)


class ListeningServer(ABC, Generic[_P]):
    """What receives messages for a source, and fills its inboxes."""

    def __init__(self, listening: Listening, most: int, limit: str) -> None:
        """Creates a server that does not listen yet.

        Args:
            listening: Where it listens.
            most: How many connections there may be.
            limit: The parameter that sets this number.
        """
        self.port: int | None = None
        """The port that it listens on; None before it listens."""
        self._listening = listening
        self._limit_of_peers = most, limit
        self._acceptor: Acceptor | None = None

    async def start(self) -> None:
        """Listens; called once.

        Raises:
            InvalidSource: The address cannot be used.
        """
        acceptor = Acceptor(self.peer, *self._limit_of_peers, self._listening.tls())
        listeners = self._listening.open()
        self.port = listeners[0].getsockname()[1]
        await self.begin()
        acceptor.start(listeners)
        self._acceptor = acceptor
        for listener in listeners:
            log.info("listening on %s", self.described(joined_address(*listener.getsockname()[:2])))

    async def close(self) -> None:
        """Stops listening, if it listens, and disconnects all clients."""
        if self._acceptor is not None:
            await self.end()
            await self._acceptor.close()

    @abstractmethod
    def peer(self) -> _P:
        """Returns the peer of a new connection."""

    def described(self, address: str) -> str:
        """Returns how people find an address at which it listens."""
        return address

    async def begin(self) -> None:
        """Prepares for the first connection."""

    async def end(self) -> None:
        """Ends what connections wait for."""


class ListeningSource(PolicySource):
    """Receives messages from clients.

    It listens from its first session on, also while the gateway is unavailable: messages then wait, as long as there is room.
    """

    version = VERSION
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.001

    def __init__(
        self, name: str, policy: BadRecordPolicy, server: ListeningServer[Any], inboxes: Mapping[str, Inbox[Any]]
    ) -> None:
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
