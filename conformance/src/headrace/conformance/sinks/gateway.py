"""A gateway for one sink: it welcomes by itself, and says the rest when a check says so."""

from collections.abc import AsyncIterator
from typing import Any

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.gateway import SessionGateway, metadata_of
from headrace.conformance.core.trace import Trace
from headrace.conformance.sinks.session import SinkSession
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer, add_SinkServiceServicer_to_server


class SinkGateway(SessionGateway[SinkSession], SinkServiceServicer):
    """Serves the sessions of one sink."""

    register = add_SinkServiceServicer_to_server  # type: ignore[assignment]

    def __init__(self, trace: Trace, changes: Changes) -> None:
        super().__init__(trace, changes)
        self.read_timeout_ms = 30_000

    async def Attach(  # type: ignore[override]
        self, request_iterator: AsyncIterator[pb.SinkServiceAttachRequest], context: Any
    ) -> None:
        """One session."""
        session = SinkSession(metadata=metadata_of(context), number=len(self.sessions) + 1, gateway=self)
        await self.run("SinkService.Attach", session, request_iterator, context)
