"""The client of nats-py, mended: for one connection, whose loss is told, and whose messages are as they came."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg

from headrace.connectors.nats._errors import NatsAway, NatsRefused, explain

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 2.0

Pairs = tuple[tuple[str, bytes], ...]


class Headers(dict[str, str]):
    """The headers of a message as nats-py has them, and as they came: names repeat, values may be any bytes."""

    pairs: Pairs = ()


class Client(nats.aio.client.Client):
    """A connection that is not made again by itself.

    nats-py would do that, and keep subscriptions and what is not sent. But what the server had sent into the old connection is
    lost, and acknowledgements may be, too: a reader that begins anew after its last message has no such gaps.
    """

    def __init__(self, where: str, *, encrypted: bool) -> None:
        """Connects to nothing yet.

        Args:
            where: The servers, for people.
            encrypted: Whether to send nothing, least of all a password, without TLS.
        """
        super().__init__()
        self.where = where
        self.denied = ""
        self.lost = False
        self.watchers: list[Callable[[], None]] = []
        self._encrypted = encrypted
        self._leaving = False
        self._cause: Exception = NatsAway(f"{where}: the connection was closed")

    @property
    def loss(self) -> Exception:
        """Why the connection is lost."""
        return explain(self._cause, self.where)

    async def complained(self, error: Exception) -> None:
        """Takes what nats-py reports by itself."""
        log.debug("%s: %r", self.where, error)
        if "permissions violation" in str(error).lower():
            self.denied = str(error).removeprefix("nats: ").strip("'")
            log.warning("%s: %s", self.where, self.denied)
        elif not isinstance(error, nats.errors.SlowConsumerError):
            self._cause = error

    def check_allowed(self) -> None:
        """Sees that the server has denied nothing, as far as it has answered.

        Raises:
            NatsRefused: It has.
        """
        if self.denied:
            raise NatsRefused(f"{self.where}: {self.denied}; grant it to this user")

    async def leave(self) -> None:
        """Closes the connection, whether or not the server still listens."""
        self._leaving = True
        # nats-py asserts that it has come far enough to be closed.
        with contextlib.suppress(TimeoutError, OSError, nats.errors.Error, AssertionError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.close()

    # nats-py leaves these five to nobody. Each mends what is amiss in 2.16.

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """Sees that a loss is told, and that nothing is left running: nats-py sends what is left, and stops where that fails."""
        if not self._leaving:
            self._pending.clear()
            self._pending_data_size = 0
        try:
            await super()._close(status, do_cbs)
        finally:
            for subscription in self._subs.values():
                subscription._stop_processing()
            self._subs.clear()
            self._lose()

    async def _send_ping(self, future: "asyncio.Future[bool] | None" = None) -> None:
        """Sends a ping after what is to be sent: nats-py lets it overtake, so that its answer would prove nothing."""
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(b"PING\r\n")
        await self._flush_pending()

    def _lose(self) -> None:
        """Tells that the connection is no more."""
        self.lost = True
        if self.last_error is not None and not self._leaving:
            self._cause = self.last_error
        for tell in self.watchers:
            tell()

    def _connect_command(self) -> bytes:
        """Sees that a login is not sent for everybody to read: nats-py leaves that to the server."""
        if self._encrypted and not (self._server_info.get("tls_required") or self.options["tls_handshake_first"]):
            raise nats.errors.SecureConnRequiredError
        return super()._connect_command()

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None) -> Msg:
        """Takes a subject that is not UTF-8, too: it would end nats-py's reading, silently."""
        name = subject.decode(errors="surrogateescape")
        return self.msg_class(_client=self, subject=name, reply=reply.decode(), data=data, headers=headers, _sid=sid)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Keeps headers as they came, beside the dict that nats-py makes of them."""
        pairs = []
        for line in raw.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if colon and name.strip():
                pairs.append((name.strip().decode(errors="replace"), value.strip()))
        headers = Headers((name, value.decode(errors="replace")) for name, value in pairs)
        headers.pairs = tuple(pairs)
        return headers


def heed_cancellation() -> None:
    """Raises a cancellation that was swallowed: nats-py uses `wait_for`, which may do that before Python 3.12.

    To be called before anything is waited for at length, and not within `asyncio.timeout`.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def pairs_of(message: Msg) -> Pairs:
    """The headers of a message, as they came."""
    headers = message.headers
    if isinstance(headers, Headers):
        return headers.pairs
    return tuple((name, value.encode()) for name, value in (headers or {}).items())
