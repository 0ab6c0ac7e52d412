"""Who calls: by a bearer token, or by the cookie that a browser got when somebody signed in with a token.

The cookie has a random id, not the token. It is as good as the token: it has the same rights, and ends when the token is revoked.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from headrace.contract import clock
from headrace.gateway.identity import Identity, TokenRegistry, Unauthenticated

COOKIE = "headrace_session"
SIGNED_IN_S = 12 * 3600
"""How long a browser stays signed in, in seconds."""
MAX_SIGNED_IN = 100
"""How many browsers are signed in at most with one token; the first of them is signed out for another one with that token."""


@dataclass(frozen=True, slots=True)
class _SignedIn:
    """A browser that is signed in."""

    identity: Identity
    until: float


class Callers:
    """The callers that a gateway's HTTP server knows."""

    def __init__(self, registry: TokenRegistry, clock: Callable[[], float] = clock.monotonic) -> None:
        """Creates them.

        Args:
            registry: The tokens.
            clock: The time in seconds.
        """
        self._registry = registry
        self._clock = clock
        self._signed_in: dict[str, _SignedIn] = {}

    @property
    def need_tokens(self) -> bool:
        """Whether callers need a token."""
        return not self._registry.is_open

    def authenticate(self, request: HTTPConnection) -> Identity:
        """Returns the identity of a request's caller. A bearer token goes before a cookie.

        Raises:
            Unauthenticated: tokens are configured, and the request has neither a valid one nor a valid cookie.
        """
        authorization = request.headers.get("authorization")
        if authorization is None and self.need_tokens and (key := request.cookies.get(COOKIE)):
            return self._of_cookie(key)
        return self._registry.authenticate(authorization)

    def is_by_cookie(self, request: HTTPConnection) -> bool:
        """Returns whether a request has a cookie and no token: a browser adds the cookie also for pages of other sites."""
        return "authorization" not in request.headers and COOKIE in request.cookies

    def sign_in(self, token: str) -> str:
        """Returns the cookie's value for a token.

        Raises:
            Unauthenticated: the token is not known.
        """
        identity = self._registry.find(token)
        if identity is None:
            raise Unauthenticated("this gateway does not know this token; check that it was copied whole")
        self._drop_invalid()
        own = [key for key, found in self._signed_in.items() if found.identity.digest == identity.digest]
        for key in own[: len(own) - MAX_SIGNED_IN + 1]:
            del self._signed_in[key]
        key = secrets.token_urlsafe(32)
        self._signed_in[key] = _SignedIn(identity, self._clock() + SIGNED_IN_S)
        return key

    def sign_out(self, request: HTTPConnection) -> None:
        """Makes the cookie of a request invalid."""
        self._signed_in.pop(request.cookies.get(COOKIE, ""), None)

    def _of_cookie(self, key: str) -> Identity:
        found = self._signed_in.get(key)
        if found is not None and self._is_valid(found):
            return found.identity
        self._signed_in.pop(key, None)
        raise Unauthenticated("the sign-in has expired, or its token was revoked; sign in again")

    def _is_valid(self, signed_in: _SignedIn) -> bool:
        return signed_in.until > self._clock() and self._registry.holds(signed_in.identity)

    def _drop_invalid(self) -> None:
        self._signed_in = {key: found for key, found in self._signed_in.items() if self._is_valid(found)}
