"""A client that does what libraries of HTTP do not: it sends bytes, ends its sending side, or breaks its connection."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from typing import TypeVar

from tests.gateway.wire import DEADLINE_S

T = TypeVar("T")


class RawClient:
    """One connection.

    TLS is done in memory, not by the socket: an answer that has arrived before this client closes its sending side stays unread
    until then, where a socket with TLS would take it for an error.
    """

    def __init__(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._connection = connection
        self._arrived, self._due = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._arrived, self._due, server_hostname="localhost") if tls is not None else None

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None = None) -> "RawClient":
        """Connects, with TLS if a context is given."""

        def connected() -> "RawClient":
            client = cls(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S), tls)
            if client._tls is not None:
                client._until_done(client._tls.do_handshake)
            return client

        return await asyncio.to_thread(connected)

    async def send(self, data: bytes) -> None:
        """Sends all of it."""
        await asyncio.to_thread(self._send, data)

    def _send(self, data: bytes) -> None:
        if self._tls is not None and data:
            self._tls.write(data)
            data = self._due.read()
        self._connection.sendall(data)

    async def end_sending(self) -> None:
        """Closes the sending side, with the farewell of TLS before it."""
        if self._tls is not None:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
            self._connection.sendall(self._due.read())
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    async def received(self, size: int = 1 << 20) -> bytes:
        """The bytes that come until the other side closes, or the first `size`."""

        def receive() -> bytes:
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while len(found) < size and (piece := self._receive(min(65536, size - len(found)))):
                    found += piece
            return found

        return await asyncio.to_thread(receive)

    def _receive(self, size: int) -> bytes:
        if self._tls is None:
            return self._connection.recv(size)
        tls = self._tls
        try:
            return self._until_done(lambda: tls.read(size))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def _until_done(self, step: Callable[[], T]) -> T:
        """Takes a step of TLS, with what it must send and receive for that."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._send_due()
                if piece := self._connection.recv(65536):
                    self._arrived.write(piece)
                else:
                    self._arrived.write_eof()
            finally:
                self._send_due()

    def _send_due(self) -> None:
        # Once the sending side is closed, sending nothing would be an error, too.
        if due := self._due.read():
            self._connection.sendall(due)

    def reset(self) -> None:
        """Breaks the connection."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def close(self) -> None:
        """Closes it."""
        self._connection.close()


def request(body: bytes, path: str = "/", *headers: bytes) -> bytes:
    """A whole POST."""
    lines = [b"POST %s HTTP/1.1" % path.encode(), b"Host: x", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
