"""A gateway for one sink: it welcomes by itself, and says the rest when a check says so."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.server import GatewayServer
from headrace.conformance.core.trace import Trace
from headrace.conformance.sinks.session import SinkSession
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer, add_SinkServiceServicer_to_server


class SinkGateway(GatewayServer, SinkServiceServicer):
    """Serves the sessions of one sink."""

    register = add_SinkServiceServicer_to_server  # type: ignore[assignment]

    def __init__(self, trace: Trace, changes: Changes) -> None:
        super().__init__()
        self.trace = trace
        self.changes = changes
        self.breach: Callable[[str, str], None] = lambda check, what: None
        self.sessions: list[SinkSession] = []
        self.welcomes = True
        """Whether it answers SinkHello."""
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        """How it ends each session, instead of a SinkWelcome."""
        self.read_timeout_ms = 30_000

    def greeted(self, session: SinkSession) -> None:
        """SinkHello has arrived."""
        if self.refusal is not None:
            status, text = self.refusal
            self.trace.event(f"#{session.number} the gateway ends the session: {status.name}, {text}")
            session.close(status, text)
        elif self.welcomes:
            session.welcome()

    async def Attach(  # type: ignore[override]
        self, request_iterator: AsyncIterator[pb.SinkServiceAttachRequest], context: Any
    ) -> None:
        """One session."""
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        session = SinkSession(metadata=metadata, number=len(self.sessions) + 1, gateway=self)
        self.sessions.append(session)
        self.trace.event(f"#{session.number} the connector calls SinkService.Attach")
        self.changes.notify()
        try:
            await session.serve(request_iterator, context)
        finally:
            session.ended = True
            self.trace.event(f"#{session.number} the call has ended")
            self.changes.notify()
