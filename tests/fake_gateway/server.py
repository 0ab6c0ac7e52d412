"""What the fake gateways for connectors share: a real gRPC server, and calls whose answers a test scripts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

DEADLINE = 30.0
"""How long a test waits for a connector, in seconds."""

Request = TypeVar("Request")
Response = TypeVar("Response")
Trailing = tuple[tuple[str, str | bytes], ...]
"""Trailing metadata."""


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that only shows in a connector's own state."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.002)


class FakeServer:
    """Listens on a free port of 127.0.0.1; after a stop, on the same one. Subclasses are the service."""

    register: Callable[[Any, grpc.aio.Server], None]
    """Adds the service to a server: the generated `add_..._to_server`."""

    def __init__(self) -> None:
        self.port = 0
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.http2.min_ping_interval_without_data_ms", 1000),
            ("grpc.so_reuseport", 0),
        ]
        self._server = grpc.aio.server(options=options)
        type(self).register(self, self._server)
        if credentials is None:
            self.port = self._server.add_insecure_port(self.address)
        else:
            self.port = self._server.add_secure_port(self.address, credentials)
        await self._server.start()

    async def stop(self) -> None:
        """Cuts every connection."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None


@dataclass(eq=False, kw_only=True)
class ScriptedCall(Generic[Request, Response]):
    """One call of a connector, from the gateway's side: a test takes what it sends, and puts what it is to be told."""

    metadata: dict[str, str]
    inbox: asyncio.Queue[Request | None] = field(default_factory=asyncio.Queue)
    outgoing: asyncio.Queue[Response | tuple[grpc.StatusCode, str, Trailing]] = field(default_factory=asyncio.Queue)
    written: int = 0
    """How many messages gRPC has taken from the gateway."""

    def take(self, request: Request) -> None:
        """A message has come."""
        self.inbox.put_nowait(request)

    def close(self, status: grpc.StatusCode, details: str = "as the test says", trailing: Trailing = ()) -> None:
        """Ends the call, once what was put before is sent."""
        self.outgoing.put_nowait((status, details, trailing))

    def close_because(
        self, status: grpc.StatusCode, reason: str, details: str = "as the test says", domain: str = "headrace", **metadata: str
    ) -> None:
        """Ends the call with a reason for programs."""
        info = AnyMessage()
        info.Pack(ErrorInfo(reason=reason, domain=domain, metadata=metadata))
        rich = rpc_status.to_status(Status(code=status.value[0], message=details, details=[info]))
        self.close(status, details, rich.trailing_metadata)

    async def serve(self, requests: AsyncIterator[Request], context: Any) -> None:
        """Runs the call until either side ends it."""
        reading = asyncio.create_task(self._read(requests))
        writing = asyncio.create_task(self._write(context))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await context.abort(*writing.result())
        finally:
            reading.cancel()
            writing.cancel()

    async def _read(self, requests: AsyncIterator[Request]) -> None:
        try:
            async for request in requests:
                self.take(request)
                if request.HasField("goodbye"):  # type: ignore[attr-defined]
                    return
        finally:
            self.inbox.put_nowait(None)

    async def _write(self, context: Any) -> tuple[grpc.StatusCode, str, Trailing]:
        """Sends what the test wants sent; returns how the call shall end."""
        while not isinstance(message := await self.outgoing.get(), tuple):
            await context.write(message)
            self.written += 1
        return message
