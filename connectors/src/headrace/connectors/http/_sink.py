"""The `http-sink`: sends messages to a URL, at least once."""

import asyncio
import ssl
from collections.abc import Sequence

import aiohttp

from headrace.connectors._owned import close_with_loop
from headrace.connectors.http._parameters import HttpSinkParameters
from headrace.connectors.http._requests import Requests
from headrace.connectors.http._sending import Sending
from headrace.sdk import WRITTEN, AsyncSink, InvalidSink, Message, Outcome, Outcomes, Part, Refused, Rows


class HttpSink(AsyncSink):
    """Sends each message, or each batch of them, in a request.

    Answers that another try may change are tried again with backoff. A message that the receiver will never take is refused. A
    batch that is refused is divided, until the messages that it was refused for stand alone.
    """

    connector = "http-sink"
    version = "0.1.0"

    def __init__(self, parameters: HttpSinkParameters) -> None:
        """Connects to nothing yet.

        Raises:
            InvalidSink: The certificates to trust cannot be read.
        """
        self.name = parameters.sink
        self._parameters = parameters
        self._requests = Requests(parameters)
        self._sending = Sending(parameters)
        self._tls = _tls(parameters)
        self._session: aiohttp.ClientSession | None = None

    async def write(self, rows: Rows) -> Outcomes:
        """Sends messages: those of a key one after the other, and all of them with a concurrency of 1."""
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
        """Connects, and says what the receiver answers.

        Raises:
            HttpError: It does not answer, or refuses who asks.
        """
        async with self._connect() as session:
            return await self._sending.check(session)

    async def _send_all(
        self, session: aiohttp.ClientSession, messages: Sequence[Message], part: Part | None
    ) -> dict[int | None, Refused]:
        """Sends messages one request after the other; returns those that the receiver refused, by their places."""
        refused: dict[int | None, Refused] = {}
        for chunk in self._requests.chunks(messages):
            refused |= await self._send(session, chunk, part)
        return refused

    async def _send(
        self, session: aiohttp.ClientSession, chunk: Sequence[Message], part: Part | None
    ) -> dict[int | None, Refused]:
        """Sends a chunk, in halves where it is refused as a whole."""
        why = await self._sending.send(session, self._requests.make(chunk, part))
        if why is None:
            return {}
        if len(chunk) == 1:
            return {chunk[0].sequence: why}
        middle = len(chunk) // 2
        return await self._send(session, chunk[:middle], part) | await self._send(session, chunk[middle:], part)

    def _open(self) -> aiohttp.ClientSession:
        """The connections, which are kept from one call to the next."""
        if self._session is None:
            self._session = self._connect()
            close_with_loop(self._session.close)
        return self._session

    def _connect(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._parameters.concurrency, ssl=self._tls),
            headers=self._requests.fixed_headers(),
            timeout=aiohttp.ClientTimeout(total=self._parameters.timeout_seconds),
            # What a receiver sets to be remembered is for browsers.
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def _tls(parameters: HttpSinkParameters) -> ssl.SSLContext | bool:
    """Whom to trust; True for those whom this machine trusts."""
    if parameters.tls_ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=parameters.tls_ca)
    except OSError as error:
        raise InvalidSink(f"tls_ca: cannot use {parameters.tls_ca}: {error}") from error
