"""A network between a client and a server of this machine, which can be cut, and can refuse."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_CHUNK = 64 * 1024
_DEADLINE_S = 90.0
# SO_LINGER with no time left: closing sends a reset, as a host does that knows nothing of the connection.
_RESET = struct.pack("ii", 1, 0)


class FaultyNetwork:
    """Forwards a port of its own to another one. Its methods may be called from any thread, and have happened when they return.

    It works in a thread of its own, so that clients which block, and event loops, may be tested with it.
    """

    host = "127.0.0.1"

    def __init__(self, target: int, port: int | None = None) -> None:
        """Forwards to a port.

        Args:
            target: Where the server listens.
            port: Where to listen; None for any free port.
        """
        self._target = target
        self._listener = self._listen(port or 0)
        self.port: int = self._listener.getsockname()[1]
        self._links: set[asyncio.Task[None]] = set()
        self._sockets: set[socket.socket] = set()
        self._loop = asyncio.new_event_loop()
        self._passes = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> "FaultyNetwork":
        self._thread.start()
        self._do(self._accept())
        self._passes.set()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_DEADLINE_S)
        self._loop.close()

    @property
    def address(self) -> str:
        """Where clients connect, as host:port."""
        return f"{self.host}:{self.port}"

    def cut(self) -> None:
        """Lets nothing pass from now on: connections stay open and hang, new ones too."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Resets all connections, and refuses new ones."""
        self._do(self._close())

    def reset(self) -> None:
        """Resets all connections; new ones are served."""
        self._do(self._drop())

    def restore(self) -> None:
        """Serves again. Packets that it held back while it was cut arrive now, late."""
        self._do(self._restore())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_DEADLINE_S)

    async def _cut(self) -> None:
        self._passes.clear()

    async def _restore(self) -> None:
        if self._listener.fileno() < 0:
            self._listener = self._listen(self.port)
            await self._accept()
        self._passes.set()

    async def _close(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        await self._drop()

    async def _drop(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server((self.host, port), backlog=100)
        listener.setblocking(False)
        return listener

    async def _accept(self) -> None:
        self._loop.add_reader(self._listener, self._take)

    def _take(self) -> None:
        with suppress(BlockingIOError):
            client, _ = self._listener.accept()
            client.setblocking(False)
            link = self._loop.create_task(self._link(client))
            self._links.add(link)
            link.add_done_callback(self._links.discard)

    async def _link(self, client: socket.socket) -> None:
        """Carries one connection, until both sides have ended it or one of them breaks it."""
        server = socket.socket()
        server.setblocking(False)
        broken = True
        try:
            await self._passes.wait()
            await self._loop.sock_connect(server, (self.host, self._target))
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(client, server))
                both.create_task(self._carry(server, client))
            broken = False
        except* OSError:
            pass
        finally:
            for end in (client, server):
                with suppress(OSError):
                    if broken:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.close()

    async def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        """Carries one direction to its end."""
        while data := await self._loop.sock_recv(source, _CHUNK):
            await self._passes.wait()
            await self._loop.sock_sendall(sink, data)
        await self._passes.wait()
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
