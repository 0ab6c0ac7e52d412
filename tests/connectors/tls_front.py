"""A port in front of a server that speaks no TLS: it speaks TLS, asks clients for certificates, and remembers them."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from tests.forwarding import Forwarder
from tests.gateway.certificates import Authority

Preamble = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What comes before TLS in most protocols."""


async def ssl_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What comes before TLS in PostgreSQL's protocol: a request of eight bytes, and consent."""
    await reader.readexactly(8)
    writer.write(b"S")


class TlsFront(Forwarder):
    """Forwards what it has decrypted."""

    def __init__(
        self, target: int, authority: Authority, *, port: int | None = None, before: Preamble = nothing, anonymous: bool = False
    ) -> None:
        """Creates the front, which does not listen yet.

        Args:
            target: The port of the server.
            authority: Who signs the front's certificate, and its clients'.
            port: Where to listen; None for any free port.
            before: What both sides say before TLS.
            anonymous: Whether clients need no certificate.
        """
        super().__init__(target, port)
        self._before, self._anonymous = before, anonymous
        self._context = self._context_of(authority)
        self.presented: list[bytes | None] = []
        """The certificate of each connection, in DER; None if the client has none."""
        self.failures = 0
        """How many handshakes have failed, for instance because one side does not trust the other."""

    def use(self, authority: Authority) -> None:
        """Cuts all connections; new ones need the certificates of another authority."""
        self._context = self._context_of(authority)
        self.presented.clear()
        self.failures = 0
        self.cut()

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Shakes hands."""
        context, below = self._context, writer.transport
        await self._before(reader, writer)
        try:
            await writer.start_tls(context)
            if writer.transport is None:
                raise ConnectionAbortedError
        except OSError:
            self.failures += context is self._context
            raise
        finally:
            if writer.transport is None:
                # The connection was lost meanwhile, which asyncio's writer does not expect.
                writer._transport = below
        if context is not self._context:
            raise ConnectionAbortedError
        self.presented.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        return b""

    def _context_of(self, authority: Authority) -> ssl.SSLContext:
        own = authority.issue("server")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.cert)
        context.load_cert_chain(own.cert, own.key)
        context.verify_mode = ssl.CERT_NONE if self._anonymous else ssl.CERT_REQUIRED
        return context
