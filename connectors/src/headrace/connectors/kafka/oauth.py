"""Tokens for SASL's OAUTHBEARER: from a file, or by a client's own credentials (RFC 6749, section 4.4)."""

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider

_TIMEOUT_S = 10.0
_MAX_BYTES = 1 << 20
_SHARE_OF_LIFE = 0.8
_SECONDS_IF_UNSAID = 60.0


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """How to request tokens.

    Attributes:
        url: The token endpoint.
        client_id: The id of the client.
        client_secret: Its secret.
        scope: The scope to request, if any.
        authorities: Certificates to trust, PEM; None for the system's authorities.
    """

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    authorities: Path | None = None


class FileTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Reads the token from a file with each login, so that another program can replace it."""

    def __init__(self, path: Path) -> None:
        """Takes the file's path."""
        self._path = path

    def token(self) -> str:
        """Returns the token that the file contains now.

        Raises:
            SaslAuthenticationFailedError: There is none.
        """
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise kafka_errors.SaslAuthenticationFailedError(f"oauth_token_file {self._path}: {error}") from error
        if not token:
            raise kafka_errors.SaslAuthenticationFailedError(f"oauth_token_file {self._path} is empty")
        return token


class RequestedTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Requests tokens, and keeps one for most of its life. Any thread may call it."""

    def __init__(self, credentials: ClientCredentials) -> None:
        """Takes how to request them."""
        self._credentials = credentials
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """Returns a token that is valid for a while.

        Raises:
            SaslAuthenticationFailedError: The endpoint rejects the request.
            KafkaConnectionError: The endpoint cannot be reached now.
        """
        with self._lock:
            if time.monotonic() >= self._until:
                began = time.monotonic()
                self._token, seconds = self._requested()
                self._until = began + seconds * _SHARE_OF_LIFE
            return self._token

    def _requested(self) -> tuple[str, float]:
        """Returns a new token, and how long it is valid, in seconds."""
        url = self._credentials.url
        try:
            with urllib.request.urlopen(self._request(), timeout=_TIMEOUT_S, context=self._context()) as response:
                answer = _object(response.read(_MAX_BYTES))
        except urllib.error.HTTPError as error:
            why = _object(error.read(_MAX_BYTES)).get("error", "")
            text = f"{url} answers {error.code} {error.reason}{f': {why}' if why else ''}"
            if error.code >= 500 or error.code == 429:
                raise kafka_errors.KafkaConnectionError(text) from None
            raise kafka_errors.SaslAuthenticationFailedError(f"{text}; check oauth_client_id and oauth_client_secret") from None
        except OSError as error:
            raise kafka_errors.KafkaConnectionError(f"{url} cannot be reached: {error}") from error
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise kafka_errors.SaslAuthenticationFailedError(f"{url} does not answer with an access_token")
        seconds = answer.get("expires_in")
        return token, float(seconds) if isinstance(seconds, int | float) else _SECONDS_IF_UNSAID

    def _request(self) -> urllib.request.Request:
        one = self._credentials
        fields = {"grant_type": "client_credentials"} | ({"scope": one.scope} if one.scope else {})
        pair = ":".join(urllib.parse.quote(part, safe="") for part in (one.client_id, one.client_secret))
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", "Accept": "application/json"}
        return urllib.request.Request(one.url, urllib.parse.urlencode(fields).encode(), headers)

    def _context(self) -> ssl.SSLContext | None:
        if not self._credentials.url.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=self._credentials.authorities)


@cache
def requested_tokens(credentials: ClientCredentials) -> RequestedTokens:
    """Returns the one object that requests tokens for some credentials: all clients of a process share its token."""
    return RequestedTokens(credentials)


def _object(body: bytes) -> dict[str, Any]:
    """Returns the JSON object that a body contains; an empty one if it contains none."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
