"""The gRPC server itself: its options, its guard, and the address it listens on."""

import errno
import os
import socket

import grpc.aio

from headrace.gateway._config import Config, is_loopback, split_address
from headrace.gateway._errors import ListenError
from headrace.gateway._identity import Guard, TokenRegistry
from headrace.gateway._tls import server_credentials
from headrace.gateway.services import RefuseGarbage

MAX_CALLS_PER_CONNECTION = 500
_HANDSHAKE_TIMEOUT_MS = 10_000


def new_server(config: Config, registry: TokenRegistry) -> grpc.aio.Server:
    """A server behind a guard that knows the registry's tokens; it has no services and no address yet."""
    options = [
        # The gateway's own check names the limit; gRPC's only has to stop what is far beyond it.
        ("grpc.max_receive_message_length", min(2 * config.limits.max_frame_bytes + 2**20, 2**31 - 1)),
        ("grpc.max_send_message_length", -1),
        # Probing for a good window costs a ping with nearly every message; a window that suits any network costs nothing.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 4 << 20),
        ("grpc.http2.max_frame_size", 1 << 20),
        # A second gateway on the same port must fail, not share it.
        ("grpc.so_reuseport", 0),
        # A client that vanished without a word is noticed within 40 seconds.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # The protocol promises to take a ping every 10 s, of which a slow network may bring two at once.
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        # A call costs some 20 kB, also one that has said nothing yet. Further ones wait in the client.
        ("grpc.max_concurrent_streams", MAX_CALLS_PER_CONNECTION),
        # Whoever connects and says nothing sensible is dropped.
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_TIMEOUT_MS),
    ]
    return grpc.aio.server(interceptors=[Guard(registry), RefuseGarbage()], options=options)


def listen(server: grpc.aio.Server, config: Config) -> str:
    """Binds the server to the configured address and returns the actual one; raises ListenError where that cannot be."""
    host, _ = split_address(config.listen)
    try:
        if config.tls is None:
            port = server.add_insecure_port(config.listen)
        else:
            port = server.add_secure_port(config.listen, server_credentials(config.tls))
    except RuntimeError:
        raise ListenError(_why_not(config.listen)) from None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why_not(address: str) -> str:
    """GRPC does not say why it could not bind; the operating system does."""
    host, port = split_address(address)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except socket.gaierror:
        return f"cannot listen on {address}: the host name {host!r} is not known"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = "another program has this port; stop it, or choose another with --listen (port 0 takes a free one)"
        elif error.errno == errno.EADDRNOTAVAIL:
            advice = "this machine has no such address; --listen 0.0.0.0:PORT takes all that it has"
        elif error.errno == errno.EACCES:
            advice = "this user may not take this port; choose one above 1023 with --listen"
        else:
            advice = os.strerror(error.errno or 0)
        return f"cannot listen on {address}: {advice}"
    return f"cannot listen on {address}"


def exposure(config: Config) -> str | None:
    """What to warn of: who may talk to this gateway without showing anything."""
    host, _ = split_address(config.listen)
    if is_loopback(host):
        return None
    if config.tls is None:
        return "traffic is not encrypted, and others can reach this address (insecure = true)"
    if not config.tokens and config.tls.client_ca is None:
        return "anybody who reaches this address may send and read: configure tokens or tls.client_ca"
    return None
