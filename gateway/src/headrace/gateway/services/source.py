"""SourceService: one task of a session reads the connector's messages, another writes to it."""

import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from operator import attrgetter
from typing import Any

import grpc.aio

from headrace.contract import clock
from headrace.contract.limits import PROTOCOL_VERSION
from headrace.contract.units import milliseconds
from headrace.gateway.core import VERSION, Gateway
from headrace.gateway.core.base.bounds import check_hello
from headrace.gateway.core.base.errors import NotPermitted, OutOfTurn, UnknownMessage
from headrace.gateway.core.base.position import check_name
from headrace.gateway.core.connections import Role, connector_part
from headrace.gateway.core.housekeeping import MIN_LINGER_MS
from headrace.gateway.core.intake import (
    close_stream,
    lose_position,
    note_backlog,
    open_stream,
    request_credit,
    take_frame,
    take_starts,
)
from headrace.gateway.core.streams import OVERHEAD_BYTES, Session, check_several
from headrace.gateway.identity import Identity
from headrace.gateway.services.calls import UNKNOWN_MESSAGE, check_of_session, write_in_time
from headrace.gateway.services.received import FrameOfSeveral, Received
from headrace.gateway.services.sessions import SessionKind, serve_session, take_leave, take_report
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer

Context = grpc.aio.ServicerContext[pb.IngestRequest, pb.IngestResponse]

log = logging.getLogger("headrace.gateway")


class SourceService(SourceServiceServicer):
    """Serves source connectors."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._sessions = SessionKind(
            "session",
            Role.SOURCE,
            "an IngestRequest",
            attrgetter("request"),
            _part,
            _check,
            gateway.open_session,
            gateway.close_session,
        )

    async def Ingest(self, request_iterator: AsyncIterator[Received], context: Context) -> None:  # type: ignore[override]
        """Serves one session, from Hello to its end."""

        def tasks(_: pb.Hello, session: Session) -> tuple[Coroutine[Any, Any, None], ...]:
            session.send(self._welcome(session))
            return self._read(session, request_iterator), self._write(session, context)

        await serve_session(self._gateway, context, self._sessions, request_iterator, tasks)

    def _welcome(self, session: Session) -> pb.IngestResponse:
        limits, account = self._gateway.limits, session.account
        session.linger_ms = MIN_LINGER_MS
        return pb.IngestResponse(
            welcome=pb.Welcome(
                protocol_version=PROTOCOL_VERSION,
                gateway_version=VERSION,
                session=session.id,
                max_frame_bytes=limits.max_frame_bytes,
                max_frame_messages=limits.max_frame_messages,
                max_streams=limits.max_streams_per_session,
                frame_overhead_bytes=OVERHEAD_BYTES,
                credit=pb.Credit(bytes=account.bytes_left, messages=account.messages_left),
                pace=pb.Pace(linger_ms=MIN_LINGER_MS),
                capabilities=[pb.CAPABILITY_PACE, pb.CAPABILITY_HEARTBEAT, pb.CAPABILITY_FRAMES, pb.CAPABILITY_CURSORS],
                max_cursor_bytes=limits.max_cursor_bytes,
            )
        )

    async def _read(self, session: Session, requests: AsyncIterator[Received]) -> None:
        gateway = self._gateway
        async for request, frame, frame_bytes, several in requests:
            if session.failure is not None:
                raise session.failure
            session.heartbeat.heard()
            match request.WhichOneof("message"):
                case "frame":
                    take_frame(gateway, session, request.frame, frame, frame_bytes)
                case "frames":
                    self._take_several(session, several)
                case "backlog":
                    note_backlog(session, request.backlog)
                case "open_stream":
                    self._open_stream(session, request.open_stream)
                case "close_stream":
                    close_stream(gateway, session, request.close_stream)
                case "position_lost":
                    lose_position(session, request.position_lost)
                case "credit_request":
                    request_credit(gateway, session, request.credit_request)
                case "starts":
                    take_starts(gateway, session, request.starts)
                case "report":
                    take_report(session, request.report)
                    session.note_errors(request.report)
                case "goodbye":
                    take_leave(session, request.goodbye)
                    return
                case "hello":
                    raise OutOfTurn("a second Hello: send it only once in each session")
                case _:
                    raise UnknownMessage(UNKNOWN_MESSAGE)

    def _take_several(self, session: Session, several: Sequence[FrameOfSeveral]) -> None:
        check_several([len(serialized) for _, serialized in several], self._gateway.limits)
        for frame, serialized in several:
            take_frame(self._gateway, session, frame, serialized, len(serialized))

    def _open_stream(self, session: Session, request: pb.OpenStream) -> None:
        identity = session.identity
        if identity.may_open(check_name(request.stream)):
            open_stream(self._gateway, session, request)
        else:
            text = f"the token of {identity.name!r} does not allow stream {request.stream[:80]!r}; add it to the token's sources"
            session.reject(request.stream_id, pb.REJECT_REASON_NOT_PERMITTED, text)
            self._gateway.refusals.note(Role.SOURCE, f"stream {request.stream}", session.peer, NotPermitted(text))

    async def _write(self, session: Session, context: Context) -> None:
        timeout_ms = milliseconds(self._gateway.limits.write_timeout_seconds)
        while True:
            for response in session.waiting():
                await write_in_time(context, response, timeout_ms, "connector", "keep reading while you send")
                if session.acknowledging_since is not None:
                    for observe in self._gateway.acknowledgement_observers:
                        observe(clock.monotonic() - session.acknowledging_since)
                    self._trace(session, response, session.acknowledging_since)
                    session.acknowledging_since = None
            if session.failure is not None:
                raise session.failure
            if not session.has_waiting():
                await session.outgoing.wait()

    def _trace(self, session: Session, written: pb.IngestResponse, since: float) -> None:
        if self._gateway.tracing is not None and written.HasField("ack"):
            for stream in written.ack.streams:
                self._gateway.tracing.settled(session, stream.stream_id, stream.position.sequence, since)


def _part(hello: pb.Hello) -> str:
    return connector_part(hello.instance)


def _check(hello: pb.Hello, _: Identity) -> None:
    check_of_session(hello)
    check_hello(hello)
