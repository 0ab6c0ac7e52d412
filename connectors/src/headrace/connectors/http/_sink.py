"""The `http-sink`: sends messages to a URL, at least once."""

import asyncio
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

import aiohttp

from headrace.connectors._connector import VERSION
from headrace.connectors.http._parameters import NO_PROXY, HttpSinkParameters
from headrace.connectors.http._sending import Sending
from headrace.connectors.http.requests import Requests
from headrace.connectors.tls_files import client_context
from headrace.contract.proxies import Proxy, http_proxy
from headrace.sdk import WRITTEN, AsyncSink, InvalidSink, Message, Outcome, Outcomes, Part, Refused, Rows

_SCHEMES = ("http", "https")


class HttpSink(AsyncSink):
    """Sends each message, or each batch of them, in a request.

    A request that failed temporarily is retried with backoff. A message that the receiver rejects permanently is refused. A batch
    that is rejected is divided, until the messages that caused it are isolated.
    """

    connector = "http-sink"
    version = VERSION

    def __init__(self, parameters: HttpSinkParameters) -> None:
        """Creates the sink, without connecting.

        Raises:
            InvalidSink: The certificates to trust cannot be read, or the proxy is of an unknown kind.
        """
        self.name = parameters.sink
        self._parameters = parameters
        self._requests = Requests(parameters)
        self._proxy = proxy_of(parameters)
        self._sending = Sending(parameters, self._proxy, self)
        self._tls = _tls(parameters)
        self._session: aiohttp.ClientSession | None = None

    async def write(self, rows: Rows) -> Outcomes:
        """Sends messages: the messages of a key sequentially, and with a concurrency of 1 all of them.

        Raises:
            Unavailable: A request did not succeed within `retry_seconds`.
            Denied: The receiver rejects all requests.
        """
        messages = rows.messages()
        refused = {m.sequence: why for m in messages if (why := self._requests.refusal(m)) is not None}
        good = [message for message in messages if message.sequence not in refused]
        session = self._open()
        try:
            async with asyncio.TaskGroup() as group:
                lanes = [group.create_task(self._send_all(session, lane, rows.part)) for lane in self._requests.lanes(good)]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        for lane in lanes:
            refused |= lane.result()
        outcomes: list[Outcome] = [refused.get(message.sequence, WRITTEN) for message in messages]
        return outcomes if refused else None

    async def check(self) -> str:
        """Connects, and returns a description of the response.

        Raises:
            HttpError: The receiver does not answer, or rejects this client.
        """
        async with self._connect() as session:
            return await self._sending.check(session)

    async def close(self) -> None:
        """Closes the connections. The next write opens others."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send_all(
        self, session: aiohttp.ClientSession, messages: Sequence[Message], part: Part | None
    ) -> dict[int | None, Refused]:
        """Sends messages, one request after the other; returns the refused messages by their positions."""
        refused: dict[int | None, Refused] = {}
        for chunk in self._requests.chunks(messages):
            refused |= await self._send(session, chunk, part)
        return refused

    async def _send(
        self, session: aiohttp.ClientSession, chunk: Sequence[Message], part: Part | None
    ) -> dict[int | None, Refused]:
        """Sends a chunk, in halves if it is rejected as a whole."""
        why = await self._sending.send(session, self._requests.make(chunk, part))
        if why is None:
            return {}
        if len(chunk) == 1:
            return {chunk[0].sequence: why}
        middle = len(chunk) // 2
        return await self._send(session, chunk[:middle], part) | await self._send(session, chunk[middle:], part)

    def _open(self) -> aiohttp.ClientSession:
        """Returns the connections, which are reused between calls."""
        if self._session is None:
            self._session = self._connect()
        return self._session

    def _connect(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._parameters.concurrency, ssl=self._tls),
            headers=self._requests.fixed_headers(),
            proxy=self._proxy.url if self._proxy is not None else None,
            timeout=aiohttp.ClientTimeout(total=self._parameters.timeout_seconds),
            # Cookies are for browsers.
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def _tls(parameters: HttpSinkParameters) -> ssl.SSLContext | bool:
    """Returns the TLS context; True for the certificates of the system."""
    if parameters.tls_ca is None:
        return True
    try:
        return client_context(parameters.tls_ca)
    except OSError as error:
        raise InvalidSink(f"tls_ca: cannot use {parameters.tls_ca}: {error}") from error


def proxy_of(parameters: HttpSinkParameters) -> Proxy | None:
    """Returns the proxy that the parameters name, or else the environment; None for none.

    Raises:
        InvalidSink: It is of a kind that the sink cannot use, or not a URL.
    """
    named = parameters.proxy.get_secret_value() if parameters.proxy is not None else None
    if named == NO_PROXY:
        return None
    proxy = http_proxy(parameters.url) if named is None else Proxy(named, "proxy")
    if proxy is None:
        return None
    try:
        parts = urlsplit(proxy.url)
        usable = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidSink(
            f"{proxy.variable} names a proxy that http-sink cannot use: want http://HOST:PORT or https://HOST:PORT; set proxy "
            f"to one, or to {NO_PROXY}"
        )
    return proxy
