"""The client of nats-py, changed: it has one connection, reports its loss, and returns messages unchanged."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg

from headrace.connectors.nats._errors import NatsAway, NatsRefused, explain
from headrace.connectors.nats.internals import Headers, MendedClient, Pairs

log = logging.getLogger(__name__)

_CLOSE_S = 2
_PAUSE_S = 0.001


class Client(MendedClient):
    """A connection that does not reconnect by itself.

    nats-py would reconnect, and keep subscriptions and unsent data. But what the server had sent into the old connection is lost,
    and acknowledgements may be, too. A reader that begins again after its last message has no such gaps.
    """

    def __init__(self, where: str, *, encrypted: bool, reached: bool = False) -> None:
        """Creates the client, without connecting.

        Args:
            where: The servers, for messages.
            encrypted: Whether to send nothing, in particular no password, without TLS.
            reached: Whether an earlier client has reached the servers.
        """
        super().__init__(encrypted=encrypted)
        self.where = where
        self.reached = reached
        """Whether this client or an earlier one has reached the servers."""
        self.denied = ""
        self.lost = False
        self.watchers: list[Callable[[], None]] = []
        self._leaving = False
        self._cause: Exception = NatsAway(f"{where}: the connection was closed")

    @property
    def loss(self) -> Exception:
        """The cause of the loss of the connection."""
        return explain(self._cause, self.where, reached=self.reached)

    async def complained(self, error: Exception) -> None:
        """Receives the errors that nats-py reports asynchronously."""
        log.debug("%s: %r", self.where, error)
        if "permissions violation" in str(error).lower():
            self.denied = str(error).removeprefix("nats: ").strip("'")
            log.warning("%s: %s", self.where, self.denied)
        elif not isinstance(error, nats.errors.SlowConsumerError):
            self._cause = error

    def check_allowed(self) -> None:
        """Checks that the server has not reported a permission violation so far.

        Raises:
            NatsRefused: It has reported one.
        """
        if self.denied:
            raise NatsRefused(f"{self.where}: {self.denied}; grant it to this user")

    async def leave(self) -> None:
        """Closes the connection, even if the server does not respond."""
        self._leaving = True
        # nats-py asserts that it was connected before it is closed.
        for end in (self._send_rest, self.close):
            with contextlib.suppress(TimeoutError, OSError, nats.errors.Error, AssertionError):
                async with asyncio.timeout(_CLOSE_S):
                    await end()

    async def _send_rest(self) -> None:
        """Sends pending data if possible, because closing does not send it."""
        if self.is_connected and self.pending_data_size:
            await self.flush(_CLOSE_S)

    async def flush(self, timeout: int = nats.aio.client.DEFAULT_FLUSH_TIMEOUT) -> None:  # noqa: ASYNC109 - it is nats-py's
        """As nats-py's, but after pending data: its ping would overtake that data, and the answer would prove nothing."""
        pause = 0.0
        async with asyncio.timeout(timeout):
            while self.pending_data_size and self.is_connected:
                await asyncio.sleep(pause)  # usually it is sent immediately; nothing signals when
                pause = _PAUSE_S
        await super().flush(timeout)

    def closed(self) -> None:
        """Reports that the connection is closed."""
        self.lost = True
        if self.last_error is not None and not self._leaving:
            self._cause = self.last_error
        for tell in self.watchers:
            tell()


def heed_cancellation() -> None:
    """Raises a cancellation that was swallowed: before Python 3.12, `wait_for`, which nats-py uses, may do that.

    Call it before long waits, and not within `asyncio.timeout`.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def pairs_of(message: Msg) -> Pairs:
    """Returns the headers of a message, unchanged."""
    headers = message.headers
    if isinstance(headers, Headers):
        return headers.pairs
    return tuple((name, value.encode()) for name, value in (headers or {}).items())
