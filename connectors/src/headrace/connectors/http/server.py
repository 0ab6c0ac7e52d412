"""The web server of the `http` source: receives requests, and answers them."""

import asyncio
import hmac
import logging
import math
import time
from collections.abc import Mapping
from typing import TypeAlias

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from headrace.connectors.http._parameters import PATH, HttpParameters
from headrace.connectors.http.arrivals import Arrival, Arrivals
from headrace.connectors.http.connection import HttpConnection
from headrace.connectors.inbox import Inbox, Room, Ticket
from headrace.connectors.listening_source import ListeningServer
from headrace.sdk import Batch, Headers, InvalidMessage, Message

log = logging.getLogger(__name__)

Received: TypeAlias = Message | Batch
_STOPPING_S = 1.0
# How long to keep reading after a rejection, in seconds, so that the client sees the response.
_LINGERING_S = 1.0


class Server(ListeningServer[HttpConnection]):
    """Receives requests until it is closed, and then aborts waiting requests."""

    def __init__(self, parameters: HttpParameters, inboxes: Mapping[str, Inbox[Received]], room: Room) -> None:
        """Creates a server that does not listen yet.

        Args:
            parameters: The parameters of the source.
            inboxes: The inbox of each partition.
            room: The limit of what may wait in all of them.
        """
        super().__init__(parameters, parameters.max_connections, "max_connections")
        self._parameters = parameters
        self._inboxes = inboxes
        self._room = room
        self._token = parameters.token.get_secret_value().encode() if parameters.token else None
        self._limit = parameters.max_body_bytes
        self._arrivals = Arrivals(room)
        app = web.Application()
        app.add_routes([web.post(path, self._post) for path in parameters.paths])
        app.add_routes([web.get(parameters.health_path, self._health)])
        # The handler of a client that disconnects is cancelled, because nothing waits for its messages.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_aiohttp_log(),
            handler_cancellation=True,
            shutdown_timeout=_STOPPING_S,
            lingering_time=_LINGERING_S,
        )

    def described(self, address: str) -> str:
        """Returns how people find an address at which it listens."""
        scheme = "http" if self._parameters.tls_certificate is None else "https"
        return f"{scheme}://{address}, paths {', '.join(self._parameters.paths)}"

    async def begin(self) -> None:
        """Prepares for the first request."""
        await self._runner.setup()

    async def end(self) -> None:
        """Aborts waiting requests."""
        await self._runner.cleanup()

    def peer(self) -> HttpConnection:
        """Returns a new connection."""
        make = self._runner.server
        assert make is not None
        return HttpConnection(make(), self._parameters.head_seconds, self._parameters.idle_seconds)

    async def _post(self, request: web.Request) -> web.Response:
        """Handles a POST."""
        connection = request.transport.get_protocol() if request.transport is not None else None
        if not isinstance(connection, HttpConnection):
            # It has ended meanwhile: nobody reads the answer.
            raise web.HTTPBadRequest
        connection.begins(request)
        try:
            self._authorize(request)
            if self._room.full and not self._arrivals.give_way():
                raise self._later("too many messages are waiting for the checkpoint")
            if request.content_length is not None and request.content_length > self._limit:
                raise self._too_large()
            return await self._accept(request, await self._read(request))
        finally:
            if connection.is_taking_leave:
                await connection.may_be_answered()
            connection.ends()

    async def _accept(self, request: web.Request, body: bytes) -> web.Response:
        """Puts a body into the inbox, and answers at the time that the parameter `answer` specifies."""
        at_once = self._parameters.answer == "received"
        ticket = Ticket(1, len(body), None if at_once else asyncio.get_running_loop().create_future())
        item = self._item(request, body, ticket)
        if item is not None:
            inbox = self._inboxes[self._parameters.partition(request.path)]
            inbox.put(ticket, item)
            if ticket.settled is not None:
                await self._wait(inbox, ticket, ticket.settled)
        return web.Response(status=202 if at_once else 204)

    async def _wait(self, inbox: Inbox[Received], ticket: Ticket, settled: asyncio.Future[None]) -> None:
        """Waits until the message is in the checkpoint."""
        try:
            async with asyncio.timeout(self._parameters.answer_seconds):
                await asyncio.shield(settled)
        except InvalidMessage as error:
            raise web.HTTPRequestEntityTooLarge(self._limit, text=f"the message cannot be sent: {error}") from None
        except TimeoutError:
            raise self._later(f"not in the checkpoint after {self._parameters.answer_seconds:g} s") from None
        finally:
            if not settled.done():
                inbox.abandon(ticket)

    async def _read(self, request: web.Request) -> bytes:
        """Returns the body of a request. The bytes that have arrived count in the room."""
        if request.content.is_eof() and request.content.exception() is None:
            # It came with the head, as small ones do.
            return self._bounded(request.content.read_nowait())
        seconds = self._parameters.receive_seconds
        with Arrival(self._arrivals) as arrival:
            try:
                async with asyncio.timeout(seconds) as arrival.limit:
                    body = await self._pieces(request, arrival)
            except TimeoutError:
                body = None
        if body is not None:
            return body
        if arrival.gives_way:
            raise self._later("too much waits for the checkpoint, and the body had not arrived", close=True)
        raise web.HTTPRequestTimeout(text=f"the body took longer than {seconds:g} s", headers={"Connection": "close"})

    async def _pieces(self, request: web.Request, arrival: Arrival) -> bytes | None:
        """Returns a body; None if it must give way."""
        content = request.content
        try:
            body = await content.readany()
            if content.at_eof():
                return self._bounded(body)
            pieces = bytearray(body)
            while not content.at_eof():
                if not arrival.has(len(pieces)):
                    return None
                if len(pieces) > self._limit:
                    break
                pieces += await content.readany()
        except (web.RequestPayloadError, aiohttp.ClientPayloadError) as error:
            raise web.HTTPBadRequest(text=f"the body cannot be read: {error}", headers={"Connection": "close"}) from None
        return self._bounded(bytes(pieces))

    def _bounded(self, body: bytes) -> bytes:
        """Returns a body that is not too large."""
        if len(body) > self._limit:
            raise self._too_large()
        return body

    def _item(self, request: web.Request, body: bytes, ticket: Ticket) -> Received | None:
        """Returns the messages of a request; None for a body without lines."""
        id_, key, headers = self._id(request), self._key(request), self._headers(request)
        now = time.time_ns() // 1000
        if self._parameters.body == "message":
            return Message(body, key, now, message_id=id_, headers=headers, token=ticket)
        lines = [line for line in (line.removesuffix(b"\r") for line in body.split(b"\n")) if line]
        if not lines:
            return None
        ticket.messages = count = len(lines)
        return Batch(
            lines,
            keys=None if key is None else [key] * count,
            event_times=[now] * count,
            message_ids=None if id_ is None else [f"{id_}/{number}" for number in range(count)],
            headers=None if headers is None else [headers] * count,
            tokens=[*[None] * (count - 1), ticket],
        )

    def _id(self, request: web.Request) -> str | None:
        name = self._parameters.id_header
        if name is None:
            return None
        id_ = request.headers.get(name, "")
        if not id_ or not id_.isprintable():
            raise web.HTTPBadRequest(text=f"the header {name} must contain the id of the message")
        return id_

    def _key(self, request: web.Request) -> bytes | None:
        name = self._parameters.key_header
        key = request.headers.get(name) if name else None
        return None if key is None else _bytes(key)

    def _headers(self, request: web.Request) -> Headers | None:
        found: list[tuple[str, bytes | None]] = []
        for name in self._parameters.headers:
            values = [request.path] if name == PATH else request.headers.getall(name, ())
            found += [(name, _bytes(value)) for value in values]
        return found or None

    def _authorize(self, request: web.Request) -> None:
        """Checks the token."""
        if self._token is None:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_bytes(token.strip()), self._token):
            log.info("rejected a request from %s: its token is missing or wrong", request.remote)
            raise web.HTTPUnauthorized(text="the token is missing or wrong", headers={"WWW-Authenticate": "Bearer"})

    def _too_large(self) -> web.HTTPRequestEntityTooLarge:
        return web.HTTPRequestEntityTooLarge(self._limit, text=f"a body may have at most {self._limit} bytes")

    def _later(self, why: str, *, close: bool = False) -> web.HTTPServiceUnavailable:
        headers = {"Retry-After": str(math.ceil(self._parameters.retry_after_seconds))} | (
            {"Connection": "close"} if close else {}
        )
        return web.HTTPServiceUnavailable(text=why, headers=headers)

    async def _health(self, request: web.Request) -> web.Response:
        """Reports whether queries read all streams and there is room."""
        connection = request.transport.get_protocol() if request.transport is not None else None
        if isinstance(connection, HttpConnection):
            connection.begins(request)
            connection.ends()
        streams = {f"{self._parameters.source}/{name}": inbox.is_read for name, inbox in self._inboxes.items()}
        status = "full" if self._room.full else "ok" if all(streams.values()) else "not read"
        document = {
            "status": status,
            "streams": {name: "read" if is_read else "not read" for name, is_read in streams.items()},
            "waiting_messages": self._room.messages,
            "waiting_bytes": self._room.bytes,
        }
        return web.json_response(document, status=200 if status == "ok" else 503)


def _bytes(text: str) -> bytes:
    """Returns the raw bytes of a header's value."""
    return text.encode("utf-8", "surrogateescape")


def _aiohttp_log() -> logging.Logger:
    """Returns the log of aiohttp's server, which reports what is not HTTP as if it were a fault of this program."""

    def is_fault(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if not isinstance(error, HttpProcessingError):
            return True
        log.info("rejected a request: %s", " ".join(str(error).split()))
        return False

    logger = log.getChild("aiohttp")
    if not logger.filters:
        logger.addFilter(is_fault)
    return logger
