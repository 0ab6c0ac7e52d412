"""Bounds the connections to a port of this process, by address and in all.

gRPC accepts connections by itself and does not report them, so the process looks among its own descriptors. A connection is
known once a caller with a token and its right has called on it. All others are strangers': silent ones, ones whose headers
do not end, or that only ask for the health. They leave half of all connections to callers that are known.
"""

import asyncio
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from headrace.contract import clock
from headrace.gateway.core.connections import OpenCalls
from headrace.gateway.own_faults import OwnFaultKind, OwnFaults
from headrace.gateway.refusals import full, log_dropped, log_full, to_drop
from headrace.machine.resources import REMEDY, raise_limit

MAX_CONNECTIONS = 4_096
"""How many connections there may be to a port, if the process may have enough descriptors."""
MAX_OF_ADDRESS = 64
"""How many connections of strangers there may be from one address."""
MAX_STRANGER_BYTES = 32 * 2**20
"""How many bytes a stranger may send: more than the largest first request. Headers that do not end cost time."""
PATIENCE_S = 30.0
"""How long a connection may wait until its first call is served, before it counts for its address, in seconds.

Connectors come by the thousand after a restart, and their calls wait for each other. While the process is held up, nobody waits.
"""
INTERVAL_S = 0.5
"""How often the process looks, while there are not too many."""
_MIN_PAUSE_S = 0.005
_DESCRIPTORS = 65_536
"""How many descriptors the process asks for."""
_RESERVED = 256
"""How many descriptors are left to everything but the connections of gRPC."""
_FULL_REMEDY = f"end what is not needed; if there may be fewer than {MAX_CONNECTIONS:,}, {REMEDY} and restart the gateway"
_FOLDER = Path("/proc/self/fd") if Path("/proc/self/fd").is_dir() else Path("/dev/fd")
_BYTES_RECEIVED = slice(128, 136)
"""Where Linux has that number in its `tcp_info`."""

Peer = tuple[str, int]
"""The address and the port of a client."""


