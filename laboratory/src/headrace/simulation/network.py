"""The network between the processes: gRPC in memory, with the bytes of the real messages.

It delays messages, keeps them in order within a call only, limits how many are under way, and breaks as a network does: what is
under way is lost in either direction, and each side notices after a time of its own.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from headrace.simulation.loop import Loop, Process
from headrace.simulation.pipe import END, MAX_QUEUE, End, Pipe, Status

OK = Status(grpc.StatusCode.OK)
LOST = Status(grpc.StatusCode.UNAVAILABLE, "connection lost")
CANCELLED = Status(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
MAX_NOTICE_S = 12.0
"""The longest time after which a side notices that the other one is gone, in seconds."""

SESSIONS = {"SourceService/Ingest": "source", "SinkService/Attach": "sink"}
"""The methods that serve a session, and whose."""
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Details:
    """What an interceptor learns of a call: `grpc.HandlerCallDetails`."""

    method: str
    invocation_metadata: Metadata


@dataclass(frozen=True)
class Found:
    """What answers a call."""

    handler: Any
    """The handler; None if nobody knows the method."""
    is_served: bool
    """Whether it is one of a service; False if an interceptor refuses the call."""


@dataclass
class Server:
    """The services of one process."""

    process: Process
    find: Callable[[Details], Awaitable[Found]]
    """Returns the handler of a call: the interceptors of the server and its services."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many sessions its services have begun, answered, by method, and refused, by status."""


@dataclass
class Network:
    """All connections of one schedule."""

    loop: Loop
    source: random.Random
    failed: Callable[[str, BaseException], None]
    """Called with each error that a handler did not expect."""
    passed: Callable[[str], None]
    """Called when a server begins to serve a call, with its method."""
    said: set[str] = field(default_factory=set)
    """The texts with which calls have ended for their clients."""
    servers: dict[str, Server] = field(default_factory=dict)
    """The servers by the names of their roles."""
    address: str = "gateway"
    """The server that has the address: whoever connects now reaches it."""
    routes: dict[str, str] = field(default_factory=dict)
    """The servers that processes of a name reach in its place."""
    is_shared: bool = False
    """Whether all servers have the address: each call reaches any of them."""
    calls: "dict[Call, None]" = field(default_factory=dict)
    unreachable: dict[str, float] = field(default_factory=dict)
    """Until when a process of this name reaches no server."""

    def __post_init__(self) -> None:
        pick = self.source.choice
        self._base_s = pick([0.0002, 0.001, 0.005])
        self._slow_share = pick([0.0, 0.02, 0.1])
        self._slow_s = pick([0.05, 0.3, 2.0])
        self._late_notices = pick([0.0, 0.2, 0.5])
        self.window = pick([2, 4, 16, 1000, 1000])

    def call(self, method: str, metadata: Metadata = ()) -> "Call":
        """Begins a call of the current process."""
        return Call(self, self.loop.current(), method, metadata)

    def delay(self) -> float:
        """Returns how long a message takes, in seconds."""
        delay_s = self.source.random() * self._base_s
        if self._slow_share and self.source.random() < self._slow_share:
            delay_s += self.source.random() * self._slow_s
        return delay_s

    def notice_delay(self) -> float:
        """Returns after how long a side notices that the other one is gone, in seconds."""
        late = self.source.random() < self._late_notices
        return self.source.random() * (MAX_NOTICE_S if late else 0.01)

    def reached(self, client: Process) -> Server | None:
        """Returns the server that a process reaches; None if it cannot connect."""
        name = client.name.partition("#")[0]
        if self.unreachable.get(name, 0.0) > self.loop.now:
            return None
        to = self.source.choice(list(self.servers)) if self.is_shared and self.servers else self.routes.get(name, self.address)
        server = self.servers.get(to)
        return server if server is not None and server.process.alive else None


