"""What every request passes: its size, its Host, its token, and the rights that its path needs. Errors are RFC 9457 problems.

A request that changes something is also checked for where it comes from: a web page of another site must not be able to make it
in the name of whoever looks at that page.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import grpc
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.contract.addresses import is_loopback
from headrace.gateway.core import ProtocolError
from headrace.gateway.core.control import Caller
from headrace.gateway.http.callers import Callers
from headrace.gateway.identity import Identity, Unauthenticated
from headrace.gateway.refusals import log_refusal
from headrace.gateway.rules import CHANGES, PATHS

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?P<host>{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?", re.ASCII)
"""A name or an IPv4 address, or an IPv6 address in brackets, with or without a port (RFC 9110, 7.2; RFC 1123)."""
_MAX_HOST = 253 + len(":65535")
_ORIGIN = re.compile(r"https?://(?P<authority>[^/?#@\s\\]+)", re.ASCII)
"""The serialization of an origin (RFC 6454, 6.2), whose authority is as in Host. An opaque origin is `null`."""


def host_of(headers: Sequence[str]) -> str | None:
    """Returns the name of the server that a request asks for, without port and in lower case; None if none is well-formed.

    Args:
        headers: All values of the header Host.
    """
    if len(headers) != 1 or len(headers[0]) > _MAX_HOST:
        return None
    found = _HOST.fullmatch(headers[0].lower())
    return found["host"].removeprefix("[").removesuffix("]") if found else None


def is_own_name(host: str) -> bool:
    """Returns whether a name from `host_of` is one that only this machine gives itself, and no name server another one."""
    return is_loopback(host)


def is_same_origin(origin: str, hosts: Sequence[str]) -> bool:
    """Returns whether an Origin names the server that the request asks for, by whatever scheme: a proxy may end TLS.

    Args:
        origin: The value of the header Origin.
        hosts: All values of the header Host.
    """
    found = _ORIGIN.fullmatch(origin.lower())
    return found is not None and host_of(hosts) is not None and found["authority"] == hosts[0].lower()


Endpoint = Callable[[Request], Awaitable[Response]]
_Body = TypeVar("_Body", bound=BaseModel)
MAX_BODY_BYTES = 16 * 2**10
"""The size in bytes of the body of a request that changes something."""
_STATUSES = {
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


def problem(status: int, detail: str, **headers: str) -> Response:
    """Returns an error as `application/problem+json`."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


async def http_error(request: Request, error: Exception) -> Response:
    """Returns the response to an error that Starlette raises, such as for an unknown path."""
    assert isinstance(error, HTTPException)
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return problem(error.status_code, detail, **(error.headers or {}))


def guarded(path: str, endpoint: Endpoint, callers: Callers) -> Endpoint:
    """Returns an endpoint that answers only callers with the rights that its path needs, according to `rules.PATHS`."""
    needed = PATHS[path]

    async def guard(request: Request) -> Response:
        if needed:
            found = _identity(request, needed, path, callers)
            if isinstance(found, Response):
                return found
        return await endpoint(request)

    return guard


def guarded_change(
    path: str,
    body: type[_Body],
    change: Callable[[Caller, _Body], Awaitable[Response]],
    callers: Callers,
    *,
    takes_long: bool = False,
) -> Endpoint:
    """Returns an endpoint that makes a change for callers with the rights that its path needs, according to `rules.CHANGES`.

    The request must come from the same origin or from no web page at all, and have a small JSON object for its body.

    Args:
        path: The path.
        body: The model of the body.
        change: Makes the change, and returns the answer; the errors of the protocol that it raises become problems.
        callers: Who may call.
        takes_long: Whether the change limits its time itself, so that the server's limit on a request does not apply to it.
    """
    needed = CHANGES[path]

    async def guard(request: Request) -> Response:
        if refusal := refuse_cross_site(request, path, needs_proof=callers.is_by_cookie(request)):
            return refusal
        found = _identity(request, needed, path, callers)
        if isinstance(found, Response):
            return found
        wanted = await read_body(request, body)
        if isinstance(wanted, Response):
            return wanted
        request.state.takes_long = takes_long
        try:
            return await change(caller_of(request, found), wanted)
        except ProtocolError as error:
            return refusal_of(error)
        finally:
            request.state.takes_long = False

    return guard


def caller_of(request: Request, identity: Identity) -> Caller:
    """Returns who makes a request, for the log."""
    return Caller(identity.name, peer_of(request), identity.may_administer())


