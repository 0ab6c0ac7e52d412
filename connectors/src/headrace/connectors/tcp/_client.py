"""One client of the `tcp` source."""

import asyncio
import logging
import socket
import time
from array import array
from collections.abc import Callable
from typing import cast

from headrace.connectors._inbox import Inbox, Ticket
from headrace.connectors.tcp._frames import cut
from headrace.sdk import Batch, Packed

log = logging.getLogger(__name__)


class Client(asyncio.Protocol):
    """Reads the messages of a connection, and closes it if it receives invalid data."""

    def __init__(self, inbox: Inbox[Batch], max_message_bytes: int, changed: Callable[["Client"], None]) -> None:
        """Creates the protocol of a connection that is not established yet.

        Args:
            inbox: The inbox for received messages.
            max_message_bytes: Maximum size of a message, in bytes; a longer one ends the connection.
            changed: Called when the client has connected, has put something into the inbox, or has disconnected.
        """
        self.connected = False
        self._inbox = inbox
        self._max_message_bytes = max_message_bytes
        self._changed = changed
        self._transport: asyncio.Transport | None = None
        self._name = "?"
        self._begun = bytearray()
        self._needed = 0
        self._begun_at = 0.0
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        host, port, *_ = transport.get_extra_info("peername") or ("?", "?")
        self._name = f"{host}:{port}"
        # With keepalive, the system detects a client whose machine is gone.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connected = True
        self._changed(self)

    def data_received(self, data: bytes) -> None:
        """Takes all messages that are complete."""
        if not self.connected:
            return
        if self._begun:
            self._begun += data
            if len(self._begun) < self._needed:
                return
            data = bytes(self._begun)
        found = cut(data, self._max_message_bytes)
        self._begun = bytearray(data[found.end :])
        self._needed = found.needed
        self._begun_at = time.monotonic()
        if found.values.lengths:
            self._put(found.values)
        if found.too_long is not None:
            self.end(f"announced a message of {found.too_long} bytes; the limit is {self._max_message_bytes}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the client has disconnected."""
        if self.connected:
            self.connected = False
            if self._begun:
                log.warning("client %s: disconnected within a message, which is lost%s", self._name, f": {exc}" if exc else "")
            else:
                log.info("client %s: disconnected", self._name)
        self._changed(self)

    def end(self, why: str) -> None:
        """Closes the connection; no more of its data is accepted."""
        if self.connected and self._transport is not None:
            log.warning("client %s: connection closed: %s", self._name, why)
            self.connected = False
            self._transport.abort()

    def is_late(self, now: float, seconds: float) -> bool:
        """Returns whether the message that it has begun is overdue."""
        return bool(self._begun) and not self._paused and now - self._begun_at > seconds

    def pause(self) -> None:
        """Stops reading, so that the client cannot send more."""
        if self.connected and not self._paused and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True

    def resume(self) -> None:
        """Resumes reading."""
        if self.connected and self._paused and self._transport is not None:
            self._transport.resume_reading()
            self._paused = False
            self._begun_at = time.monotonic()

    def _put(self, values: Packed) -> None:
        """Puts messages into the inbox."""
        count = len(values.lengths)
        ticket = Ticket(count, len(values.data) + 4 * count)
        now = array("q", [time.time_ns() // 1000]) * count
        self._inbox.put(ticket, Batch(values, event_times=now, tokens=[*[None] * (count - 1), ticket]))
        self._changed(self)
