"""How the SDK reaches a gateway: by gRPC, or by whatever a simulation puts in its place."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import grpc

from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceStub
from headrace.protocol.v1.source_pb2_grpc import SourceServiceStub
from headrace.sdk._settings import Endpoint
from headrace.sdk.wire._channel import metadata, open_channel

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
