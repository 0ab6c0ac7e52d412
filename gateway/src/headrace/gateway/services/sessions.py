"""The life of a connector's session, from Hello to its end: the same for sources and for sinks."""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError

from headrace.contract.units import milliseconds
from headrace.gateway.core import Gateway, ProtocolError
from headrace.gateway.core.base.errors import MalformedMessage, NoMessage
from headrace.gateway.core.connections import ConnectorCounts, Reported, Role
from headrace.gateway.identity import Identity, identity_of
from headrace.gateway.services.calls import begin_call, end_call, first_of, first_to_end
from headrace.logs.context import log_fields
from headrace.protocol.v1 import connector_pb2, sink_pb2, source_pb2

log = logging.getLogger("headrace.gateway")


class AnySession(Protocol):
    """The interface that the sessions of sources and of sinks share."""

    peer: str
    """The address from which the connector calls."""
    reported: Reported
    counts: ConnectorCounts

    @property
    def part(self) -> str:
        """The connector, as health names it."""

    @property
    def for_logs(self) -> Mapping[str, str | int]:
        """The keys and values that every log line about the session contains."""

    def end(self, failure: ProtocolError) -> None:
        """Ends the session with an error."""


H = TypeVar("H", source_pb2.Hello, sink_pb2.SinkHello)
R = TypeVar("R")
S = TypeVar("S", bound=AnySession)


@dataclass(frozen=True, slots=True)
class SessionKind(Generic[R, H, S]):
    """How sessions of sources, or of sinks, begin and end.

    Attributes:
        name: What log lines call such a session.
        role: The role of its connector.
        message: The message that the connector sends, for the error about bytes that are something else.
        request: Returns the message of the protocol in what was received.
        part: Returns the connector that a Hello names, as health names it; empty if its names are no names.
        check: Raises the error of a Hello that is not valid, or that the caller's identity does not permit.
        open: Opens a session for a Hello, the caller's address and its identity.
        close: Closes a session.
    """

    name: str
    role: Role
    message: str
    request: Callable[[R], Any]
    part: Callable[[H], str]
    check: Callable[[H, Identity], None]
    open: Callable[[H, str, Identity], S]
    close: Callable[[S], None]


async def serve_session(
    gateway: Gateway,
    context: "grpc.aio.ServicerContext[Any, Any]",
    kind: SessionKind[R, H, S],
    requests: AsyncIterator[R],
    tasks: Callable[[H, S], tuple[Coroutine[Any, Any, None], ...]],
) -> None:
    """Serves one session; an error of the connector ends the call with its status.

    Args:
        gateway: The gateway.
        context: The call.
        kind: How the session begins and ends.
        requests: The messages of the connector.
        tasks: Returns what serves the open session, until the first of them ends.
    """
    identity = identity_of(context)
    session: S | None = None
    part, was_admitted = "", False
    try:
        first: H = await first_of(_first(kind, requests), milliseconds(gateway.limits.hello_timeout_seconds), "session", "Hello")
        part = kind.part(first)
        kind.check(first, identity)
        await begin_call(context)
        session = kind.open(first, context.peer(), identity)
        with log_fields(**session.for_logs), gateway.open_calls.woken(identity, session.end):
            event = f"{kind.name} opened"
            log.info(event, extra={"connector": first.connector, "peer": session.peer})
            serving = tasks(first, session)
            was_admitted = True
            gateway.refusals.admit(part)
            await first_to_end(*serving)
    except (ProtocolError, DecodeError) as failure:
        error = failure if isinstance(failure, ProtocolError) else MalformedMessage(f"not {kind.message}: {failure}")
        gateway.note_rejected(error, kind.role, part, context.peer(), was_admitted=was_admitted)
        known = session.for_logs if session is not None else {}
        event = f"{kind.name} ended"
        log.warning(event, extra={**known, "peer": context.peer(), "status": error.status.name, "error": str(error)})
        _close(kind, session)
        session = None
        await end_call(context, error)
    finally:
        _close(kind, session)


def take_report(session: AnySession, report: connector_pb2.Report) -> None:
    """Takes what a connector reports about itself."""
    session.reported.take(report)
    session.counts.errors += len(report.errors)


def take_leave(session: AnySession, goodbye: source_pb2.Goodbye | sink_pb2.SinkGoodbye) -> None:
    """Takes the last message of a session."""
    session.reported.last_words = goodbye.reason[:500]


async def _first(kind: SessionKind[R, H, S], requests: AsyncIterator[R]) -> Any:
    """Returns the first message of a session.

    Raises:
        NoMessage: it ends without one.
    """
    first = await anext(requests, None)
    if first is None:
        raise NoMessage("the first message of a session must be Hello; it has ended without a message")
    return kind.request(first)


def _close(kind: SessionKind[R, H, S], session: S | None) -> None:
    """Closes a session without waiting for its client to read the status, which may take arbitrarily long."""
    if session is not None:
        kind.close(session)
        event = f"{kind.name} closed"
        log.info(event, extra=session.for_logs)
