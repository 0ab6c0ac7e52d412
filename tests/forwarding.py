"""A server that forwards each connection to a port of this machine, after it has spoken a protocol of its own with the client."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 65536


class Forwarder:
    """Listens while it is entered; `greet` is what it says itself."""

    host = "127.0.0.1"

    def __init__(self, target: int, port: int | None = None) -> None:
        """Forwards to a port; listens on another one, or on any free port."""
        self._target, self._listen = target, port or 0
        self._links: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Speaks with a client before it is connected; returns what it has sent for the other side meanwhile.

        Raises:
            OSError: It is not to be connected.
            EOFError: It has left.
        """
        return b""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, self._listen)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    @property
    def address(self) -> str:
        """Where clients connect, as host:port."""
        return f"{self.host}:{self.port}"

    def cut(self) -> None:
        """Breaks all connections; new ones are served."""
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.create_task(self._link(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one connection to its end."""
        ends = {writer}
        self._writers.add(writer)
        try:
            first = await self.greet(reader, writer)
            inner_reader, inner_writer = await asyncio.open_connection(self.host, self._target)
            ends.add(inner_writer)
            self._writers.add(inner_writer)
            inner_writer.write(first)
            await asyncio.gather(_carry(reader, inner_writer), _carry(inner_reader, writer))
        except (OSError, EOFError):
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries one direction to its end, which ends the other one as well."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
