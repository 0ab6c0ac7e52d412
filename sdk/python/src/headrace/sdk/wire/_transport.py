"""How the SDK reaches a gateway: by gRPC, or by whatever a simulation puts in its place."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from headrace.contract.addresses import keepalive_options
from headrace.contract.proxies import channel_options
from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceStub
from headrace.protocol.v1.source_pb2_grpc import SourceServiceStub
from headrace.sdk._settings import Endpoint
from headrace.sdk.wire._certificates import credentials

_OPTIONS: list[tuple[str, int | str]] = [
    # Frames are limited by the gateway's Welcome, not here.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Detects within 15 s that the gateway is gone or frozen.
    *keepalive_options(10_000, 5_000),
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
_Request = TypeVar("_Request", contravariant=True)


class Stream(Protocol[_Request]):
    """A call with messages in both directions: the part of `grpc.aio.StreamStreamCall` that the SDK needs."""

    async def read(self) -> Any:
        """Returns the next response, or `grpc.aio.EOF` at the end of the call.

        Raises:
            grpc.aio.AioRpcError: The call broke.
        """

    async def write(self, request: _Request) -> None:
        """Sends a request; waits while the peer applies backpressure.

        Raises:
            asyncio.InvalidStateError: The call has ended.
            grpc.aio.AioRpcError: The call broke.
        """

    def cancel(self) -> bool:
        """Ends the call."""

    async def code(self) -> grpc.StatusCode:
        """Returns the status with which the call ended."""

    async def details(self) -> str:
        """Returns the text with which the call ended."""

    async def trailing_metadata(self) -> Any:
        """Returns the metadata with which the call ended."""


class Connection(Protocol):
    """A connection to a gateway, on which a session can begin."""

    def ingest(self) -> Stream[source_pb2.IngestRequest]:
        """Begins the session of a source."""

    def attach(self) -> Stream[sink_pb2.SinkServiceAttachRequest]:
        """Begins the session of a sink."""


Transport = Callable[[Endpoint], AbstractAsyncContextManager[Connection]]
"""Connects to a gateway, for one session."""


class _GrpcConnection:
    """A connection over a gRPC channel."""

    def __init__(self, endpoint: Endpoint, channel: grpc.aio.Channel) -> None:
        self._metadata = metadata(endpoint)
        self._channel = channel

    def ingest(self) -> Stream[source_pb2.IngestRequest]:
        return SourceServiceStub(self._channel).Ingest(metadata=self._metadata)

    def attach(self) -> Stream[sink_pb2.SinkServiceAttachRequest]:
        return SinkServiceStub(self._channel).Attach(metadata=self._metadata)


@contextlib.asynccontextmanager
async def over_grpc(endpoint: Endpoint) -> AsyncIterator[Connection]:
    """Connects by gRPC; the channel connects on the first call.

    Raises:
        InvalidCertificates: A certificate file cannot be used.
    """
    async with open_channel(endpoint) as channel:
        yield _GrpcConnection(endpoint, channel)


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
