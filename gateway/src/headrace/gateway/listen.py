"""The gRPC server: its options, its interceptors, and the address it listens on. And the address of the HTTP server."""

import errno
import logging
import os
import socket
from collections.abc import Sequence

import grpc.aio

from headrace.contract.addresses import is_loopback, joined_address, keepalive_options, open_listeners
from headrace.contract.errors import HeadraceError
from headrace.gateway.config import Config, Limits, split_address
from headrace.gateway.connections import max_connections
from headrace.gateway.core.connections import ClientCertificates, OpenCalls, Refusals
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.services import interceptors
from headrace.gateway.tls import server_credentials


class GatewayError(HeadraceError):
    """The root of the errors that starting a gateway raises. Each class defines the exit code of the command."""

    exit_code = 1


class ListenError(GatewayError):
    """The gateway cannot listen on its address; the text gives the reason and the remedy."""

    exit_code = 3


MAX_CALLS_PER_CONNECTION = 500
_POSITIONS_BYTES = 64 * 2**20
"""How large the positions of a query may be in one message, in bytes."""
_IDLE_MS, _ANSWERS_WITHIN_MS = 30_000, 10_000
"""When the gateway asks whether a client is there, and how long that may take to answer."""
_HANDSHAKE_TIMEOUT_MS = 10_000
_IDLE_TIMEOUT_MS = 15 * 60_000
_HTTP_BACKLOG = 128
_LISTEN, _HTTP_LISTEN = "--listen, or listen in its file", "--http-listen, or http_listen of [gateway] in a deployment"
"""How a user chooses the addresses."""
_ANY = ("0.0.0.0", "::")
"""What gRPC itself takes for all addresses of both families."""

_log = logging.getLogger("headrace.gateway")


def max_request_bytes(limits: Limits) -> int:
    """Returns gRPC's limit of a message that a client sends, in bytes.

    The gateway's own check names the limit of a frame in its error; this one only stops messages far above it. An Attach has two
    positions of each stream of a query, and a cursor may have 64 KiB.
    """
    return min(max(2 * limits.max_frame_bytes + 2**20, _POSITIONS_BYTES), 2**31 - 1)


def new_server(
    config: Config, registry: TokenRegistry, calls: OpenCalls, refusals: Refusals, clients: ClientCertificates | None = None
) -> grpc.aio.Server:
    """Creates a server that authenticates callers with the registry's tokens. It has no services and no address yet.

    Args:
        config: The configuration.
        registry: The tokens.
        calls: Where its calls are added while they are in progress.
        refusals: Where it is noted which calls are refused.
        clients: Where it is noted which certificates clients present; None if they present none.
    """
    options = [
        ("grpc.max_receive_message_length", max_request_bytes(config.limits)),
        ("grpc.max_send_message_length", -1),
        # Probing for a good window size costs a ping with nearly every message; a fixed, large window costs nothing.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 4 << 20),
        ("grpc.http2.max_frame_size", 1 << 20),
        # A second gateway on the same port must fail instead of sharing it.
        ("grpc.so_reuseport", 0),
        *keepalive_options(_IDLE_MS, _ANSWERS_WITHIN_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # The protocol allows a ping every 10 s; a slow network may deliver two at once.
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        # A call costs about 20 kB, even before its first message. Further calls wait in the client.
        ("grpc.max_concurrent_streams", MAX_CALLS_PER_CONNECTION),
        # The rest of the descriptors is for everything else. Further connections are closed as they come.
        ("grpc.max_allowed_incoming_connections", max_connections()),
        # What says nothing for this long is closed; a client connects again once it calls.
        ("grpc.max_connection_idle_ms", _IDLE_TIMEOUT_MS),
        # Connections that do not complete the handshake are dropped.
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_TIMEOUT_MS),
    ]
    return grpc.aio.server(interceptors=interceptors(registry, calls, refusals, clients), options=options)


def listen(server: grpc.aio.Server, config: Config) -> str:
    """Binds the server to the configured address, and returns the actual one.

    Raises:
        ListenError: the address cannot be bound; the error gives the reason.
    """
    host, port = split_address(config.listen)
    places = [config.listen] if host in _ANY else _places(config.listen)
    credentials = None if config.tls is None else server_credentials(config.tls)
    for place in places:
        try:
            port = server.add_insecure_port(place) if credentials is None else server.add_secure_port(place, credentials)
        except RuntimeError:
            raise ListenError(_why_not(place)) from None
    return joined_address(host, port)


def _places(address: str) -> list[str]:
    """Returns the addresses that a host stands for, with one port. gRPC would be content with the first one that is free."""
    listeners = _bound(address, _LISTEN)
    found = [joined_address(*listener.getsockname()[:2]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return found


def listen_http(config: Config) -> Sequence[socket.socket]:
    """Binds sockets to the address of the HTTP server; returns none if it has none.

    A default address that is taken is no error, so that nothing but a log line tells a second gateway from the first.

    Raises:
        ListenError: the configured address cannot be bound; the error gives the reason.
    """
    address = config.http_address()
    if address is None:
        return ()
    try:
        return _bound(address, _HTTP_LISTEN)
    except ListenError as error:
        if config.http.listen != "auto":
            raise
        _log.warning("gateway has no HTTP server", extra={"error": str(error)})
        return ()


def _why_not(address: str) -> str:
    """Explains why an address cannot be bound. gRPC gives no reason, so this tries to bind it with a socket."""
    try:
        for listener in _bound(address, _LISTEN):
            listener.close()
    except ListenError as error:
        return str(error)
    return f"cannot listen on {address}"


def _bound(address: str, option: str) -> list[socket.socket]:
    """Returns the sockets that listen on an address.

    Raises:
        ListenError: it cannot be bound; the error gives the reason, and advice with the option that sets the address.
    """
    host, port = split_address(address)
    try:
        return open_listeners(host, port, _HTTP_BACKLOG)
    except socket.gaierror:
        raise ListenError(f"cannot listen on {address}: the host name {host!r} is not known") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = f"another program uses this port; stop it, or choose another port (0 picks a free one) with {option}"
        elif error.errno == errno.EADDRNOTAVAIL:
            advice = f"this machine has no such address; to listen on all that it has, set 0.0.0.0:PORT with {option}"
        elif error.errno == errno.EACCES:
            advice = f"this user may not use this port; choose one above 1023 with {option}"
        else:
            advice = os.strerror(error.errno or 0)
        raise ListenError(f"cannot listen on {address}: {advice}") from None


def exposure(config: Config) -> str | None:
    """Returns the warning to log if others can use this gateway without TLS or credentials; None if there is none."""
    host, _ = split_address(config.listen)
    if is_loopback(host):
        return None
    if config.tls is None:
        return "traffic is not encrypted, and others can reach this address (insecure = true)"
    if not config.tokens and config.tls.client_ca is None:
        return "anyone who can reach this address may send and read: configure tokens or tls.client_ca"
    return None
