"""Sends a request until it has a final response, with retries and backoff if a retry may help.

HttpError
├── Unavailable     the receiver does not answer, or temporarily cannot: a retry may help
└── Denied          the receiver rejects all such requests, whatever the message
"""

import asyncio
import itertools
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NoReturn
from urllib.parse import urlsplit

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay, wait_random_exponential

from headrace.connectors.http._parameters import HttpSinkParameters
from headrace.connectors.http.requests import Request
from headrace.connectors.retry import gave_up
from headrace.connectors.waiting import Reporting, goes_on, waits
from headrace.contract.proxies import Proxy
from headrace.sdk import HeadraceError, Refused

log = logging.getLogger(__name__)
_AGAIN = {408, 425, 429}
_ADVICE = {
    401: "set token, or the header that it requires in secret_headers",
    403: "the token does not permit this",
    404: "check url",
    405: "check url and method",
    407: "the proxy requires authentication: set proxy to its URL with user and password",
    421: "check url",
    426: "check url",
}
"""Responses whose cause is not the message, and what to do about them."""
_LOGIN = {401, 403, 407}
_FIRST_BACKOFF_S = 0.1
_REASON_CHARACTERS = 200


class HttpError(HeadraceError):
    """The base class of the errors of the HTTP sink."""


class Unavailable(HttpError):
    """The receiver does not answer, or temporarily cannot. A retry may help.

    Attributes:
        retry_after: The delay before a retry that the receiver requests, in seconds; None if it does not specify one.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """Creates the error with the delay that the receiver requests, in seconds."""
        super().__init__(message)
        self.retry_after = retry_after


class Denied(HttpError):
    """The receiver rejects all requests like this one: there is nothing at the URL, or the token is wrong."""


class Sending:
    """Sends requests to one URL."""

    def __init__(self, parameters: HttpSinkParameters, proxy: Proxy | None, sink: Reporting | None = None) -> None:
        """Creates a sender.

        Args:
            parameters: The parameters of the sink.
            proxy: The proxy that it connects through.
            sink: What reports that it waits while requests are retried.
        """
        self._parameters = parameters
        self._sink = sink
        self._requests = itertools.count(1)
        url = urlsplit(parameters.url)
        # The query string may contain a secret.
        self._place = f"{url.scheme}://{url.netloc}{url.path}"
        through = f" through {proxy}" if proxy is not None else ""
        self._where = f"{parameters.method} {self._place}{through}"
        self._backoff = wait_random_exponential(_FIRST_BACKOFF_S, parameters.max_backoff_seconds, min=_FIRST_BACKOFF_S / 2)

    async def check(self, session: aiohttp.ClientSession) -> str:
        """Sends a HEAD request, which changes nothing, and returns a description of the response.

        Raises:
            Unavailable: The receiver does not answer.
            Denied: The receiver rejects this client.
        """
        url = self._parameters.url
        try:
            async with session.head(url, allow_redirects=False) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{self._where}: {_describe(error)}") from error
        if status in _LOGIN:
            raise Denied(f"HEAD {self._place} was answered {status} {response.reason}; {_ADVICE[status]}")
        return f"{self._place} answers (HEAD: {status} {response.reason})"

    async def send(self, session: aiohttp.ClientSession, request: Request) -> Refused | None:
        """Sends a request; returns why the receiver refuses its messages permanently, or None if it accepts them.

        Raises:
            Unavailable: It did not succeed within `retry_seconds`.
            Denied: Neither a retry nor another message would help.
        """
        part = f"request {next(self._requests)}"
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Unavailable),
            wait=self._wait,
            stop=stop_before_delay(self._parameters.retry_seconds),
            before_sleep=partial(self._report, part),
            retry_error_callback=self._give_up,
        )
        try:
            return await retrying(self._try, session, request)
        finally:
            if self._sink is not None:
                goes_on(self._sink, part)

    async def _try(self, session: aiohttp.ClientSession, request: Request) -> Refused | None:
        """Sends the request once."""
        method, url = self._parameters.method, self._parameters.url
        try:
            async with session.request(
                method, url, data=request.body, headers=request.headers, allow_redirects=False
            ) as response:
                if 200 <= response.status < 300:
                    return None
                said = await _excerpt(response)
                return self._judge(response.status, f"{response.status} {response.reason or ''}".strip(), said, response.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{self._where}: {_describe(error)}") from error

    def _judge(self, status: int, line: str, reply: str, headers: Mapping[str, str]) -> Refused:
        """Interprets a response that is not a success."""
        answer = f"{line}: {reply}" if reply else line
        if status >= 500 or status in _AGAIN:
            raise Unavailable(f"{self._where} was answered {answer}", retry_after(headers.get("Retry-After")))
        if status in _ADVICE:
            raise Denied(f"{self._where} was answered {answer}; {_ADVICE[status]}")
        if status < 400:
            raise Denied(f"{self._where} was answered {answer}; set url to {headers.get('Location', 'its target')}")
        return Refused(f"{self._where} was answered {answer}")

    def _wait(self, state: RetryCallState) -> float:
        """Returns the wait before the next attempt, in seconds."""
        error = _error(state)
        asked_for = error.retry_after if isinstance(error, Unavailable) else None
        return max(self._backoff(state), asked_for or 0.0)

    def _report(self, part: str, state: RetryCallState) -> None:
        """Logs the failed attempt, and reports that the sink waits: the receiver is why nothing is written."""
        error = _error(state)
        log.warning("%s; retrying in %.1f s", error, state.upcoming_sleep)
        if self._sink is not None:
            waits(self._sink, part, str(error))

    def _give_up(self, state: RetryCallState) -> NoReturn:
        """Raises the last error."""
        tries = "1 try" if state.attempt_number == 1 else f"{state.attempt_number} tries"
        why = f"{_error(state)} ({tries})"
        raise Unavailable(gave_up(why, self._parameters.retry_seconds, "retry_seconds")) from _error(state)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def retry_after(value: str | None) -> float | None:
    """Returns the delay of a header Retry-After, in seconds."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


async def _excerpt(response: aiohttp.ClientResponse) -> str:
    """Returns the beginning of a body, in one line, for messages."""
    text = (await response.content.read(_REASON_CHARACTERS)).decode(errors="replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _describe(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no response in time"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
