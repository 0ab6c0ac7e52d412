"""The transport of pika's connections: an asyncio transport that can be paused, and that parses deliveries itself.

Pika's own transport reads 4 KiB at a time, writes each frame separately, and cannot pause reading.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from pika.adapters.utils.nbio_interface import AbstractIOServices, AbstractStreamProtocol

from headrace.connectors.rabbitmq.deliveries import Deliveries

_HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Wire(asyncio.Protocol):
    """The bytes of one connection: a protocol of asyncio, a transport of pika."""

    def __init__(self, deliveries: Deliveries | None, arrived: Callable[[], None], alive_seconds: float) -> None:
        """Creates a transport that is not connected yet.

        Args:
            deliveries: Parses deliveries from received bytes; None leaves them to pika.
            arrived: Called after deliveries have been parsed.
            alive_seconds: The interval at which pika must receive something from the broker, in seconds.
        """
        self.writable = asyncio.Event()
        """Set while the broker accepts written data."""
        self.writable.set()
        self._deliveries = deliveries
        self._arrived = arrived
        self._alive_seconds = alive_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._protocol: AbstractStreamProtocol | None = None
        self._out: list[bytes] = []
        self._heard = False
        self._paused = False
        self._ended = False
        """Whether pika knows why the connection ends: it has aborted it, or the broker has closed it."""
        self._timer: asyncio.TimerHandle | None = None

    def link(self, protocol: AbstractStreamProtocol) -> None:
        """Starts the protocol, in which the client speaks first."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._keep_alive()

    def pause(self) -> None:
        """Stops reading, so that the broker has to wait."""
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Resumes reading."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # For asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the connection is established, with TLS if requested."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parses deliveries, and passes the rest to pika."""
        assert self._protocol is not None
        self._heard = True
        if self._deliveries is None:
            self._protocol.data_received(data)
            return
        rest = self._deliveries.feed(data)
        if self._deliveries.arrived:
            self._arrived()
        if rest:
            self._protocol.data_received(rest)

    def eof_received(self) -> bool | None:
        """Called when the broker has closed the connection."""
        self._ended = True
        return bool(self._protocol and self._protocol.eof_received())

    def connection_lost(self, error: Exception | None) -> None:
        """Called when the connection has ended."""
        self._transport = None
        self.writable.set()
        if self._timer is not None:
            self._timer.cancel()
        if error is None and not self._ended:
            # Without a reason, pika raises, and believes for ever that it is connected.
            error = ConnectionAbortedError("the connection was aborted")
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        """Called when the broker reads too slowly."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Called when the broker has caught up."""
        self.writable.set()

    # For pika

    def write(self, data: bytes) -> None:
        """Writes, together with other data of this iteration of the loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def abort(self) -> None:
        """Closes immediately."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    def get_protocol(self) -> AbstractStreamProtocol | None:
        """Pika's protocol."""
        return self._protocol

    def get_write_buffer_size(self) -> int:
        """Returns the number of bytes that wait to be written."""
        return sum(map(len, self._out)) + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def _flush(self) -> None:
        """Writes the collected data."""
        out, self._out = self._out, []
        if self._transport is not None:
            self._transport.write(b"".join(out))

    def _keep_alive(self) -> None:
        """Passes artificial heartbeats to pika, which does not see deliveries, and receives nothing while reading is paused."""
        assert self._protocol is not None
        if self._heard or self._paused:
            self._heard = False
            self._protocol.data_received(_HEARTBEAT)
        self._timer = self._loop.call_later(self._alive_seconds, self._keep_alive)


class Services(AbstractIOServices):  # type: ignore[misc]
    """The event-loop services of a pika connection. `wire` is the transport of the connection, once it is established."""

    def __init__(self, wire: Callable[[], Wire]) -> None:
        """Creates the services, with a function that creates a wire for each attempt to connect."""
        self._loop = asyncio.get_running_loop()
        self._make_wire = wire
        self.wire: Wire | None = None

    def get_native_ioloop(self) -> asyncio.AbstractEventLoop:
        """Returns the loop."""
        return self._loop

    def add_callback_threadsafe(self, callback: Callable[..., None]) -> None:
        """Schedules a call."""
        self._loop.call_soon_threadsafe(callback)

    def call_later(self, delay: float, callback: Callable[..., None]) -> asyncio.TimerHandle:
        """Schedules a call after a delay, in seconds."""
        return self._loop.call_later(delay, callback)

    def getaddrinfo(
        self,
        host: str,
        port: int,
        on_done: Callable[..., None],
        family: int = 0,
        socktype: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> "asyncio.Task[Any]":
        """Resolves a name."""
        return self._start(self._loop.getaddrinfo(host, port, family=family, type=socktype, proto=proto, flags=flags), on_done)

    def connect_socket(
        self, sock: socket.socket, resolved_addr: tuple[str, int], on_done: Callable[..., None]
    ) -> "asyncio.Task[Any]":
        """Connects a socket."""
        return self._start(self._loop.sock_connect(sock, resolved_addr), on_done)

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], AbstractStreamProtocol],
        sock: socket.socket,
        on_done: Callable[..., None],
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> "asyncio.Task[Any]":
        """Attaches a connected socket to pika."""

        async def link() -> tuple[Wire, AbstractStreamProtocol]:
            wire = self._make_wire()
            await self._loop.create_connection(lambda: wire, sock=sock, ssl=ssl_context, server_hostname=server_hostname)
            protocol = protocol_factory()
            self.wire = wire
            wire.link(protocol)
            return wire, protocol

        return self._start(link(), on_done)

    def _start(self, work: Coroutine[Any, Any, Any], on_done: Callable[..., None]) -> "asyncio.Task[Any]":
        """Runs a coroutine, and passes its result or exception to the callback, unless it is cancelled."""
        task = self._loop.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else on_done(done.exception() or done.result()))
        return task

    def close(self) -> None:
        """Does nothing: the loop does not belong to pika."""

    def run(self) -> None:
        """Does nothing: the loop is already running."""

    def stop(self) -> None:
        """Does nothing: the loop must continue."""
