"""The TLS side of an accepted connection. Unlike asyncio's, it lets the other side end its sending and still get its answer."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, cast

_READ_BYTES = 256 * 1024
_Data = bytes | bytearray | memoryview


class TlsConnection(asyncio.Protocol):
    """Decrypts for a protocol, which gets its transport once the handshake is complete."""

    def __init__(self, context: ssl.SSLContext, inner: asyncio.Protocol, on_end: Callable[[Exception | None], None]) -> None:
        """Creates the server's side of a connection.

        Args:
            context: The certificates.
            inner: The protocol of what is encrypted.
            on_end: Called when the connection ends before the handshake is complete, with the reason if it has one.
        """
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.encrypted = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_open = False
        """Whether the handshake is complete."""
        self.transport: asyncio.Transport
        self.inner = inner
        self._on_loss = on_end
        self._failed: Exception | None = None
        self._ended = False
        """Whether the other side sends nothing more."""
        self._paused = False

    # What comes from below

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the connection is accepted."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Decrypts what has come."""
        self._incoming.write(data)
        if not self.is_open and not self._shakes_hands():
            return
        self.read()

    def eof_received(self) -> bool:
        """Called when the other side has closed its sending side, with TLS or without."""
        if not self.is_open:
            return False
        if not self._paused:
            self._end_reading()
        self._incoming.write_eof()
        # The protocol closes the connection, at once or after its answer.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection has ended."""
        if self.is_open:
            self.inner.connection_lost(exc or self._failed)
        else:
            self._on_loss(exc or self._failed)

    def pause_writing(self) -> None:
        """Called when the other side does not read."""
        if self.is_open:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Called when it reads again."""
        if self.is_open:
            self.inner.resume_writing()

    # What the transport of the protocol does

    def read(self) -> None:
        """Passes on what can be decrypted, unless reading is paused."""
        pieces: list[bytes] = []
        try:
            while not self._ended and not self._paused:
                piece = self.encrypted.read(_READ_BYTES)
                if not piece:
                    self._pass_on(pieces)
                    self._end_reading()
                    return
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._pass_on(pieces)
            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                self._end_reading()
            else:
                self._fail(error)
            return
        self._pass_on(pieces)
        self.send()

    def write(self, data: _Data) -> None:
        """Encrypts and sends."""
        if data and not self.transport.is_closing():
            try:
                self.encrypted.write(data)
            except ssl.SSLError as error:
                self._fail(error)
                return
            self.send()

    def pause(self) -> None:
        """Stops reading."""
        self._paused = True
        if not self._ended:
            self.transport.pause_reading()

    def resume(self) -> None:
        """Resumes reading, with what has come meanwhile."""
        if self._paused:
            self._paused = False
            if not self._ended:
                self.transport.resume_reading()
                self.read()

    @property
    def is_paused(self) -> bool:
        """Whether reading is paused."""
        return self._paused

    def close(self) -> None:
        """Says that nothing more comes, and closes once everything is sent."""
        if self.transport.is_closing():
            return
        # The other side's own farewell is not waited for.
        with contextlib.suppress(ssl.SSLError):
            self.encrypted.unwrap()
        self.send()
        self.transport.close()

    def send(self) -> None:
        """Sends what is encrypted."""
        if data := self._outgoing.read():
            self.transport.write(data)

    def _shakes_hands(self) -> bool:
        """Takes the next step of the handshake; returns whether it is complete."""
        try:
            self.encrypted.do_handshake()
        except ssl.SSLWantReadError:
            self.send()
            return False
        except (ssl.SSLError, OSError) as error:
            self.send()  # the alert
            self._fail(error)
            return False
        self.send()
        self.is_open = True
        self.inner.connection_made(TlsTransport(self))
        return True

    def _pass_on(self, pieces: list[bytes]) -> None:
        if pieces:
            self.inner.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _end_reading(self) -> None:
        """Tells the protocol that nothing more comes; it returns whether it still has something to send."""
        if not self._ended:
            self._ended = True
            if not self.inner.eof_received():
                self.close()

    def _fail(self, error: Exception) -> None:
        self._failed = self._failed or error
        if self.is_open:
            self.transport.abort()
        else:
            self.transport.close()


class TlsTransport(asyncio.Transport):
    """The transport of what is encrypted."""

    def __init__(self, connection: TlsConnection) -> None:
        """Creates the transport of a connection whose handshake is complete."""
        super().__init__()
        self._connection = connection
        self._below = connection.transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns what is known of the connection."""
        if name == "ssl_object":
            return self._connection.encrypted
        if name == "sslcontext":
            return self._connection.encrypted.context
        return self._below.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Returns the protocol."""
        return self._connection.inner

    def is_closing(self) -> bool:
        """Returns whether the connection is closed, or is about to be."""
        return self._below.is_closing()

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        self._connection.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._below.abort()

    def is_reading(self) -> bool:
        """Returns whether it reads."""
        return not self._connection.is_paused and not self.is_closing()

    def pause_reading(self) -> None:
        """Stops reading."""
        self._connection.pause()

    def resume_reading(self) -> None:
        """Resumes reading."""
        self._connection.resume()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets how many bytes may wait to be sent before the protocol must pause."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Returns how much waits to be sent, in bytes."""
        return self._below.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Returns the limits of what may wait to be sent, in bytes."""
        return self._below.get_write_buffer_limits()

    def write(self, data: _Data) -> None:
        """Sends data."""
        self._connection.write(data)

    def writelines(self, list_of_data: Iterable[_Data]) -> None:
        """Sends data of several pieces."""
        self._connection.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Returns that its own sending cannot be ended before the connection."""
        return False
