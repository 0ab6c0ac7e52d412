"""What the gateways for sources and for sinks share: the sessions that a connector has begun, and how each is answered."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import grpc

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.server import GatewayServer
from headrace.conformance.core.trace import Trace
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.connector_pb2 import Report


@dataclass(frozen=True)
class Received:
    """A Report, and when it arrived, by the monotonic clock."""

    report: Report
    at: float = field(default_factory=time.monotonic)


class Session(Protocol):
    """A session, as its gateway sees it."""

    number: int
    ended: bool

    def welcome(self) -> None:
        """Answers Hello."""

    def close(self, status: grpc.StatusCode, details: str) -> None:
        """Ends the session."""

    async def serve(self, requests: AsyncIterator[Any], context: Any) -> None:
        """Runs the session until either side ends it."""


S = TypeVar("S", bound=Session)


class SessionGateway(GatewayServer, Generic[S]):
    """Serves the sessions of one connector, and keeps them."""

    def __init__(self, trace: Trace, changes: Changes) -> None:
        super().__init__()
        self.trace = trace
        self.changes = changes
        self.breach: Callable[[str, str], None] = lambda check, what: None
        self.sessions: list[S] = []
        self.welcomes = True
        """Whether it answers Hello."""
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        """How it ends each session, instead of a Welcome."""
        self.capabilities: list[Any] = [source_pb2.CAPABILITY_PACE, source_pb2.CAPABILITY_HEARTBEAT]
        """What Welcome lists."""
        self.reports: list[Received] = []
        """The Reports of all sessions."""

    def greeted(self, session: S) -> None:
        """Hello has arrived."""
        if self.refusal is not None:
            status, text = self.refusal
            self.trace.event(f"#{session.number} the gateway ends the session: {status.name}, {text}")
            session.close(status, text)
        elif self.welcomes:
            session.welcome()

    def reported(self, report: Report) -> None:
        """Report has arrived."""
        self.reports.append(Received(report))

    async def run(self, call: str, session: S, requests: AsyncIterator[Any], context: Any) -> None:
        """Runs a session that a connector begins by a call of this name."""
        self.sessions.append(session)
        self.trace.event(f"#{session.number} the connector calls {call}")
        self.changes.notify()
        try:
            await session.serve(requests, context)
        finally:
            session.ended = True
            self.trace.event(f"#{session.number} the call has ended")
            self.changes.notify()


def metadata_of(context: Any) -> dict[str, str]:
    """Returns the metadata of a call, as text."""
    return {str(key): str(value) for key, value in context.invocation_metadata() or ()}
