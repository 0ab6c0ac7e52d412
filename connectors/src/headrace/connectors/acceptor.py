"""Accepts connections: no more than the process has descriptors for, and the one that waits longest makes room for a new one."""

import asyncio
import errno
import logging
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.connectors.tls_connection import TlsConnection
from headrace.logs.repeats import Repeats
from headrace.machine.resources import in_use, raise_limit

log = logging.getLogger(__name__)

_RESERVED = 64
"""How many descriptors are left to everything else: the gateway, files, and connections that close at this moment."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CLOSED = (errno.EBADF, errno.EINVAL)
_PAUSE_S = 0.1
_LOOK_S = 1.0
_HANDSHAKE_S = 10.0


class Peer(asyncio.Protocol, ABC):
    """The other side of an accepted connection. With TLS, it is connected once the handshake is complete."""

    left: Callable[[], None] = staticmethod(lambda: None)
    """Called when the connection has ended."""

    @property
    @abstractmethod
    def waits_since(self) -> float | None:
        """When it began to wait without having begun anything, as a monotonic time; None if it must not make room for others."""

    @abstractmethod
    def overdue(self, now: float) -> str | None:
        """Returns why its connection must end now; None if it need not."""

    @abstractmethod
    def end(self, why: str) -> None:
        """Ends its connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection has ended."""
        self.left()


_P = TypeVar("_P", bound=Peer)


class _Connection:
    """A connection of a peer, from when it is accepted."""

    def __init__(self, peer: Peer, address: str, tls: TlsConnection | None) -> None:
        self.peer = peer
        self.address = address
        self._tls = tls
        self._accepted_at = time.monotonic()

    @property
    def _shakes_hands(self) -> bool:
        return self._tls is not None and not self._tls.is_open

    @property
    def waits_since(self) -> float | None:
        if self._tls is not None and not self._tls.is_open:
            return None if self._tls.transport.is_closing() else self._accepted_at
        return self.peer.waits_since

    def overdue(self, now: float) -> str | None:
        if self._shakes_hands:
            late = now - self._accepted_at > _HANDSHAKE_S
            return f"the TLS handshake took longer than {_HANDSHAKE_S:g} s" if late else None
        return self.peer.overdue(now)

    def end(self, why: str) -> None:
        if self._tls is not None and not self._tls.is_open:
            log.info("client %s: connection closed: %s", self.address, why)
            self._tls.transport.abort()
        else:
            self.peer.end(why)


class Acceptor:
    """Accepts the connections of a server until it is closed."""

    def __init__(self, make: Callable[[], Peer], most: int, parameter: str, context: ssl.SSLContext | None) -> None:
        """Creates an acceptor that does not accept yet.

        Args:
            make: Creates the peer of a new connection.
            most: How many connections there may be, if the process may have enough descriptors.
            parameter: The parameter that sets `most`, for the log.
            context: The TLS context, if any; each connection begins with what it has then.
        """
        self._make = make
        self._maximum = self._most = most
        self._limit = f"({parameter})"
        self._context = context
        self._there: dict[Peer, _Connection] = {}
        self._tasks = set[asyncio.Task[Any]]()
        self._listeners: Sequence[socket.socket] = ()
        self._repeats = Repeats()

    def start(self, listeners: Sequence[socket.socket]) -> None:
        """Accepts the connections of these sockets, which the acceptor owns from now on."""
        used = in_use() + _RESERVED
        descriptors = raise_limit(used + self._maximum)
        if descriptors < used + self._maximum:
            self._most = max(1, descriptors - used)
            self._limit = f"(the process may have {descriptors} descriptors: ulimit -n)"
            log.info("up to %d connections %s", self._most, self._limit)
        self._listeners = listeners
        for listener in listeners:
            self._own(self._accept(listener))
        self._own(self._look())

    async def close(self) -> None:
        """Stops accepting, and ends all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        for connection in list(self._there.values()):
            connection.end("this connector is stopping")

    def _own(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a connection could not be accepted: %s", error, exc_info=error)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _CLOSED:
                    raise
                # Others are about one connection, which has ended before it was accepted.
                if error.errno in _EXHAUSTED:
                    self._report("no connection can be accepted: %s", error.strerror)
                    self._make_room("the process has no descriptors left")
                    await asyncio.sleep(_PAUSE_S)
                continue
            self._admit(accepted, f"{address[0]}:{address[1]}")
            # A connection that is to be accepted is accepted at once: others get their turn.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        if len(self._there) >= self._most:
            full = f"{self._most} clients are already connected {self._limit}"
            if not self._make_room(full):
                self._report("client %s: connection closed: %s", address, full)
                accepted.close()
                return
        peer = self._make()
        peer.left = lambda: self._forget(peer)
        tls = None if self._context is None else TlsConnection(self._context, peer, lambda exc: self._no_handshake(peer, exc))
        self._there[peer] = _Connection(peer, address, tls)
        self._own(self._connect(peer, tls or peer, accepted))

    async def _connect(self, peer: Peer, protocol: asyncio.Protocol, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, accepted)
        except OSError as error:
            # It has ended meanwhile.
            log.info("client %s: %s", self._there[peer].address, error)
            self._forget(peer)
            accepted.close()

    def _make_room(self, why: str) -> bool:
        """Ends the connection that has waited longest; returns whether there is one that makes room."""
        waiting = [(since, place, each) for place, each in enumerate(self._there.values()) if (since := each.waits_since)]
        if not waiting:
            return False
        min(waiting)[2].end(f"it waits longest, and {why}")
        return True

    def _no_handshake(self, peer: Peer, error: Exception | None) -> None:
        if error is not None and (connection := self._there.get(peer)) is not None:
            log.info("client %s: no TLS handshake: %s", connection.address, error)
        self._forget(peer)

    def _forget(self, peer: Peer) -> None:
        self._there.pop(peer, None)

    async def _look(self) -> None:
        """Ends connections that are overdue."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            for connection in list(self._there.values()):
                if (why := connection.overdue(now)) is not None:
                    connection.end(why)

    def _report(self, line: str, *values: object) -> None:
        """Logs a line, but not again and again."""
        if (held_back := self._repeats.admit(line)) is not None:
            log.warning(line, *values, extra={"repeats": held_back} if held_back else None)
