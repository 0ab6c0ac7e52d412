"""Who calls, and what they may do.

Every call passes `AuthInterceptor`. With tokens configured it needs `authorization: Bearer <token>`, except for
grpc.health.v1, which stays open so that probes need no secret and which tells nothing but SERVING or NOT_SERVING.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
import grpc.aio

from headrace.gateway._config import Token
from headrace.gateway._patterns import covers

_OPEN_SERVICES = ("/grpc.health.v1.Health/",)
_MISSING = "this gateway needs a token: send `authorization: Bearer <token>` (option --token, or HEADRACE_TOKEN)"
_UNKNOWN = "this gateway does not know the token that was sent"


@dataclass(frozen=True)
class Identity:
    """What the holder of a token may do. All but `admin` are patterns of names."""

    name: str
    sources: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    admin: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def may_open(self, stream: str) -> bool:
        """True where a connector may send this stream."""
        return _any_covers(self.sources, stream)

    def may_write(self, sink: str) -> bool:
        """True where a connector may attach as this sink."""
        return _any_covers(self.sinks, sink)

    def may_run(self, pipeline: str) -> bool:
        """True where an engine may attach as this pipeline."""
        return _any_covers(self.pipelines, pipeline)

    def may_read(self, streams: str) -> bool:
        """True where its pipelines may read every stream that the name or pattern stands for."""
        return _any_covers(self.reads, streams)

    def may_deliver(self, sink: str) -> bool:
        """True where its pipelines may write to this sink."""
        return _any_covers(self.writes, sink)

    def may_administer(self) -> bool:
        """True where AdminService is permitted."""
        return self.admin


def _any_covers(patterns: Sequence[str], name: str) -> bool:
    return any(covers(pattern, name) for pattern in patterns)


EVERYTHING = Identity("anybody", sources=("*/*",), sinks=("*",), pipelines=("*",), admin=True, reads=("*/*",), writes=("*",))
"""The identity of all callers where no tokens are configured."""

_current: ContextVar[Identity] = ContextVar("headrace_identity", default=EVERYTHING)


def identity_of(context: "grpc.aio.ServicerContext[Any, Any]") -> Identity:
    """Who makes this call; permits everything where no tokens are configured. Call it within the RPC's own task."""
    del context  # The interceptor ran in the same task and left its finding in the context variable.
    return _current.get()


def token_digest(token: str) -> str:
    """The SHA-256 of a token in hex, as the configuration holds it."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenRegistry:
    """The configured tokens, by digest."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._identities = [
            (
                token.sha256.encode(),
                Identity(token.name, token.sources, token.sinks, token.pipelines, token.admin, token.reads, token.writes),
            )
            for token in tokens
        ]

    def find(self, token: str) -> Identity | None:
        """The identity behind a token. Takes the same time for a wrong token as for a right one."""
        digest = token_digest(token).encode()
        found = None
        for known, identity in self._identities:
            if hmac.compare_digest(known, digest):
                found = identity
        return found


Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Ends calls without a known token with UNAUTHENTICATED, and notes who makes the others."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._registry = TokenRegistry(tokens)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "Handler | None":
        """Looks at the call's metadata before its handler is chosen."""
        if handler_call_details.method.startswith(_OPEN_SERVICES):
            return await continuation(handler_call_details)
        token = _bearer_token(handler_call_details)
        if token is None:
            return _refusal(_MISSING)
        identity = self._registry.find(token)
        if identity is None:
            return _refusal(_UNKNOWN)
        _current.set(identity)
        return await continuation(handler_call_details)


def _bearer_token(details: grpc.HandlerCallDetails) -> str | None:
    for key, value in details.invocation_metadata:
        if key == "authorization":
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            scheme, _, token = text.partition(" ")
            return token.strip() if scheme.lower() == "bearer" else None
    return None


def _refusal(message: str) -> Handler:
    """A handler that ends any kind of call: the streaming kind does not wait for a first request."""

    async def refuse(requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[bytes]:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)
        yield b""

    return grpc.stream_stream_rpc_method_handler(refuse)
