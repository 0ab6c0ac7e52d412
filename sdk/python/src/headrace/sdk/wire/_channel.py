"""The gRPC channel to a gateway, and what its statuses mean."""

import re

import grpc
import grpc.aio

from headrace.sdk._errors import (
    GatewayRefused,
    GatewayUnavailable,
    InvalidSource,
    SessionEnded,
    SessionTakenOver,
    StreamNotPermitted,
)
from headrace.sdk._settings import Endpoint, Tls

_OPTIONS: list[tuple[str, int | str]] = [
    # Frames are limited by the gateway's Welcome, not here.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A gateway that is gone without a word is noticed within 15 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Every attempt has a channel of its own and fails on its own: backing off is the caller's.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Retries inside gRPC would keep copies of what is sent.
    ("grpc.enable_retries", 0),
    # Probing for a good window costs a ping with nearly every message; a window that suits any network costs nothing.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.write_buffer_size", 1 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
]

# INTERNAL and UNKNOWN are what gRPC makes of broken transports and of a gateway's own failure.
_TRANSIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.OK,
}

# What a server, or a proxy before it, that counts pings more strictly has to say; it looks like one of the gateway's limits.
_PINGED_TOO_OFTEN = re.compile(r"too[ _]many[ _]pings|ENHANCE_YOUR_CALM", re.IGNORECASE)


def open_channel(endpoint: Endpoint) -> grpc.aio.Channel:
    """Makes a channel; it connects with the first call.

    Raises:
        InvalidSource: A certificate file cannot be read.
    """
    if endpoint.tls is None:
        return grpc.aio.insecure_channel(endpoint.gateway, options=_OPTIONS)
    options = list(_OPTIONS)
    if endpoint.tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", endpoint.tls.server_name))
    return grpc.aio.secure_channel(endpoint.gateway, _credentials(endpoint.tls), options=options)


def metadata(endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
    """What goes with every call."""
    return () if endpoint.token is None else (("authorization", f"Bearer {endpoint.token}"),)


def call_ended(gateway: str, status: grpc.StatusCode, details: str) -> SessionEnded:
    """The error for a call that ended with this status."""
    text = f"gateway {gateway}: {details or 'no reason given'} ({status.name})"
    if status in _TRANSIENT or (status == grpc.StatusCode.RESOURCE_EXHAUSTED and _PINGED_TOO_OFTEN.search(details)):
        return GatewayUnavailable(text, status.name)
    if status == grpc.StatusCode.ABORTED:
        return SessionTakenOver(f"{text}; give each running copy of a connector an instance of its own", status.name)
    if status == grpc.StatusCode.PERMISSION_DENIED:
        return StreamNotPermitted(text, status.name)
    return GatewayRefused(text, status.name)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Reads the certificate files."""
    try:
        return grpc.ssl_channel_credentials(
            root_certificates=None if tls.ca is None else tls.ca.read_bytes(),
            private_key=None if tls.key is None else tls.key.read_bytes(),
            certificate_chain=None if tls.certificate is None else tls.certificate.read_bytes(),
        )
    except OSError as error:
        raise InvalidSource(f"cannot read the certificate file {error.filename}: {error.strerror}") from error
