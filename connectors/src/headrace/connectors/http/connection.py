"""A connection of the `http` source: how long a client may take, and what becomes of one that ends its sending side."""

import asyncio
import logging
import time
from typing import cast

from aiohttp import web

from headrace.connectors.acceptor import Peer

log = logging.getLogger(__name__)

_AFTERWARDS_S = 1.0
"""How long a connection whose client sends nothing more stays open for an answer that is still to be written, in seconds."""
_FAREWELL_S = 0.5
"""How long after the farewell of TLS an answer waits, in seconds: OpenSSL discards what arrives while a client calls
SSL_shutdown, and clients that want an answer give it up soon."""
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class HttpConnection(Peer):
    """Bounds the time of a request's head and of silence, which aiohttp does not; and answers a client that is half-closed.

    The handler of a POST says with `begins` and `ends` how far it is.
    """

    def __init__(self, handler: asyncio.Protocol, head_seconds: float, idle_seconds: float) -> None:
        """Creates the protocol of a connection that is not established yet.

        Args:
            handler: aiohttp's protocol of the connection.
            head_seconds: How long a client may take for the head of a request.
            idle_seconds: How long it may be silent after an answer.
        """
        self._handler = handler
        self._head_seconds = head_seconds
        self._idle_seconds = idle_seconds
        self._transport: asyncio.Transport
        self._connected = False
        self._request: web.BaseRequest | None = None
        self._in_request = False
        """Whether something of a next request has arrived."""
        self._last_at = 0.0
        self._answered_at = float("-inf")
        self._deadline = 0.0
        self._ended = False
        """Whether the client sends nothing more."""
        self._answer_from = 0.0

    # What happens to the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._connected = True
        self._last_at = time.monotonic()
        self._deadline = self._last_at + self._head_seconds
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Passes on what has arrived."""
        self._last_at = time.monotonic()
        if self._request is None:
            if not self._in_request:
                self._in_request = True
                self._deadline = min(self._deadline, self._last_at + self._head_seconds)
        elif self._request.content.is_eof():
            self._in_request = True
        self._handler.data_received(data)

    def eof_received(self) -> bool:
        """Called when the client sends nothing more; returns whether it still gets an answer."""
        self._ended = True
        if self._transport.get_extra_info("ssl_object") is not None:
            self._answer_from = time.monotonic() + _FAREWELL_S
        if self._request is not None:
            return self._request.content.is_eof()
        # The head of a request may have arrived just now, or the answer may be about to be written.
        self._deadline = self._last_at + _AFTERWARDS_S
        return time.monotonic() < self._deadline

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection has ended."""
        self._connected = False
        self._handler.connection_lost(exc)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Called when the client does not read."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Called when it reads again."""
        self._handler.resume_writing()

    # What happens to its requests

    def begins(self, request: web.BaseRequest) -> None:
        """Called when a request has a head."""
        self._request, self._in_request = request, False
        if self._ended and not request.content.is_eof():
            self._transport.close()

    @property
    def is_taking_leave(self) -> bool:
        """Whether the client has ended its sending side with TLS."""
        return self._answer_from > 0

    async def may_be_answered(self) -> None:
        """Waits until a client that has ended its sending side with TLS reads again."""
        if (rest := self._answer_from - time.monotonic()) > 0:
            await asyncio.sleep(rest)

    def ends(self) -> None:
        """Called when the request is about to be answered."""
        self._request = None
        self._last_at = self._answered_at = time.monotonic()
        seconds = self._head_seconds if self._in_request else self._idle_seconds
        self._deadline = self._last_at + (_AFTERWARDS_S if self._ended else seconds)

    # What ends it

    @property
    def waits_since(self) -> float | None:
        """Whoever has no request in progress makes room for others."""
        if self._request is not None or not self._connected or self._transport.is_closing():
            return None
        # Its answer may not be written yet.
        return self._last_at if time.monotonic() - self._answered_at > _AFTERWARDS_S else None

    def overdue(self, now: float) -> str | None:
        """Returns whether a head or a next request is late."""
        if self._request is not None or not self._connected or now <= self._deadline:
            return None
        if self._ended:
            return "it has been answered, and sends nothing more"
        if self._in_request:
            return f"the head of its request took longer than {self._head_seconds:g} s (head_seconds)"
        return "it sent no request in time (head_seconds, idle_seconds)"

    def end(self, why: str) -> None:
        """Closes the connection."""
        if self._connected:
            log.info("client %s: connection closed: %s", self._transport.get_extra_info("peername"), why)
            if self._in_request and self._request is None and not self._transport.get_write_buffer_size():
                # The rest is lost if the system does not take it at once.
                self._transport.write(_TOO_LATE)
            self._transport.abort()
