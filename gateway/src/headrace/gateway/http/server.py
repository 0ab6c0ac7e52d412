"""Runs the HTTP application with uvicorn, on the gateway's event loop. Connections and their time are bounded."""

import asyncio
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.gateway.refusals import log_dropped, to_drop

MAX_CONNECTIONS = 100
"""How many connections there may be. For a further one, the one that waits longest without a known caller is dropped."""
MAX_OF_ADDRESS = 50
"""How many connections of one address there may be without a request of a known caller in progress."""
REQUEST_TIMEOUT_S = 30.0
"""How long a request, with its response, may take, and how long a client may take to read the end of the response."""
MAX_HEADER_BYTES = 16 * 2**10
"""The size in bytes of a request's line and headers."""
_IDLE_TIMEOUT_S = 5
_BACKLOG = 32
"""How many connections are accepted in one turn, before any of them can be dropped."""
_STOP_GRACE_S = 1


class _Connection(H11Protocol):
    """A connection that is dropped if it does not complete a request in time, whichever side of it is slow."""

    _deadline: asyncio.TimerHandle | None = None
    _has_ended = False
    """Whether the client sends nothing more."""
    _turns = itertools.count()
    turn = 0
    """Orders connections by when they began to wait: for their first request, or since their last one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.turn = next(self._turns)
        self._set_deadline(transport)
        # Those that are about to close have made room already.
        there = [each for each in self.connections if isinstance(each, _Connection) and not each.transport.is_closing()]
        there.sort(key=lambda each: each.turn)
        dropped = to_drop(there, MAX_CONNECTIONS, MAX_OF_ADDRESS)
        if dropped is not None:
            log_dropped("HTTP", dropped.peer)
            dropped.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]  # as in uvicorn
        """Lets a client that has closed its sending side have its answer; a stream of events ends."""
        self._has_ended = True
        in_progress = self.cycle is not None and not self.cycle.response_complete
        return in_progress and not self.is_stream

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # A further request may have come before the end.
        if self._has_ended and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()
        self.turn = next(self._turns)
        self._set_deadline(self.transport)

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client is not None else "unknown"

    @property
    def peer(self) -> str:
        """The address and the port of the client, for the log."""
        return f"{self.client[0]}:{self.client[1]}" if self.client is not None else "unknown"

    @property
    def is_known(self) -> bool:
        """Whether a request of a caller with a right is in progress."""
        in_progress = self.cycle is not None and not self.cycle.response_complete
        return in_progress and bool(self.scope["state"].get("is_known"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _set_deadline(self, transport: asyncio.Transport) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._drop, transport)

    def _drop(self, transport: asyncio.Transport) -> None:
        # A stream of events has no end, and limits how slow its client may be. A change that takes long limits its own time.
        if self.is_stream or self._takes_long:
            self._set_deadline(transport)
        else:
            transport.abort()

    @property
    def is_stream(self) -> bool:
        """Whether its response continues until one side ends it."""
        return self.scope is not None and bool(self.scope["state"].get("is_stream"))

    @property
    def _takes_long(self) -> bool:
        """Whether its request is whole, and the answer may come as late as the request permits."""
        return self.scope is not None and bool(self.scope["state"].get("takes_long"))


class _Server(uvicorn.Server):
    """A server that leaves signals to the gateway."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def http_server(app: ASGIApp, listeners: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Serves an application on sockets that listen. On leaving, requests in progress have a second to complete."""
    config: dict[str, Any] = {} if tls is None else {"ssl_context_factory": lambda config, default: tls}
    server = _Server(
        uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_IDLE_TIMEOUT_S,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_STOP_GRACE_S,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            **config,
        )
    )
    serving = asyncio.create_task(server.serve(list(listeners)))
    try:
        yield
    finally:
        server.should_exit = True
        for connection in list(server.server_state.connections):
            if isinstance(connection, _Connection) and connection.is_stream:
                connection.transport.close()
        await serving
        for connection in list(server.server_state.connections):
            # A client that does not read would keep the connection open.
            if connection.transport is not None:
                connection.transport.abort()