def max_connections() -> int:
    """Returns how many connections the gRPC server may have, after asking the system for enough descriptors."""
    descriptors = raise_limit(_DESCRIPTORS)
    return min(MAX_CONNECTIONS, max(descriptors - _RESERVED, descriptors // 4))


@dataclass(slots=True, eq=False)
class _Connection:
    """A connection of this process."""

    descriptor: int
    inode: int
    peer: Peer
    is_known: bool = False
    is_used: bool = False
    """Whether a call of a known caller is in progress."""
    waits_s: float = 0.0
    """For how long it was there, as far as it could have been served."""

    @property
    def address(self) -> str:
        """The address that it comes from."""
        return self.peer[0]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A connection that makes room unless a call is in progress on it."""

    of: _Connection

    @property
    def address(self) -> str:
        return self.of.address

    @property
    def is_known(self) -> bool:
        return self.of.is_used


class Connections:
    """The connections to one port."""

    def __init__(
        self,
        protocol: str,
        port: int,
        calls: OpenCalls,
        most: int,
        max_of_address: int = MAX_OF_ADDRESS,
        *,
        faults: OwnFaults | None = None,
    ) -> None:
        """Creates them.

        Args:
            protocol: Their protocol, for the log.
            port: The port.
            calls: The calls in progress.
            most: How many connections there may be.
            max_of_address: How many of strangers there may be from one address.
            faults: Where it is noted that further ones are refused.
        """
        self._protocol = protocol
        self._faults = faults
        self._port = port
        self._calls = calls
        self._most = most
        self._max_of_address = max_of_address
        self._all: dict[tuple[int, int], _Connection | None] = {}
        """By descriptor and inode, in the order in which they were found; None for what is no connection to the port."""
        self._looked_at = clock.monotonic()
        self._called = set[Peer]()
        """Who has called since the last look."""
        calls.peer_observers.append(self._note)

    async def watch(self) -> None:
        """Looks again and again, until cancelled."""
        # It was removed if an error has ended an earlier watch.
        if self._note not in self._calls.peer_observers:
            self._calls.peer_observers.append(self._note)
        try:
            while True:
                began = clock.monotonic()
                dropped = self.look()
                took = clock.monotonic() - began
                # Somebody connects again and again: callers must find room all the time, at 5 % of the processor at most.
                await asyncio.sleep(min(INTERVAL_S, max(_MIN_PAUSE_S, 20 * took)) if dropped else INTERVAL_S)
        finally:
            self._calls.peer_observers.remove(self._note)

    def look(self) -> int:
        """Drops the connections that are too many; returns how many."""
        since, self._looked_at = self._looked_at, clock.monotonic()
        for connection in self._all.values():
            if connection is not None:
                connection.waits_s += min(self._looked_at - since, INTERVAL_S)
        there = self._find()
        before = len(there)
        called, self._called = self._called, set()
        used = {peer_of(call.peer) for call in self._calls if call.peer}
        for connection in there:
            connection.is_used = connection.peer in used
            connection.is_known = connection.is_known or connection.is_used or connection.peer in called
        for connection in there:
            if not connection.is_known and _received(connection) > MAX_STRANGER_BYTES:
                self._drop(there, connection)
        settled = [connection for connection in there if connection.waits_s > PATIENCE_S and not connection.is_known]
        while (dropped := to_drop(settled, self._most, self._max_of_address)) is not None:
            settled.remove(dropped)
            self._drop(there, dropped)
        strangers = [connection for connection in there if not connection.is_known]
        while (dropped := to_drop(strangers, self._most // 2, self._most)) is not None:
            strangers.remove(dropped)
            self._drop(there, dropped)
        # In its own server, gRPC refuses further ones from here on, so some room is made before that.
        is_full = False
        while len(there) > self._most - self._most // 8:
            waiting = to_drop([_Waiting(connection) for connection in there], 0, self._most)
            if waiting is None:
                is_full = True
                break
            self._drop(there, waiting.of)
        self._note_full(is_full=is_full)
        return before - len(there)

    def _note_full(self, *, is_full: bool) -> None:
        """Notes whether further connections are refused, since nearly all that there may be have calls in progress."""
        part = f"{self._protocol} connections"
        if is_full:
            log_full(self._protocol, self._most)
            if self._faults is not None:
                self._faults.note(part, OwnFaultKind.DESCRIPTORS_EXHAUSTED, full(self._protocol, self._most), _FULL_REMEDY)
        elif self._faults is not None:
            self._faults.end(part, OwnFaultKind.DESCRIPTORS_EXHAUSTED)

    def _note(self, peer: str) -> None:
        self._called.add(peer_of(peer))

    def _find(self) -> list[_Connection]:
        found: dict[tuple[int, int], _Connection | None] = {}
        try:
            names = os.listdir(_FOLDER)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            # Even to look takes one: the watch of descriptors names that none is left.
            return [connection for connection in self._all.values() if connection is not None]
        for name in names:
            descriptor = int(name)
            try:
                status = os.fstat(descriptor)
            except OSError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                key = descriptor, status.st_ino
                found[key] = self._all[key] if key in self._all else self._connection(descriptor, status.st_ino)
        before = self._all
        self._all = {key: before[key] for key in before if key in found} | found
        return [connection for connection in self._all.values() if connection is not None]

    def _connection(self, descriptor: int, inode: int) -> _Connection | None:
        try:
            with _borrowed(descriptor, inode) as borrowed:
                if borrowed.family not in (socket.AF_INET, socket.AF_INET6) or borrowed.getsockname()[1] != self._port:
                    return None
                host, port = borrowed.getpeername()[:2]
        except OSError:
            # It listens, or it is closed meanwhile.
            return None
        return _Connection(descriptor, inode, (_plain(host), port))

    def _drop(self, there: list[_Connection], connection: _Connection) -> None:
        there.remove(connection)
        log_dropped(self._protocol, f"{connection.peer[0]}:{connection.peer[1]}")
        try:
            with _borrowed(connection.descriptor, connection.inode) as borrowed:
                # Whoever owns the descriptor learns of the end as if the client had closed.
                borrowed.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


@contextmanager
def _borrowed(descriptor: int, inode: int) -> Iterator[socket.socket]:
    """Provides another socket for a connection.

    Raises:
        OSError: the descriptor is closed, or already belongs to something else.
    """
    with socket.socket(fileno=os.dup(descriptor)) as borrowed:
        if os.fstat(borrowed.fileno()).st_ino != inode:
            raise OSError("another connection has this descriptor now")
        yield borrowed


def _received(connection: _Connection) -> int:
    """Returns how many bytes a client has sent; 0 where the system does not tell."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    try:
        with _borrowed(connection.descriptor, connection.inode) as borrowed:
            told = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.stop)
    except OSError:
        return 0
    return int.from_bytes(told[_BYTES_RECEIVED], "little")


def peer_of(text: str) -> Peer:
    """Returns the address and the port in the name that gRPC, or the HTTP server, gives a client."""
    address = unquote(text).removeprefix("ipv4:").removeprefix("ipv6:")
    host, _, port = address.rpartition(":")
    return _plain(host.strip("[]")), int(port) if port.isdecimal() else 0


def _plain(host: str) -> str:
    """Returns an address as IPv4 if it is one."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
