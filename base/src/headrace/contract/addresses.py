"""Addresses of servers: how they are written, which of them are this machine, and the sockets that listen on one."""

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Iterator
from dataclasses import dataclass

_LOOPBACK = ("127.0.0.1", "::1")
_ANY = ("::", "0.0.0.0")
_NOT_OF_THIS_MACHINE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_ATTEMPTS = 20
_GRPC_SCHEMES = ("dns", "ipv4", "ipv6")

VANISHED_S = 60
"""How long it takes at most to notice that the machine or network of a client has gone without closing, in seconds."""
_IDLE_S, _PROBE_S, _PROBES = 15, 10, 3


def split_address(address: str) -> tuple[str, int]:
    """Splits `host:port` or `[v6]:port`.

    Raises:
        ValueError: The address has neither form.
    """
    host, colon, port = address.rpartition(":")
    plain = port.isascii() and port.isdecimal() and int(port) <= 65535
    if not colon or not host or not plain or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise ValueError(f"{address!r} is not host:port; write for instance 127.0.0.1:7433, 0.0.0.0:7433 or [::1]:7433")
    return host.strip("[]"), int(port)


def joined_address(host: str, port: int) -> str:
    """Returns `host:port`, or `[v6]:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Returns whether a host is one that only this machine itself can reach: `localhost`, or a loopback address as it is written.

    Nothing else counts, in particular no name that a name server may know.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def leads_here(target: str) -> bool:
    """Returns whether a client that connects to this address, `host:port` or a target of gRPC, stays on this machine.

    Names other than `localhost` are not resolved. A client that connects to the unspecified address reaches its own machine.
    """
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = host_of(target)
    if _is_localhost(host):
        return True
    found = _as_ip(host)
    return found is not None and (found.is_loopback or found.is_unspecified)


def host_of(target: str) -> str:
    """Returns the host of `host`, `host:port`, `[v6]:port` or a target of gRPC such as `dns:///host:port`."""
    scheme, colon, rest = target.partition(":")
    if colon and scheme in _GRPC_SCHEMES:
        target = rest.rpartition("/")[2].replace("%5B", "[").replace("%5D", "]")
    if target.startswith("["):
        return target[1:].partition("]")[0]
    return target if target.count(":") > 1 else target.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Place:
    """What one socket is bound to."""

    family: socket.AddressFamily
    host: str


def open_listeners(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Opens the sockets of a server: one for each address of the host that belongs to this machine, all with the same port.

    `localhost` is both loopback addresses, whatever the system's list of hosts says, and `::` is every address of both
    families; `0.0.0.0` is every address of IPv4. The end of a client that vanishes is noticed within `VANISHED_S`.

    Args:
        host: The name or address.
        port: The port; 0 for any free one.
        backlog: How many connections may wait to be accepted.

    Raises:
        OSError: The host is not known (then it is a `socket.gaierror`), or one of its addresses cannot be used.
    """
    places = list(_places(host, port))
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _opened(places, port, backlog)
        except OSError as error:
            # A port that is free on one address may be in use on another one.
            if port or error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _opened(places: list[_Place], port: int, backlog: int) -> list[socket.socket]:
    with contextlib.ExitStack() as stack:
        listeners: list[socket.socket] = []
        absent: OSError | None = None
        for place in places:
            try:
                listener = stack.enter_context(_listener(place, port, backlog))
            except OSError as error:
                if error.errno not in _NOT_OF_THIS_MACHINE:
                    raise
                absent = error
            else:
                listeners.append(listener)
                port = listener.getsockname()[1]
        if not listeners:
            assert absent is not None
            raise absent
        stack.pop_all()
        return listeners


def _listener(place: _Place, port: int, backlog: int) -> socket.socket:
    listener = socket.socket(place.family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if place.family == socket.AF_INET6:
            # Addresses of IPv4 have sockets of their own, so that clients have their plain addresses.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _notice_vanished(listener)
        listener.bind((place.host, port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _notice_vanished(listener: socket.socket) -> None:
    """Sets what accepted connections inherit: probes of a silent client, and a limit of what it does not acknowledge."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": _IDLE_S,
        "TCP_KEEPALIVE": _IDLE_S,  # what macOS calls it
        "TCP_KEEPINTVL": _PROBE_S,
        "TCP_KEEPCNT": _PROBES,
        # Linux looks at it with each probe.
        "TCP_USER_TIMEOUT": (VANISHED_S - _IDLE_S) * 1000,
    }
    for name, value in options.items():
        if (option := getattr(socket, name, None)) is not None:
            listener.setsockopt(socket.IPPROTO_TCP, option, value)


def keepalive_options(idle_ms: int, answer_ms: int) -> list[tuple[str, int]]:
    """Returns the options with which gRPC drops a connection whose peer is gone or frozen: the kernel answers for a frozen one.

    Args:
        idle_ms: After how long without a message it asks, in milliseconds.
        answer_ms: How long the peer may take to answer, in milliseconds.
    """
    return [
        ("grpc.keepalive_time_ms", idle_ms),
        ("grpc.keepalive_timeout_ms", answer_ms),
        # Any ping has a limit, of 60 s unless it is set, and a ping of keepalive is not given up before it.
        ("grpc.http2.ping_timeout_ms", answer_ms),
    ]


def _places(host: str, port: int) -> Iterator[_Place]:
    """Yields each address of a host once."""
    if host in ("::", "*"):
        names = list(_ANY)
    elif _is_localhost(host):
        names = list(_LOOPBACK)
    else:
        names = [host]
    found = set[_Place]()
    for name in names:
        for family, _, _, _, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM):
            place = _Place(family, str(address[0]))
            if place not in found and family in (socket.AF_INET, socket.AF_INET6):
                found.add(place)
                yield place


def _is_localhost(host: str) -> bool:
    plain = host.lower().removesuffix(".")
    return plain == "localhost" or plain.endswith(".localhost")


def _as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns an address, also one of IPv4 in IPv6, or in a short form that resolvers know, such as 127.1; None for a name."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host)) if host[:1].isdecimal() else None
        except OSError:
            return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found
