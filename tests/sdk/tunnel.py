"""A proxy that opens tunnels (HTTP CONNECT), and remembers what clients asked of it."""

import asyncio

from tests.forwarding import Forwarder

_CHUNK = 65536


class TunnelProxy(Forwarder):
    """Connects each client to one port of this machine, whichever host it asks for: the host need not exist."""

    def __init__(self, target: int) -> None:
        """Creates the proxy, which does not listen yet."""
        super().__init__(target)
        self.requests: list[str] = []
        """The first line of each request."""
        self.tunnels: list[bytes] = []
        """What each client has sent first through its tunnel."""

    @property
    def url(self) -> str:
        """The value of a variable such as `https_proxy` names."""
        return f"http://{self.address}"

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Grants a request."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.partition(b"\r\n")[0].decode())
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        first = await reader.read(_CHUNK)
        if not first:
            raise EOFError
        self.tunnels.append(first)
        return first
