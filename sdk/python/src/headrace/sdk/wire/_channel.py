"""The gRPC channel to a gateway."""

import grpc
import grpc.aio

from headrace.contract.proxies import channel_options
from headrace.sdk._settings import Endpoint
from headrace.sdk.wire._certificates import credentials

_OPTIONS: list[tuple[str, int | str]] = [
    # Frames are limited by the gateway's Welcome, not here.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Detects within 15 s that the gateway has disappeared without closing the connection.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Every attempt uses a new channel; the caller handles backoff.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Retries inside gRPC would keep copies of sent messages.
    ("grpc.enable_retries", 0),
    # Probing for a good window size costs a ping with nearly every message; a fixed, large window costs nothing.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.write_buffer_size", 1 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
]


def open_channel(endpoint: Endpoint) -> grpc.aio.Channel:
    """Creates a channel, which connects on the first call.

    Raises:
        InvalidCertificates: A certificate file cannot be used.
    """
    options = [*_OPTIONS, *channel_options(endpoint.gateway)]
    if endpoint.tls is None:
        return grpc.aio.insecure_channel(endpoint.gateway, options=options)
    if endpoint.tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", endpoint.tls.server_name))
    return grpc.aio.secure_channel(endpoint.gateway, credentials(endpoint.tls, endpoint.tls_names), options=options)


def metadata(endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
    """Returns the metadata to send with every call."""
    return () if endpoint.token is None else (("authorization", f"Bearer {endpoint.token}"),)
