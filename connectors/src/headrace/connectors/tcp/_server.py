"""The server of the `tcp` source: its clients, and the limit on waiting messages."""

import asyncio
import logging
import sys
import time

from headrace.connectors._inbox import Inbox, Room
from headrace.connectors._owned import close_with_loop
from headrace.connectors.tcp._client import Client
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.sdk import Batch

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


class Server:
    """Accepts clients until its loop ends. Stops reading from them when too much waits, until half of it is gone."""

    def __init__(self, parameters: TcpParameters) -> None:
        """Creates a server that does not listen yet."""
        self.port: int | None = None
        """The port that it listens on."""
        self._parameters = parameters
        self._room = Room(sys.maxsize, parameters.buffer_bytes, self._room_made)
        self.inbox: Inbox[Batch] = Inbox(self._room)
        """The received messages."""
        self._clients: set[Client] = set()
        self._paused = False
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listens; called once.

        Raises:
            InvalidSource: The address cannot be used.
        """
        tls = self._parameters.tls()
        listener = self._parameters.open()
        self._server = await asyncio.get_running_loop().create_server(self._client, sock=listener, ssl=tls)
        self._looking = asyncio.create_task(self._look_for_late())
        close_with_loop(self._close)
        self.port = listener.getsockname()[1]
        log.info("listening on %s:%s", self._parameters.host, self.port)

    async def _close(self) -> None:
        """Stops accepting clients, and disconnects all of them."""
        if self._server is not None and self._looking is not None:
            self._server.close()
            self._looking.cancel()
            for client in list(self._clients):
                client.end("this connector is stopping")

    def _client(self) -> Client:
        return Client(self.inbox, self._parameters.max_message_bytes, self._changed)

    def _changed(self, client: Client) -> None:
        """Called when a client has connected, has sent something, or has disconnected."""
        if not client.connected:
            self._clients.discard(client)
        elif client not in self._clients and len(self._clients) >= self._parameters.max_clients:
            client.end(f"{self._parameters.max_clients} clients are already connected (max_clients)")
        else:
            self._clients.add(client)
            self._pause_where_full(client)

    def _pause_where_full(self, client: Client) -> None:
        """Stops reading from all clients, including new ones, while there is no room."""
        if self._paused:
            client.pause()
        elif self._room.full:
            self._paused = True
            for each in self._clients:
                each.pause()

    def _room_made(self) -> None:
        """Called when messages have reached the checkpoint, and there is room again."""
        if self._paused and self._room.bytes <= self._parameters.buffer_bytes // 2:
            self._paused = False
            for client in self._clients:
                client.resume()

    async def _look_for_late(self) -> None:
        """Closes connections whose message is overdue."""
        seconds = self._parameters.message_seconds
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, seconds / 2))
            now = time.monotonic()
            for client in [client for client in self._clients if client.is_late(now, seconds)]:
                client.end(f"the message that it began did not arrive within {seconds:g} s (message_seconds)")
