"""Requests one token from an endpoint of OAuth, by a client's own credentials."""

import base64
import json
import math
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from kafka import errors as kafka_errors

_STEP_S = 10.0
_MAX_BYTES = 1 << 20
_SECONDS_IF_UNSAID = 60.0
_REFUSALS = frozenset({"invalid_client", "invalid_grant", "invalid_scope", "unauthorized_client", "unsupported_grant_type"})
"""The errors of RFC 6749 that another request would meet again; `invalid_request` may come from something in between."""
_PASSING = frozenset({408, 425, 429})


class NoToken(kafka_errors.SaslAuthenticationFailedError):  # type: ignore[misc]
    """There is no token where one should be."""


class TokenRefused(kafka_errors.SaslAuthenticationFailedError):  # type: ignore[misc]
    """The endpoint refuses this client, and will do so again."""


class TokenAway(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """The endpoint cannot be reached, or cannot answer now."""


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


def request_token(credentials: ClientCredentials) -> tuple[str, float]:
    """Returns a new token, and how long it is valid, in seconds.

    Raises:
        TokenRefused: The endpoint refuses this client.
        NoToken: It answers with something else than a token.
        TokenAway: It cannot be reached, or cannot answer now.
    """
    url = credentials.url
    try:
        with _opener(credentials).open(_request(credentials), timeout=_STEP_S) as response:
            answer = _object(response.read(_MAX_BYTES))
    except urllib.error.HTTPError as error:
        raise _refusal(url, error) from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        is_late = isinstance(reason, TimeoutError)
        raise TokenAway(late(url) if is_late else f"{url} cannot be reached: {str(reason) or type(error).__name__}") from error
    except ValueError as error:
        raise NoToken(f"oauth_token_url {url}: {error}") from error
    token = answer.get("access_token")
    if not isinstance(token, str) or not token:
        raise NoToken(f"{url} does not answer with an access_token")
    return token, _seconds(answer.get("expires_in"))


def late(url: str) -> str:
    """Returns what to tell of an endpoint that does not answer."""
    return f"{url} has not answered for {_STEP_S:g} s"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send the secret wherever the answer points to."""

    def redirect_request(self, *_: Any) -> None:
        """Returns None: the answer is an error."""


def _opener(credentials: ClientCredentials) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if credentials.url.startswith("https:"):
        context = ssl.create_default_context(cafile=credentials.authorities)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _request(one: ClientCredentials) -> urllib.request.Request:
    fields = {"grant_type": "client_credentials"} | ({"scope": one.scope} if one.scope else {})
    pair = ":".join(urllib.parse.quote(part, safe="") for part in (one.client_id, one.client_secret))
    headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", "Accept": "application/json"}
    return urllib.request.Request(one.url, urllib.parse.urlencode(fields).encode(), headers)


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    """Returns what an answer with an error means."""
    try:
        why = _object(error.read(_MAX_BYTES)).get("error", "")
    except (OSError, HTTPException):
        why = ""
    text = f"{url} answers {error.code} {error.reason}{f': {why}' if why else ''}"
    if error.code >= 500 or error.code in _PASSING:
        return TokenAway(text)
    if isinstance(why, str) and why in _REFUSALS:
        return TokenRefused(f"{text}; check oauth_client_id and oauth_client_secret")
    return NoToken(f"{text}; check oauth_token_url, oauth_client_id and oauth_client_secret")


def _seconds(life: Any) -> float:
    """Returns how long a token is valid; some endpoints write the number as a text, or leave it out."""
    try:
        seconds = _SECONDS_IF_UNSAID if isinstance(life, bool) else float(life)
    except (TypeError, ValueError, OverflowError):
        return _SECONDS_IF_UNSAID
    return seconds if math.isfinite(seconds) and seconds > 0 else _SECONDS_IF_UNSAID


def _object(body: bytes) -> dict[str, Any]:
    """Returns the JSON object that a body contains; an empty one if it contains none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