def peer_of(request: Request) -> str:
    """Returns the address that a request comes from, for the log."""
    return f"{request.client.host}:{request.client.port}" if request.client is not None else "unknown"


def refusal_of(error: ProtocolError) -> Response:
    """Returns the problem that an error of the protocol is."""
    return problem(_STATUSES.get(error.status, 500), str(error))


def _identity(request: Request, needed: frozenset[Any], path: str, callers: Callers) -> Identity | Response:
    """Returns who calls, or the refusal of a caller that is unknown or lacks a right, which is logged."""
    try:
        identity = callers.authenticate(request)
    except Unauthenticated as error:
        log_refusal(path, peer_of(request), str(error))
        return problem(401, str(error), **{"www-authenticate": "Bearer"})
    if refusal := identity.lacks(needed, path):
        log_refusal(path, peer_of(request), refusal, identity.name)
        return problem(403, refusal)
    request.state.begin_call(identity)
    return identity


def refuse_cross_site(request: Request, path: str, *, needs_proof: bool = False) -> Response | None:
    """Returns the refusal of a request that changes something, if a page of another origin has made it; None if it may continue.

    A refusal is logged, without the origin: with another one in each request, a page would fill the log.

    A bearer token is proof enough, since no browser adds one by itself. Otherwise, a browser states where the request comes from,
    in Sec-Fetch-Site or at least in Origin. A request with neither comes from no browser.

    Args:
        request: The request.
        path: Its path, as in the gateway's rules.
        needs_proof: Whether a request that does not state where it comes from is refused, because only a browser makes such.
    """
    if request.headers.get("authorization", "").lower().startswith("bearer "):
        return None
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        allowed = site == "same-origin" or (site == "none" and not needs_proof)
    elif origin is not None:
        allowed = is_same_origin(origin, request.headers.getlist("host"))
    else:
        allowed = not needs_proof
    if allowed:
        return None
    if site is None and origin is None:
        log_refusal(path, peer_of(request), "it has a cookie, and does not state where it comes from")
        return problem(403, "this request has a cookie, and does not state where it comes from; send a bearer token instead")
    log_refusal(path, peer_of(request), "it comes from a page of another origin")
    where = f"the origin {origin!r}" if origin is not None else f"a site that is {site!r}"
    return problem(
        403, f"this request comes from a page of {where[:200]}; changes are accepted from this server's own pages only"
    )


async def read_body(request: Request, body: type[_Body]) -> _Body | Response:
    """Returns the body of a request, or the refusal of one that is not valid. `Bounds` has limited its size."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return problem(415, "send a JSON object, with the header Content-Type: application/json")
    try:
        return body.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:80] for part in first["loc"])
        return problem(400, f"the body is not valid: {f'{where}: ' if where else ''}{first['msg']}")


def may_see(request: Request, path: str, callers: Callers) -> bool:
    """Returns whether a caller has the rights that a path needs."""
    try:
        return not callers.authenticate(request).lacks(PATHS[path], path)
    except Unauthenticated:
        return False


class Bounds:
    """Refuses bodies that are too large, or that no request needs, and names of this machine that a web page has made up.

    Without the latter, a page in a browser of this machine could read from a gateway without tokens (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, loopback: bool) -> None:
        self._app = app
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _HEADERS if pair[0] not in given)]
            await send(message)

        answer = self._refusal(Request(scope)) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        allowed = MAX_BODY_BYTES if request.method == "POST" else 0
        if "transfer-encoding" in request.headers:
            status, text = (411, "send the body with its Content-Length") if allowed else (413, "a request here has no body")
            return problem(status, text, connection="close")
        size = request.headers.get("content-length", "0")
        # int() would take a signed number, or one of a million digits.
        if not size.isdecimal() or len(size) > len(str(MAX_BODY_BYTES)) or int(size) > allowed:
            text = f"a body has at most {MAX_BODY_BYTES} bytes" if allowed else "a request here has no body"
            return problem(413, text, connection="close")
        return self._refusal_of_host(request.headers.getlist("host"))

    def _refusal_of_host(self, hosts: list[str]) -> Response | None:
        """Returns the refusal of a request for another server. One without Host, as HTTP/1.0 allows, comes from no browser."""
        if not hosts:
            return None
        host = host_of(hosts)
        if host is None:
            return problem(400, f"the header Host is not a name or address with or without a port: {hosts[0][:200]!r}")
        if self._loopback and not is_own_name(host):
            return problem(421, f"this server is for this machine: ask for 127.0.0.1 or localhost, not for {host[:200]!r}")
        return None
