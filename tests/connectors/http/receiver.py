"""A web server that answers as a test wants, and remembers what it was sent."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDictProxy

Answer = int | web.Response


@dataclass(frozen=True)
class Received:
    """A request."""

    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes


@dataclass
class Receiver:
    """The requests and their answers."""

    url: str = ""
    requests: list[Received] = field(default_factory=list)
    answer: Callable[[Received], Answer] = lambda request: 204
    """What each request is answered; an exception breaks its connection."""
    hold: asyncio.Event | None = None
    """Where set, no request is answered before this is."""
    busy: int = 0
    most_busy: int = 0

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    def keys(self, header: str = "Idempotency-Key") -> list[str]:
        return [request.headers[header] for request in self.requests]

    def answers(self, *answers: Answer) -> None:
        """Answers so, one request after the other, and 204 from then on."""
        left = list(answers)
        self.answer = lambda request: left.pop(0) if left else 204

    async def take(self, request: web.Request) -> web.Response:
        received = Received(request.method, request.path_qs, request.headers, await request.read())
        self.requests.append(received)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            if self.hold is not None:
                await self.hold.wait()
            answer = self.answer(received)
        finally:
            self.busy -= 1
        if answer == 0:
            assert request.transport is not None
            request.transport.abort()
            answer = 204
        return web.Response(status=answer) if isinstance(answer, int) else answer


@asynccontextmanager
async def receiving(bound: socket.socket | None = None) -> AsyncIterator[Receiver]:
    """A receiver on a free port, or on a socket that is bound."""
    receiver = Receiver()
    app = web.Application(client_max_size=64 << 20)
    app.add_routes([web.route("*", "/{path:.*}", receiver.take)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0) if bound is None else web.SockSite(runner, bound)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/in"
    try:
        yield receiver
    finally:
        await runner.cleanup()
