"""A relay between a connector and its gateway that counts the pings of the connector. It understands HTTP/2 without TLS."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator

_PREFACE_BYTES, _HEADER_BYTES = 24, 9
_PING, _ACK = 6, 1
_CHUNK_BYTES = 1 << 16


class Http2Frames:
    """Splits what a client sends on an HTTP/2 connection into its preface and its frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._preface = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Takes bytes that have arrived; yields each piece that they complete."""
        self._buffer += data
        while (size := self._size()) is not None and len(self._buffer) >= size:
            yield bytes(self._buffer[:size])
            del self._buffer[:size]
            self._preface = False

    def _size(self) -> int | None:
        """The size of the next piece, once that is known."""
        if self._preface:
            return _PREFACE_BYTES
        if len(self._buffer) < _HEADER_BYTES:
            return None
        return _HEADER_BYTES + int.from_bytes(self._buffer[:3], "big")


def is_ping(frame: bytes) -> bool:
    """Whether a frame is a PING, and not the answer to one."""
    return len(frame) > _HEADER_BYTES and frame[3] == _PING and not frame[4] & _ACK


class PingCounter:
    """Listens on a free port of 127.0.0.1, and forwards each connection."""

    def __init__(self, port: int) -> None:
        """Forwards to a port of 127.0.0.1."""
        self.pings = 0
        """How many have arrived, on all connections."""
        self._gateway_port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it listens, `host:port`."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def start(self) -> None:
        """Begins to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Cuts every connection."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        finally:
            self._connections.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one connection in both directions, until either side ends it."""
        with contextlib.suppress(OSError):
            gateway_reader, gateway_writer = await asyncio.open_connection("127.0.0.1", self._gateway_port)
            try:
                await until_one_ends(self._upwards(reader, gateway_writer), _copy(gateway_reader, writer))
            finally:
                writer.close()
                gateway_writer.close()

    async def _upwards(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = Http2Frames()
        while data := await reader.read(_CHUNK_BYTES):
            self.pings += sum(map(is_ping, frames.feed(data)))
            writer.write(data)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def until_one_ends(*ways: Coroutine[None, None, None]) -> None:
    """Runs the ways of a connection side by side; when one has ended, the others are cancelled."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
