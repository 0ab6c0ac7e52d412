"""Messages of a pull consumer, requested in advance within limits, and taken in bulk.

nats-py's own `fetch` creates a task for each message, which is most of its cost.
"""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import nats.errors
from nats.aio.msg import Msg

from headrace.connectors.nats._errors import NatsAway, NatsRefused
from headrace.connectors.nats._parameters import JetStreamParameters
from headrace.connectors.nats.client import Client, heed_cancellation
from headrace.connectors.nats.connection import api

HEARTBEAT_S = 5.0
"""The interval of the server's heartbeats while it has no messages, in seconds."""
_EXPIRES_S = 60
_SILENCE_S = 2.5 * HEARTBEAT_S
_DRAIN_S = 2.0
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PullLimits:
    """The limits of a consumer on a request; None for no limit.

    Attributes:
        messages: The number of messages.
        bytes: Their size.
        seconds: How long a request may wait.
    """

    messages: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, config: dict[str, Any]) -> "PullLimits":
        """Returns the limits in the configuration of a consumer, as the server sends it."""
        expires = config.get("max_expires") or 0
        return cls(config.get("max_batch") or None, config.get("max_bytes") or None, expires / _NANOSECONDS or None)


class ConsumerGone(NatsAway):
    """The server no longer has the consumer."""


class Pull:
    """The messages of one consumer, on one connection."""

    def __init__(self, client: Client, parameters: JetStreamParameters, consumer: str, limits: PullLimits = PullLimits()) -> None:
        """Creates the object, without a request."""
        self._client = client
        self._what = f"consumer {consumer} of stream {parameters.stream}"
        self._next = f"{api(parameters.domain)}.CONSUMER.MSG.NEXT.{parameters.stream}.{consumer}"
        self._messages = min(parameters.prefetch_messages, limits.messages or parameters.prefetch_messages)
        self._bytes = max(parameters.prefetch_bytes, client.max_payload)
        self._bytes = min(self._bytes, limits.bytes or self._bytes)
        self._expires = min(_EXPIRES_S, limits.seconds or _EXPIRES_S)
        self._inbox = client.new_inbox()
        self._arrived: list[Msg] = []
        self._wake = asyncio.Event()
        self._outstanding = 0
        self._too_large = False
        self._failure: Exception | None = None
        self._quiet_since = time.monotonic()

    async def __aenter__(self) -> Self:
        """Subscribes to the messages."""
        # Only requested messages arrive; nats-py must not drop any of them.
        self._subscription = await self._client.subscribe(self._inbox, cb=self._take, pending_msgs_limit=0, pending_bytes_limit=0)
        self._client.watchers.append(self._wake.set)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Unsubscribes; messages in flight are in `left` afterwards."""
        self._client.watchers.remove(self._wake.set)
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await self._subscription.drain()  # type: ignore[no-untyped-call]

    @property
    def ready(self) -> bool:
        """Whether messages have arrived."""
        return bool(self._arrived)

    @property
    def left(self) -> list[Msg]:
        """The messages that have arrived and were not taken."""
        return [message for message in self._arrived if message.reply]

    async def take(self) -> list[Msg]:
        """Takes the arrived messages, and waits for them. Empty if the server reports that it had no messages for a while.

        Raises:
            ConsumerGone: The consumer no longer exists.
            NatsAway: The connection is lost, or silent.
            NatsRefused: The consumer rejects such requests.
        """
        while True:
            heed_cancellation()
            if not self._arrived:
                self._check()
                await self._ask()
                await self._wait()
            arrived, self._arrived = self._arrived, []
            self._wake.clear()
            messages = [message for message in arrived if message.reply]
            self._outstanding -= len(messages)
            if len(messages) < len(arrived):
                for message in arrived:
                    if not message.reply:
                        self._note(message.headers or {})
            if messages:
                self._quiet_since = time.monotonic()
                if self._failure is None and not self._client.is_closed:
                    await self._ask()
                return messages
            # One of several requests may be idle while another one is not.
            if self._failure is None and time.monotonic() - self._quiet_since >= HEARTBEAT_S:
                self._quiet_since = time.monotonic()
                return []

    async def _take(self, message: Msg) -> None:
        """Handles a message, or a status of the server: only messages have a reply subject for their acknowledgement."""
        self._arrived.append(message)
        self._wake.set()

    async def _wait(self) -> None:
        """Waits until something arrives, or fails."""
        try:
            async with asyncio.timeout(_SILENCE_S):
                await self._wake.wait()
        except TimeoutError:
            raise NatsAway(f"{self._client.where}: {self._what} is silent; it sends no heartbeats") from None

    def _check(self) -> None:
        """Raises the error, if any."""
        if self._client.lost:
            raise self._client.loss
        if self._failure is not None:
            raise self._failure

    async def _ask(self) -> None:
        """Requests more, once half of what was requested has arrived."""
        if self._outstanding > self._messages // 2:
            return
        wanted = {"batch": self._messages - self._outstanding, "max_bytes": self._bytes}
        # The server wants a heartbeat within half of the time.
        heartbeat = min(HEARTBEAT_S, self._expires / 3)
        waiting = {"expires": int(self._expires * _NANOSECONDS), "idle_heartbeat": int(heartbeat * _NANOSECONDS)}
        if self._too_large:
            # The next message may be too large for any such request: request it alone, whatever its size.
            self._too_large = False
            wanted = {"batch": 1}
        self._outstanding += wanted["batch"]
        await self._client.publish(self._next, json.dumps({**wanted, **waiting}).encode(), reply=self._inbox)

    def _note(self, status: dict[str, str]) -> None:
        """Handles a status of the server."""
        code, text = status.get("Status"), status.get("Description", "").strip()
        where = f"{self._client.where}: {self._what}"
        if code == "100":
            return
        if code != "408":  # the end of a request that waited for nothing
            self._quiet_since = time.monotonic()
        if code == "503" or "Consumer Deleted" in text:
            self._failure = ConsumerGone(f"{where} is gone")
        elif "Exceeded MaxRequest" in text or code == "400":
            self._failure = NatsRefused(f"{where}: {text}; raise its limits, or use another consumer")
        elif "Nats-Pending-Messages" in status:
            self._outstanding = max(0, self._outstanding - int(status["Nats-Pending-Messages"]))
            self._too_large |= "Exceeds MaxBytes" in text
        else:
            self._failure = NatsAway(f"{where}: {text} ({code})")
