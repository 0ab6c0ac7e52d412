"""The `tcp` source: receives length-prefixed messages from clients, without answering them."""

import sys

from headrace.connectors.bad_records import BadRecordPolicy
from headrace.connectors.inbox import Inbox, Room
from headrace.connectors.listening_source import ListeningServer, ListeningSource
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.connectors.tcp.client import Client
from headrace.sdk import Batch


class Server(ListeningServer[Client]):
    """Accepts clients until it is closed. Stops reading from them when too much waits, until half of it is gone."""

    def __init__(self, parameters: TcpParameters) -> None:
        """Creates a server that does not listen yet."""
        super().__init__(parameters, parameters.max_clients, "max_clients")
        self._parameters = parameters
        self._room = Room(sys.maxsize, parameters.buffer_bytes, self._room_made)
        self.inbox: Inbox[Batch] = Inbox(self._room)
        """The received messages."""
        self._clients: set[Client] = set()
        self._paused = False
        self._held: dict[Client, int] = {}
        self._held_bytes = 0
        self._max_held_bytes = max(parameters.buffer_bytes, 2 * parameters.max_message_bytes)

    def peer(self) -> Client:
        """Returns a new client."""
        return Client(self.inbox, self._parameters, self._changed)

    def _changed(self, client: Client) -> None:
        """Called when a client has connected, has sent something, or has disconnected."""
        if not client.connected:
            self._clients.discard(client)
        else:
            self._clients.add(client)
            self._pause_where_full(client)
        self._hold(client)

    def _hold(self, client: Client) -> None:
        """Bounds what has arrived of messages that are not complete: at the limit, the one that began first is given up."""
        self._held_bytes += client.held_bytes - self._held.pop(client, 0)
        if client.held_bytes:
            self._held[client] = client.held_bytes
        if self._held_bytes > self._max_held_bytes:
            slowest = min(self._held, key=lambda each: each.begun_at)
            slowest.end(f"messages that are not complete have {self._held_bytes} bytes (buffer_bytes); its own began first")

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


class TcpSource(ListeningSource):
    """Receives length-prefixed messages, and keeps the order of each client. All clients share one partition.

    It keeps what it has received until it is in the checkpoint. Losing a gateway or a query loses no messages; losing this
    process does.
    """

    connector = "tcp"

    def __init__(self, parameters: TcpParameters) -> None:
        """Creates a source that does not listen yet."""
        server = Server(parameters)
        policy = BadRecordPolicy.of(parameters.source, parameters)
        super().__init__(parameters.source, policy, server, {"0": server.inbox})
