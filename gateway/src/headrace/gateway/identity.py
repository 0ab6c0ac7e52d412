"""Authentication of callers, and their rights.

Every call passes `AuthInterceptor`. If tokens are configured, it must send `authorization: Bearer <token>`, except for
grpc.health.v1, which remains open so that probes need no secret. A call that did not pass the interceptor has no rights.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
import grpc.aio

from headrace.contract.errors import HeadraceError
from headrace.contract.names import covers
from headrace.gateway.config import Token
from headrace.gateway.refusals import log_refusal
from headrace.gateway.rules import OPEN_METHODS, RULES, Right
from headrace.gateway.statuses import Reason, abort
from headrace.protocol.v1 import connector_pb2

_MISSING = "this gateway needs a token: send `authorization: Bearer <token>` (option --token, or HEADRACE_TOKEN)"
_UNKNOWN = "this gateway does not know the token that was sent"


@dataclass(frozen=True)
class Identity:
    """The rights of a token. All but the booleans are name patterns; a name that no pattern covers is not permitted."""

    name: str
    sources: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    admin: bool = False
    control: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    peek: tuple[str, ...] = ()
    supervise: tuple[str, ...] = ()
    digest: str = field(default="", repr=False)
    """The SHA-256 of the token that was sent, so that revoking another token of the same name does not end the session."""

    def has(self, right: Right) -> bool:
        """Returns whether it has the right for at least one name."""
        return bool(getattr(self, right.value))

    def lacks(self, needed: frozenset[Right], what: str) -> str:
        """Returns why it may not call `what`, which needs these rights; empty if it may."""
        if all(self.has(right) for right in needed):
            return ""
        lacking = [right.value for right in Right if right in needed and not self.has(right)]
        return f"the token of {self.name!r} does not allow {what}: it has no {' and no '.join(lacking)}" if lacking else ""

    def may_open(self, stream: str) -> bool:
        """Returns whether a connector may send this stream."""
        return _any_covers(self.sources, stream)

    def may_write(self, sink: str) -> bool:
        """Returns whether a connector may attach as this sink."""
        return _any_covers(self.sinks, sink)

    def may_run(self, pipeline: str) -> bool:
        """Returns whether an engine may attach as this pipeline."""
        return _any_covers(self.pipelines, pipeline)

    def may_read(self, streams: str) -> bool:
        """Returns whether its pipelines may read every stream that the name or pattern covers."""
        return _any_covers(self.reads, streams)

    def may_deliver(self, sink: str) -> bool:
        """Returns whether its pipelines may write to this sink."""
        return _any_covers(self.writes, sink)

    def may_peek(self, name: str) -> bool:
        """Returns whether it may see messages of this stream, or dead letters of this sink."""
        return _any_covers(self.peek, name)

    def may_administer(self) -> bool:
        """Returns whether it may read the status."""
        return self.admin

    def may_control(self) -> bool:
        """Returns whether it may change what the gateway does: pause, forget, drain, reload, restart."""
        return self.control

    def may_supervise(self, deployment: str) -> bool:
        """Returns whether it may register this deployment."""
        return _any_covers(self.supervise, deployment)


def _any_covers(patterns: Sequence[str], name: str) -> bool:
    return any(covers(pattern, name) for pattern in patterns)


EVERYTHING = Identity(
    "anybody",
    sources=("*/*",),
    sinks=("*",),
    pipelines=("*",),
    admin=True,
    control=True,
    reads=("*/*",),
    writes=("*",),
    peek=("*/*", "*"),
    supervise=("*",),
)
"""The identity of all callers if no tokens are configured."""

NOBODY = Identity("nobody")
"""The identity of a call that did not pass the interceptor."""

_current: ContextVar[Identity] = ContextVar("headrace_identity", default=NOBODY)
_method: ContextVar[str] = ContextVar("headrace_method", default="")


def identity_of(context: "grpc.aio.ServicerContext[Any, Any]") -> Identity:
    """Returns the identity of a call's sender. Must be called in the RPC's own task."""
    del context  # The interceptor ran in the same task, and set the context variable.
    return _current.get()


def current_identity() -> Identity:
    """Returns the identity of the sender of the call that the current task serves."""
    return _current.get()


def method_of(context: "grpc.aio.ServicerContext[Any, Any]") -> str:
    """Returns the name of a call's method. Must be called in the RPC's own task."""
    del context  # As above.
    return _method.get()


class Unauthenticated(HeadraceError):
    """A caller sent no token, or one that this gateway does not know."""


def token_digest(token: str) -> str:
    """Returns the SHA-256 of a token in hex, as in the configuration."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenRegistry:
    """The valid tokens, by digest. Until one is configured for the first time, every caller has all rights."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.is_open = True
        """Whether callers need no token."""
        self._identities: list[tuple[bytes, Identity]] = []
        self.replace(tokens)

    def replace(self, tokens: Sequence[Token]) -> None:
        """Replaces the tokens, for calls that begin from now on. A gateway that once had tokens always requires one."""
        self.is_open = self.is_open and not tokens
        self._identities = [(digest.encode(), _identity(token, digest)) for token in tokens for digest in token.sha256]

    def authenticate(self, authorization: str | None) -> Identity:
        """Returns the identity of the caller that sent an `authorization` header; None if it sent none.

        Raises:
            Unauthenticated: tokens are configured, and the header has none of them.
        """
        if self.is_open:
            return EVERYTHING
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated(_MISSING)
        identity = self.find(token.strip())
        if identity is None:
            raise Unauthenticated(_UNKNOWN)
        return identity

    def find(self, token: str) -> Identity | None:
        """Returns the identity of a token; None if it is unknown. Takes the same time for unknown and for valid tokens."""
        digest = token_digest(token).encode()
        found = None
        for known, identity in self._identities:
            if hmac.compare_digest(known, digest):
                found = identity
        return found

    def holds(self, identity: Identity) -> bool:
        """Returns whether an identity is still valid, with the same rights."""
        return identity == EVERYTHING if self.is_open else any(known == identity for _, known in self._identities)


def _identity(token: Token, digest: str) -> Identity:
    return Identity(
        token.name,
        sources=token.sources,
        sinks=token.sinks,
        pipelines=token.pipelines,
        admin=token.admin,
        control=token.control,
        reads=token.reads,
        writes=token.writes,
        peek=token.peek,
        supervise=token.supervise,
        digest=digest,
    )


Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Ends calls without a known token with UNAUTHENTICATED, and calls without the required rights with PERMISSION_DENIED."""

    def __init__(self, registry: TokenRegistry, note: Callable[[str, str, str], None] = lambda method, peer, text: None) -> None:
        """Creates it.

        Args:
            registry: The tokens that callers need.
            note: Called for each refused call with its method, the address of the caller, and the status with the error.
        """
        self._registry = registry
        self._note = note

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "Handler | None":
        """Checks the call's token and rights before its handler is chosen, and records its identity."""
        method = handler_call_details.method
        if method in OPEN_METHODS:
            return await continuation(handler_call_details)
        try:
            identity = self._registry.authenticate(_authorization(handler_call_details))
        except Unauthenticated as error:
            call = method if method in RULES else "an unknown method"
            status, reason = grpc.StatusCode.UNAUTHENTICATED, connector_pb2.ERROR_REASON_UNAUTHENTICATED
            return self._refusal(call, None, status, str(error), reason)
        needed = RULES.get(method)
        if needed is None:
            handler = await continuation(handler_call_details)
            return handler and self._not_permitted(method, identity, f"no rule says who may call {method}")
        if refusal := identity.lacks(needed, method):
            return self._not_permitted(method, identity, refusal)
        # Before the call is served in any way, so that whoever serves it knows whose it is.
        _current.set(identity)
        _method.set(method)
        return await continuation(handler_call_details)

    def _not_permitted(self, call: str, identity: Identity, message: str) -> Handler:
        status, reason = grpc.StatusCode.PERMISSION_DENIED, connector_pb2.ERROR_REASON_NOT_PERMITTED
        return self._refusal(call, identity.name, status, message, reason)

    def _refusal(self, call: str, caller: str | None, status: grpc.StatusCode, message: str, reason: Reason) -> Handler:
        """Returns a handler that ends any kind of call. It is a streaming handler, which does not wait for a first request."""

        async def refuse(requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[bytes]:
            # Only the call itself knows where it comes from.
            log_refusal(call, context.peer(), message, caller)
            self._note(call, context.peer(), f"{status.name}: {message}")
            await abort(context, status, message, reason)
            yield b""

        return grpc.stream_stream_rpc_method_handler(refuse)


def _authorization(details: grpc.HandlerCallDetails) -> str | None:
    for key, value in details.invocation_metadata:
        if key == "authorization":
            return value.decode("latin-1") if isinstance(value, bytes) else value
    return None
