"""A gRPC server that plays the gateway, and calls whose answers are scripted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from headrace.machine.ports import free_address

UNKNOWN_KIND = bytes([0x82, 0x7D, 0x00])
"""A serialized message of a kind that no version of the protocol has: field 2000, with nothing in it."""
UNKNOWN_CAPABILITY = 2000
"""A capability that no version of the protocol has."""

Request = TypeVar("Request")
Response = TypeVar("Response")
Trailing = tuple[tuple[str, str | bytes], ...]
"""Trailing metadata."""
Ending = tuple[grpc.StatusCode, str, Trailing]
"""How a call is to end."""


class GatewayServer:
    """Listens on a free port of 127.0.0.1; after a stop, on the same one. Subclasses are the service."""

    register: Callable[[Any, grpc.aio.Server], None]
    """Adds the service to a server: the generated `add_..._to_server`."""

    def __init__(self) -> None:
        self.port = 0
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens, `host:port`."""
        return f"127.0.0.1:{self.port}"

    async def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Begins to listen."""
        if not self.port:
            # None of the kernel's: an outgoing connection of any program could take it while the gateway is away.
            self.port = int(free_address().rpartition(":")[2])
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            # However often a connector pings, it is disconnected by what a check does alone.
            ("grpc.http2.max_ping_strikes", 0),
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
    """One call of a connector, from the gateway's side: it takes what the connector sends, and sends what it is given."""

    metadata: dict[str, str]
    inbox: asyncio.Queue[Request | None] = field(default_factory=asyncio.Queue)
    outgoing: asyncio.Queue[Response | Ending] = field(default_factory=asyncio.Queue)
    written: int = 0
    """How many messages gRPC has taken from the gateway."""

    def take(self, request: Request) -> None:
        """A message has arrived."""
        self.inbox.put_nowait(request)

    def close(self, status: grpc.StatusCode, details: str = "as the test says", trailing: Trailing = ()) -> None:
        """Ends the call, once what was put before is sent."""
        self.outgoing.put_nowait((status, details, trailing))

    async def ready_to_read(self) -> None:
        """Returns when the next message may be read; at once, unless a subclass says otherwise."""

    async def serve(self, requests: AsyncIterator[Request], context: Any) -> None:
        """Runs the call until either side ends it."""
        reading = asyncio.create_task(self._read(requests))
        writing = asyncio.create_task(self._write(context))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and (ending := writing.result())[0] is not grpc.StatusCode.OK:
                await context.abort(*ending)
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[Request]) -> None:
        try:
            await self.ready_to_read()
            async for request in requests:
                self.take(request)
                if request.HasField("goodbye"):  # type: ignore[attr-defined]
                    return
                await self.ready_to_read()
        finally:
            self.inbox.put_nowait(None)

    async def _write(self, context: Any) -> Ending:
        """Sends what is to be sent; returns how the call shall end."""
        while not isinstance(message := await self.outgoing.get(), tuple):
            await context.write(message)
            self.written += 1
        return message
