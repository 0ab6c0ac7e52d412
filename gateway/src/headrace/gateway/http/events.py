"""The status as server-sent events: whole at first, and then what has changed.

One task observes for all that listen, and only while somebody does. Each change is encoded once. Whoever has missed changes gets
the whole status instead, so that nothing is kept for a slow client.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.contract import clock
from headrace.gateway.http.callers import Callers
from headrace.gateway.http.delta import delta, same_health
from headrace.gateway.http.guard import problem
from headrace.gateway.http.status import Documents, encoded, health_document, in_thread_if_large
from headrace.gateway.identity import Unauthenticated
from headrace.gateway.observer import Observation
from headrace.gateway.rules import EVENTS, PATHS
from headrace.gateway_status import StatusDocument

MAX_LISTENERS = 64
"""How many clients listen at most."""
PERIOD_S = 0.5
"""How often it is checked whether there is a new observation, which is taken at most once a second."""
MAX_PERIOD_S = 2.0
"""The same for a gateway whose status takes long to make."""
_SHARE = 0.03
"""How much of the time may go into making the status for listeners, until that would take longer than `MAX_PERIOD_S`."""
KEEPALIVE_S = 10.0
"""After how many seconds without an event a comment is sent, so that a client knows that it is connected."""
READ_TIMEOUT_S = 30.0
"""How long a client may take to read what it is sent, in seconds."""
_KEPT = 8
"""How many events are kept for clients that have yet to send them."""


class Events:
    """The status as a sequence of events, for as many clients as listen."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._version = 0
        self._status: dict[str, Any] = {}
        self._backlog: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._whole: tuple[int, bytes] = (0, b"")
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._observed: Observation | None = None
        self.listeners = 0

    async def listen(self) -> AsyncGenerator[bytes]:
        """Yields events, the whole status first, and comments while nothing changes."""
        self.listeners += 1
        try:
            if self._task is None:
                await self._observe()
                # Another listener may have started it meanwhile.
                self._task = self._task or asyncio.create_task(self._publish())
            version = 0
            while True:
                missed = [text for number, text in self._backlog if number > version]
                whole = not version or len(missed) < self._version - version
                if version < self._version:
                    version, texts = self._version, ([await self._whole_text()] if whole else missed)
                    for text in texts:
                        yield text
                elif not await self._wait_for_news(version):
                    yield b": keepalive\n\n"
        finally:
            self.listeners -= 1
            if not self.listeners:
                await self._stop()

    async def _wait_for_news(self, version: int) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEPALIVE_S), self._news:
                await self._news.wait_for(lambda: self._version > version)
                return True
        return False

    async def _publish(self) -> None:
        took_s = 0.0
        while True:
            await asyncio.sleep(period_s(took_s))
            began = clock.monotonic()
            await self._observe()
            took_s = clock.monotonic() - began

    async def _observe(self) -> None:
        """Makes an event of what has changed since the last observation, if there is a new one."""
        observed = await self._documents.observe()
        if observed is self._observed:
            return
        before, number = self._status, self._version + 1

        def make(status: StatusDocument) -> tuple[dict[str, Any], bytes]:
            # Of a large site, the problems are converted already.
            listed = {"problems": status["problems"], "problems_in_all": status["problems_in_all"]}
            health = {**health_document(observed, with_problems=False), **listed}
            if before and same_health(before["health"], health):
                health = before["health"]
            at_ms = int(observed.taken_at.timestamp() * 1000)
            after = {**status, "health": health, "at_ms": at_ms}
            return after, _changes_text(number, before, after) if before else event("status", number, after)

        after, text = await self._documents.made(observed, make)
        async with self._news:
            if self._observed is not None and self._status is not before:
                # Another listener, which came at the same time, was faster.
                return
            self._observed, self._status = observed, after
            if not before:
                self._whole = number, text
            if text:
                self._version = number
                self._backlog.append((number, text))
                self._news.notify_all()

    async def _whole_text(self) -> bytes:
        """Returns the event that has the whole status."""
        version, status, observed = self._version, self._status, self._observed
        if self._whole[0] != version and observed is not None:
            text = await in_thread_if_large(observed, lambda: event("status", version, status))
            self._whole = version, text
            return text
        return self._whole[1]

    async def _stop(self) -> None:
        # Before anything is awaited: whoever listens meanwhile must find that nothing observes, and begin again.
        task, self._task = self._task, None
        self._observed, self._status = None, {}
        self._backlog.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def period_s(took_s: float) -> float:
    """Returns after how many seconds the status is made again for listeners.

    Args:
        took_s: How many seconds that took the last time.
    """
    return min(MAX_PERIOD_S, max(PERIOD_S, took_s / _SHARE))


def _changes_text(number: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> bytes:
    found = delta(before, after)
    return event("changes", number, {"at_ms": after["at_ms"], **found}) if found else b""


def event(kind: str, number: int, document: Mapping[str, Any]) -> bytes:
    """Returns the text of an event."""
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), number, encoded(document))


class EventStream(StreamingResponse):
    """A response without an end, to a client that must keep reading."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__(events)
        self._events = events
        self._read_timeout_s = READ_TIMEOUT_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends events. While it does, the server's limit on the time of a response does not apply."""

        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(self._read_timeout_s):
                await send(message)

        scope["state"]["is_stream"] = True
        try:
            # Left to the garbage collector, the generator of a client that has gone would count as a listener until then.
            async with aclosing(self._events):
                await super().__call__(scope, receive, send_in_time)
        except* TimeoutError:
            pass
        finally:
            scope["state"]["is_stream"] = False


async def answer(request: Request, events: Events, callers: Callers) -> Response:
    """Returns the response to a client that wants to listen, as long as its token or cookie is valid."""
    if events.listeners >= MAX_LISTENERS:
        text = f"{MAX_LISTENERS} clients listen already; close a page, or read /api/v1/status once in a while"
        return problem(503, text, **{"retry-after": "5"})

    return EventStream(while_permitted(request, EVENTS, callers, events.listen()))


async def while_permitted(request: Request, path: str, callers: Callers, events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yields events until their caller no longer has the rights that a path needs."""
    async with aclosing(events):
        async for text in events:
            try:
                if callers.authenticate(request).lacks(PATHS[path], path):
                    return
            except Unauthenticated:
                return
            yield text
