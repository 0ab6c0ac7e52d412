"""A client that does what libraries of HTTP do not: it sends bytes, ends its sending side, or breaks its connection."""

import asyncio
import contextlib
import socket
import ssl
import struct

from tests.gateway.wire import DEADLINE_S


class RawClient:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None = None) -> "RawClient":
        """Connects, with TLS if a context is given."""

        def connected() -> socket.socket:
            connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
            return connection if tls is None else tls.wrap_socket(connection, server_hostname="localhost")

        return cls(await asyncio.to_thread(connected))

    async def send(self, data: bytes) -> None:
        """Sends all of it."""
        await asyncio.to_thread(self._connection.sendall, data)

    async def end_sending(self) -> None:
        """Closes the sending side, with the farewell of TLS before it."""
        if isinstance(self._connection, ssl.SSLSocket):
            self._connection.settimeout(0)
            with contextlib.suppress(ssl.SSLWantReadError):
                self._connection.unwrap()
            self._connection.settimeout(DEADLINE_S)
        with contextlib.suppress(OSError):
            # That of a socket with TLS would forget the keys.
            socket.socket.shutdown(self._connection, socket.SHUT_WR)

    async def received(self, size: int = 1 << 20) -> bytes:
        """What comes until the other side closes, or so many bytes."""

        def receive() -> bytes:
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while len(found) < size and (piece := self._connection.recv(min(65536, size - len(found)))):
                    found += piece
            return found

        return await asyncio.to_thread(receive)

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
