"""Tokens for SASL's OAUTHBEARER: from a file, or by a client's own credentials (RFC 6749, section 4.4)."""

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from headrace.connectors.kafka.token_endpoint import ClientCredentials, NoToken, TokenAway, late, request_token

_ANSWER_S = 12.0
"""How long a login waits for the endpoint, which may take ten seconds, in seconds."""
_BRIEFLY_S = 1.0
"""How long it waits while the endpoint has given no token, in seconds: kafka-python does nothing else in that time."""
_ABANDONED_S = 60.0
"""After how long a request is given up, in seconds: an endpoint may send a byte from time to time."""
_SHARE_OF_LIFE = 0.8
_ASK_S = 60.0
_ASK_SOON_S = 2.0
_TEXT = re.compile(r"[\x21-\x7e]+")


class FileTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Reads the token from a file with each login, so that another program can replace it."""

    def __init__(self, path: Path) -> None:
        """Takes the file's path."""
        self._path = path

    def token(self) -> str:
        """Returns the token that the file contains now.

        Raises:
            NoToken: There is none.
        """
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NoToken(f"oauth_token_file {self._path}: {error}") from error
        if not token:
            raise NoToken(f"oauth_token_file {self._path} is empty")
        if not _TEXT.fullmatch(token):
            raise NoToken(f"oauth_token_file {self._path} contains no token: a token has neither spaces nor lines")
        return token

    def seconds(self) -> float:
        """Returns how long the token may be used before this object is asked for one again, in seconds."""
        end = self._end()
        return _ASK_S if end is None else min(_ASK_S, max(_ASK_SOON_S, end - time.time()))

    def forget(self) -> None:
        """Does nothing: the file is read with each login."""

    def trouble(self) -> str:
        """Returns what is wrong with the token, as far as it can be known here; empty if nothing is."""
        try:
            end = self._end()
        except kafka_errors.KafkaError as error:
            return str(error.args[0])
        if end is None or time.time() < end:
            return ""
        ended = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(end))
        return f"the token in oauth_token_file {self._path} expired at {ended} UTC: is the program that renews it away?"

    def _end(self) -> float | None:
        """Returns when the token expires, in seconds since 1970; None if it does not tell."""
        _, _, claims = self.token().partition(".")
        claims = claims.partition(".")[0]
        try:
            end = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
            time.gmtime(end)
        except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
            return None
        return float(end)


@dataclass(frozen=True, slots=True)
class _Token:
    """A token.

    Attributes:
        text: The token.
        renewed_at: When to request the next one, on the monotonic clock.
        ends_at: When it expires, on the monotonic clock.
    """

    text: str
    renewed_at: float
    ends_at: float


class RequestedTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Requests tokens, each while the one before it is still valid. Any thread may call it."""

    def __init__(self, credentials: ClientCredentials, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes how to request them.

        Args:
            credentials: The proof of the client.
            clock: Returns seconds that never go back.
        """
        self._credentials = credentials
        self._clock = clock
        self._lock = threading.Lock()
        self._held: _Token | None = None
        self._request: Future[str] | None = None
        self._requested_at = 0.0
        self._trouble = ""

    def token(self) -> str:
        """Returns a valid token, after a wait of twelve seconds at most.

        A token that should be renewed is returned only if the next one does not arrive soon. A broker ends a login with its
        token, and takes a connection for broken that logs in twice within a second, so each login needs a token that lasts.

        Raises:
            TokenRefused: The endpoint refuses this client.
            NoToken: The endpoint answers with something else than a token.
            TokenAway: The endpoint cannot be reached now.
        """
        with self._lock:
            now, held = self._clock(), self._held
            if held is not None and now < held.renewed_at:
                return held.text
            request = self._begin(now)
        answer_s = _ANSWER_S
        if held is not None and now < held.ends_at:
            if _has_token(request, _BRIEFLY_S):
                return request.result()
            # It may have ended meanwhile.
            if self._clock() < held.ends_at:
                return held.text
            answer_s -= _BRIEFLY_S
        if not wait([request], _BRIEFLY_S if self._trouble else answer_s).done:
            self._trouble = self._trouble or late(self._credentials.url)
            raise TokenAway(self._trouble)
        return request.result()

    def seconds(self) -> float:
        """Returns how long the token may be used before this object is asked for one again, in seconds."""
        held = self._held
        left = 0.0 if held is None else held.renewed_at - self._clock()
        return min(_ASK_S, max(_ASK_SOON_S, left))

    def forget(self) -> None:
        """Requests another token for the next login, since brokers have refused this one."""
        with self._lock:
            self._held = None

    def trouble(self) -> str:
        """Returns why the last request has given no token; empty if it has."""
        return self._trouble

    def _begin(self, now: float) -> Future[str]:
        """Requests a token, unless a request is under way; returns the request."""
        request = self._request
        if request is None or request.done() or now >= self._requested_at + _ABANDONED_S:
            request = self._request = Future()
            self._requested_at = now
            threading.Thread(target=self._run, args=(request, now), name="headrace kafka token", daemon=True).start()
        return request

    def _run(self, request: "Future[str]", began: float) -> None:
        try:
            text, seconds = request_token(self._credentials)
            if not _TEXT.fullmatch(text):
                raise NoToken(f"{self._credentials.url} answers with an access_token that is none: it has spaces or lines")
        except Exception as error:
            self._trouble = str(error.args[0] if error.args else error)
            request.set_exception(error)
            return
        with self._lock:
            self._held = _Token(text, began + seconds * _SHARE_OF_LIFE, began + seconds)
            self._trouble = ""
        request.set_result(text)


def _has_token(request: "Future[str]", within_s: float) -> bool:
    return bool(wait([request], within_s).done) and request.exception() is None


@cache
def requested_tokens(credentials: ClientCredentials) -> RequestedTokens:
    """Returns the one object that requests tokens for some credentials: all clients of a process share its token."""
    return RequestedTokens(credentials)
