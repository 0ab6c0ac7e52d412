"""The client of nats-py, mended: for one connection, whose loss is told, and whose messages are as they came."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg

from headrace.connectors.nats._errors import NatsAway, NatsRefused, explain
from headrace.connectors.nats._internals import Headers, MendedClient, Pairs

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 2
_PAUSE_SECONDS = 0.001


class Client(MendedClient):
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
        super().__init__(encrypted=encrypted)
        self.where = where
        self.denied = ""
        self.lost = False
        self.watchers: list[Callable[[], None]] = []
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
        for end in (self._send_rest, self.close):
            with contextlib.suppress(TimeoutError, OSError, nats.errors.Error, AssertionError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await end()

    async def _send_rest(self) -> None:
        """Sends what is to be sent, where that can be done: nothing is sent by closing."""
        if self.is_connected and self.pending_data_size:
            await self.flush(_CLOSE_SECONDS)

    async def flush(self, timeout: int = nats.aio.client.DEFAULT_FLUSH_TIMEOUT) -> None:  # noqa: ASYNC109 - it is nats-py's
        """As nats-py's, after what is to be sent: its ping overtakes that, so that the answer would prove nothing."""
        pause = 0.0
        async with asyncio.timeout(timeout):
            while self.pending_data_size and self.is_connected:
                await asyncio.sleep(pause)  # mostly it is sent at once; nothing tells when
                pause = _PAUSE_SECONDS
        await super().flush(timeout)

    def closed(self) -> None:
        """Tells that the connection is no more."""
        self.lost = True
        if self.last_error is not None and not self._leaving:
            self._cause = self.last_error
        for tell in self.watchers:
            tell()


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