class ServerContext:
    """What a handler knows of its call: the part of `grpc.aio.ServicerContext` that the gateway needs."""

    def __init__(self, call: "Call", serialize: Callable[[Any], bytes]) -> None:
        self._call = call
        self._serialize = serialize
        self.status: Status | None = None

    def peer(self) -> str:
        """Returns the address of the client."""
        return f"simulated:{self._call.client.name}"

    async def send_initial_metadata(self, metadata: object) -> None:
        """Does nothing: a call has no other messages than its own."""

    async def write(self, message: Any) -> None:
        """Sends a response."""
        if self.status is None:  # gRPC discards what a handler returns after it has aborted its call.
            data = self._serialize(message)
            self._call.note_response()
            await self._call.responses.room()
            self._call.responses.send(data)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> None:
        """Ends the call with a status.

        Raises:
            grpc.aio.AbortError: Always.
        """
        self.status = Status(code, details, tuple(trailing))
        raise grpc.aio.AbortError("Locally aborted.")


class Call:
    """A call, as both sides see it."""

    def __init__(self, network: Network, client: Process, method: str, metadata: Metadata) -> None:
        self._network = network
        self._loop = network.loop
        self._metadata = metadata
        self.client = client
        self.method = method
        self.status: Status | None = None
        """How it ended for the client."""
        self._role = SESSIONS.get(method.rpartition(".")[2], "")
        """Whose session it is; empty if it is none."""
        self._over = self._loop.create_future()
        self._serving: asyncio.Task[Any] | None = None
        self._is_breaking = False
        self._is_answered = False
        self._has_read = False
        self.server = network.reached(client)
        self.responses = Pipe(self._loop, client, network.delay, network.window)
        reader = client if self.server is None else self.server.process
        self.requests = Pipe(self._loop, reader, network.delay, network.window)
        network.calls[self] = None
        if self.server is None:
            self.requests.cut()
            self._loop.call_later(self._network.source.random() * 0.02, self._finish, LOST, context=client.context)
        else:
            client.at_death.append(self._client_died)
            self.server.process.at_death.append(self._server_died)
            self.requests.last_arrival = self._loop.now + network.delay()
            self._loop.call_at(self.requests.last_arrival, self._begin, context=self.server.process.context)

    # The server's side.

    def _begin(self) -> None:
        if not self.requests.is_cut and self.server is not None:
            self._serving = self.server.process.spawn(self._serve(self.server), name=f"serve {self.method}")

    async def _serve(self, server: Server) -> None:
        self._network.passed(self.method.rpartition("/")[2])
        await asyncio.sleep(0)
        found = await server.find(Details(self.method, self._metadata))
        if self._role and found.is_served:
            server.counts[f"begun {self._role}"] += 1
        assert found.handler is not None, f"{self.method} is unknown"
        context = ServerContext(self, found.handler.response_serializer)
        status = OK
        try:
            await self._handle(found.handler, context)
        except grpc.aio.AbortError:
            pass
        except asyncio.CancelledError:
            status = Status(grpc.StatusCode.CANCELLED, "cancelled")
        except BaseException as error:
            self._network.failed(f"the handler of {self.method}", error)
            status = Status(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
        if self._role and context.status is not None and found.is_served:
            server.counts[f"refused {context.status.code.name}"] += 1
        self.requests.cut()
        if not self.responses.is_cut:
            self.responses.send(context.status or status)

    async def _handle(self, handler: Any, context: ServerContext) -> None:
        if handler.request_streaming:
            requests = self._parsed(handler.request_deserializer)
            if handler.response_streaming:
                answering = handler.stream_stream(requests, context)
                if hasattr(answering, "__aiter__"):
                    async for response in answering:
                        await context.write(response)
                else:
                    await answering
            else:
                await context.write(await handler.stream_unary(requests, context))
            return
        data = await self.requests.get()
        if isinstance(data, End | Status):
            return
        request = handler.request_deserializer(data)
        if handler.response_streaming:
            async for response in handler.unary_stream(request, context):
                await context.write(response)
        else:
            await context.write(await handler.unary_unary(request, context))

    def note_response(self) -> None:
        """Counts a session once it has its first response."""
        if self._role and not self._is_answered and self.server is not None:
            self._is_answered = True
            self.server.counts[f"answered {self._role}"] += 1

    async def _parsed(self, parse: Callable[[bytes], Any]) -> AsyncIterator[Any]:
        while isinstance(data := await self.requests.get(), bytes):
            yield parse(data)

    def _lose_client(self) -> None:
        """Tells the server that the client is gone: by the end of the requests, or first by cancelling the handler."""
        self.requests.end()
        if self._serving is not None and not self._serving.done():
            if self._network.source.random() < 0.5:
                self._serving.cancel()
            else:
                self._loop.call_later(self._network.source.random() * 0.002, self._serving.cancel)

    # The client's side.

    async def write(self, request: bytes) -> None:
        """Sends a request.

        Raises:
            asyncio.InvalidStateError: The call has ended.
        """
        if self.status is None:
            await self.requests.room()
        if self.status is not None:
            raise asyncio.InvalidStateError("RPC already finished.")
        if not self.requests.is_cut:
            self.requests.send(request)

    def done_writing(self) -> None:
        """Ends the requests."""
        if not self.requests.is_cut and self.status is None:
            self.requests.send(END)

    async def read(self) -> bytes | None:
        """Returns the next response; None if the call has ended, with any status."""
        if self.status is None or self.responses.items:
            item = await self.responses.get()
            if isinstance(item, bytes):
                self._has_read = True
                return item
            if isinstance(item, Status):
                self._finish(item)
        if self.status is None:
            await asyncio.shield(self._over)
        return None

    def cancel(self) -> None:
        """Ends the call, if it has not ended."""
        if self.status is None:
            if self._role and not self._has_read:
                self._network.said.add("has not answered within")
            self._finish(CANCELLED)
            self.responses.cut()
            if self.server is not None:
                at = max(self.requests.last_arrival, self._loop.now + self._network.delay())
                self._loop.call_at(at, self._lose_client, context=self.server.process.context)

    def _finish(self, status: Status) -> None:
        if self.status is None:
            self.status = status
            self._network.said.add(status.details or f"no reason given ({status.code.name})")
            self._network.calls.pop(self, None)
            self.responses.end()
            self.requests.cut()
            if not self._over.done():
                self._over.set_result(None)

    # Faults.

    def break_off(self, client_s: float, server_s: float) -> None:
        """Breaks the connection: what is under way is lost, and the sides notice after this many seconds."""
        if self._can_break():
            self.requests.cut()
            self.responses.cut()
            self._loop.call_later(client_s, self._finish, LOST, context=self.client.context)
            assert self.server is not None
            self._loop.call_later(server_s, self._lose_client, context=self.server.process.context)

    def half_close(self) -> None:
        """Ends the requests for the server, while the client continues to send."""
        if not self._is_breaking and self.status is None and self.server is not None:
            self.requests.send(END)
            self.requests.window = MAX_QUEUE

    def _client_died(self) -> None:
        if self._can_break():
            self.responses.cut()
            self._network.calls.pop(self, None)
            if self._network.source.random() < 0.5:
                self.requests.is_cut = True
            at = max(self.requests.last_arrival, self._loop.now) + self._network.notice_delay()
            assert self.server is not None
            self._loop.call_at(at, self._lose_client, context=self.server.process.context)

    def _server_died(self) -> None:
        if self._can_break():
            self.requests.cut()
            if self._network.source.random() < 0.5:
                self.responses.is_cut = True
            at = max(self.responses.last_arrival + 1e-9, self._loop.now + self._network.notice_delay())
            self._loop.call_at(at, self._finish, LOST, context=self.client.context)

    def _can_break(self) -> bool:
        """Returns whether the connection breaks now, and not before."""
        if self._is_breaking or self.status is not None or self.server is None:
            return False
        self._is_breaking = True
        return True
