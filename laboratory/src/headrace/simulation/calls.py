"""How the SDK and the engine's model call a gateway over the simulated network."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.sdk.wire import Connection, Stream, Transport
from headrace.simulation.network import Call, Metadata, Network
from headrace.simulation.pipe import Status

SERVICES = "/headrace.protocol.v1."
Response = TypeVar("Response", bound=Message)


class CallFailed(Exception):
    """A call of the engine failed."""

    def __init__(self, status: Status) -> None:
        super().__init__(f"{status.code.name}: {status.details}")
        self.status = status

    @property
    def code(self) -> grpc.StatusCode:
        """The status code."""
        return self.status.code

    @property
    def is_away(self) -> bool:
        """Whether the gateway is away, as the engine's `GatewayAway` means it."""
        broken = self.code is grpc.StatusCode.INTERNAL and "RST_STREAM" in self.status.details
        return broken or self.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

    def has_reason(self, reason: str) -> bool:
        """Whether the gateway names this reason."""
        return ("headrace-reason", reason) in self.status.trailing


class SessionCall:
    """The call of a connector: what `headrace.sdk.wire.Stream` needs."""

    def __init__(self, call: Call, response: type[Message]) -> None:
        self._call = call
        self._response = response

    async def read(self) -> Any:
        """Returns the next response; EOF at the end of the call."""
        data = await self._call.read()
        if data is not None:
            return self._response.FromString(data)
        status = self._status
        if status.code is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                status.code, grpc.aio.Metadata(), grpc.aio.Metadata(*status.trailing), details=status.details
            )
        return grpc.aio.EOF

    async def write(self, request: Message) -> None:
        """Sends a request."""
        await self._call.write(request.SerializeToString())

    def cancel(self) -> bool:
        """Ends the call."""
        self._call.cancel()
        return True

    async def code(self) -> grpc.StatusCode:
        """Returns the status code."""
        return self._status.code

    async def details(self) -> str:
        """Returns the text of the status."""
        return self._status.details

    async def trailing_metadata(self) -> Any:
        """Returns the trailing metadata."""
        return self._status.trailing

    @property
    def _status(self) -> Status:
        assert self._call.status is not None, "a call that has not ended has no status"
        return self._call.status


class NetworkConnection:
    """A connection on which sessions begin."""

    def __init__(self, network: Network, metadata: Metadata) -> None:
        self._network = network
        self._metadata = metadata

    def ingest(self) -> Stream[source_pb2.IngestRequest]:
        """Begins the session of a source."""
        call = self._network.call(f"{SERVICES}SourceService/Ingest", self._metadata)
        return SessionCall(call, source_pb2.IngestResponse)

    def attach(self) -> Stream[sink_pb2.SinkServiceAttachRequest]:
        """Begins the session of a sink."""
        call = self._network.call(f"{SERVICES}SinkService/Attach", self._metadata)
        return SessionCall(call, sink_pb2.SinkServiceAttachResponse)


def transport(network: Network) -> Transport:
    """Returns what `headrace.sdk.serve` reaches the gateway with."""

    @contextlib.asynccontextmanager
    async def connect(endpoint: Any) -> AsyncIterator[Connection]:
        yield NetworkConnection(network, _metadata(endpoint.token))

    return connect


@contextlib.asynccontextmanager
async def engine_call(network: Network, method: str) -> AsyncIterator[Call]:
    """Makes a call of the engine, with the token of the current process, and cancels it on exit.

    Raises:
        CallFailed: The call ended while a request was written.
    """
    call = network.call(f"{SERVICES}EngineService/{method}", _metadata(network.loop.current().token))
    try:
        yield call
    except asyncio.InvalidStateError:
        assert call.status is not None
        raise CallFailed(call.status) from None
    finally:
        call.cancel()


async def responses(call: Call, response: type[Response]) -> AsyncIterator[Response]:
    """Yields the responses of a call.

    Raises:
        CallFailed: It ended with an error.
    """
    while (data := await call.read()) is not None:
        yield response.FromString(data)
    assert call.status is not None
    if call.status.code is not grpc.StatusCode.OK:
        raise CallFailed(call.status)


async def answer(call: Call, response: type[Response]) -> Response:
    """Returns the response of a call that has one.

    Raises:
        CallFailed: It ended with an error, or without a response.
    """
    data = await call.read()
    if data is not None:
        return response.FromString(data)
    assert call.status is not None
    no_response = Status(grpc.StatusCode.INTERNAL, "RST_STREAM: no response")
    raise CallFailed(no_response if call.status.code is grpc.StatusCode.OK else call.status)


async def ask(network: Network, method: str, request: Message, response: type[Response], timeout_s: float) -> Response:
    """Makes a call of the engine with one request and one response.

    Raises:
        CallFailed: It failed, or exceeded the deadline.
    """
    try:
        async with asyncio.timeout(timeout_s), engine_call(network, method) as call:
            await call.write(request.SerializeToString())
            call.done_writing()
            return await answer(call, response)
    except TimeoutError:
        raise CallFailed(Status(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")) from None


def _metadata(token: str | None) -> Metadata:
    return () if token is None else (("authorization", f"Bearer {token}"),)
