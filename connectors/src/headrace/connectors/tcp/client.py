"""One client of the `tcp` source, and the length-prefixed messages in its stream of bytes."""

import asyncio
import logging
import struct
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from headrace.connectors.acceptor import Peer
from headrace.connectors.inbox import Inbox, Ticket
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.sdk import Batch, Packed

_PREFIX = struct.Struct(">I")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cut:
    """The result of cutting bytes into messages.

    Attributes:
        values: The complete messages.
        end: The offset just past the last one of them.
        needed: The number of bytes from there on that the next message needs to be complete, as far as is known.
        too_long: The announced length of the next message, in bytes, if it is above the limit.
    """

    values: Packed
    end: int
    needed: int
    too_long: int | None = None


def cut(data: bytes, max_bytes: int) -> Cut:
    """Cuts bytes into messages of up to `max_bytes`."""
    values: list[bytes] = []
    at, size, unpack = 0, len(data), _PREFIX.unpack_from
    needed = _PREFIX.size
    too_long = None
    while at + 4 <= size:
        (length,) = unpack(data, at)
        if length > max_bytes:
            too_long = length
            break
        end = at + 4 + length
        if end > size:
            needed = 4 + length
            break
        values.append(data[at + 4 : end])
        at = end
    return Cut(Packed(b"".join(values), array("I", map(len, values))), at, needed, too_long)


class Client(Peer):
    """Reads the messages of a connection, and closes it if it receives invalid data."""

    def __init__(self, inbox: Inbox[Batch], limits: TcpParameters, changed: Callable[["Client"], None]) -> None:
        """Creates the protocol of a connection that is not established yet.

        Args:
            inbox: The inbox for received messages.
            limits: How large and how slow messages may be.
            changed: Called when the client has connected, has sent something, or has disconnected.
        """
        self.connected = False
        self._inbox = inbox
        self._limits = limits
        self._changed = changed
        self._transport: asyncio.Transport | None = None
        self._name = "?"
        self._partial = bytearray()
        self._needed = 0
        self.begun_at = 0.0
        """When the message that it has begun began, as a monotonic time."""
        self._last_at = 0.0
        self._has_sent = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        host, port, *_ = transport.get_extra_info("peername") or ("?", "?")
        self._name = f"{host}:{port}"
        self._last_at = time.monotonic()
        self.connected = True
        self._changed(self)

    def data_received(self, data: bytes) -> None:
        """Takes all messages that are complete."""
        if not self.connected:
            return
        self._last_at = time.monotonic()
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                self._changed(self)
                return
            data = bytes(self._partial)
        found = cut(data, self._limits.max_message_bytes)
        self._partial = bytearray(data[found.end :])
        self._needed = found.needed
        self.begun_at = self._last_at
        if found.values.lengths:
            self._has_sent = True
            self._put(found.values)
        self._changed(self)
        if found.too_long is not None:
            self.end(f"announced a message of {found.too_long} bytes; the limit is {self._limits.max_message_bytes}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the client has disconnected."""
        if self.connected:
            self.connected = False
            if self._partial:
                log.warning("client %s: disconnected within a message, which is lost%s", self._name, f": {exc}" if exc else "")
            else:
                log.info("client %s: disconnected", self._name)
            self._partial.clear()
        self._changed(self)
        super().connection_lost(exc)

    def end(self, why: str) -> None:
        """Closes the connection; no more of its data is accepted."""
        if self.connected and self._transport is not None:
            log.warning("client %s: connection closed: %s", self._name, why)
            self.connected = False
            self._partial.clear()
            self._transport.abort()
            self._changed(self)

    @property
    def held_bytes(self) -> int:
        """The size of the part of a message that has arrived, in bytes."""
        return len(self._partial)

    @property
    def waits_since(self) -> float | None:
        """Whoever has never sent a message makes room for others."""
        return None if self._has_sent or self._paused or not self.connected else self._last_at

    def overdue(self, now: float) -> str | None:
        """Returns whether the message that it has begun is late, or it has been silent for too long."""
        if self._paused or not self.connected:
            return None
        limits = self._limits
        if self._partial and now - self.begun_at > limits.message_seconds:
            return f"the message that it began did not arrive within {limits.message_seconds:g} s (message_seconds)"
        if limits.idle_seconds is not None and now - self._last_at > limits.idle_seconds:
            return f"it has sent nothing for {limits.idle_seconds:g} s (idle_seconds)"
        return None

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
            self.begun_at = self._last_at = time.monotonic()

    def _put(self, values: Packed) -> None:
        """Puts messages into the inbox."""
        count = len(values.lengths)
        ticket = Ticket(count, len(values.data) + 4 * count)
        now = array("q", [time.time_ns() // 1000]) * count
        self._inbox.put(ticket, Batch(values, event_times=now, tokens=[*[None] * (count - 1), ticket]))
