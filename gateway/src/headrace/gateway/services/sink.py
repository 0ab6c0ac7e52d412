"""SinkService: one task of a session reads the sink's messages, another writes to it."""

import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import grpc.aio

from headrace.contract.limits import PROTOCOL_VERSION
from headrace.contract.units import milliseconds
from headrace.gateway.core import VERSION, Gateway
from headrace.gateway.core.base.bounds import MAX_LISTED, check_count
from headrace.gateway.core.base.errors import ListTooLong, MalformedMessage, NotPermitted, OutOfTurn, UnknownMessage
from headrace.gateway.core.batches import attach_sink, note_visible
from headrace.gateway.core.connections import Role, connector_part
from headrace.gateway.core.sinks import Response, Sink, SinkSession, check_sink
from headrace.gateway.identity import Identity
from headrace.gateway.services.calls import UNKNOWN_MESSAGE, check_of_session
from headrace.gateway.services.sessions import SessionKind, serve_session, take_leave, take_report
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer

Context = grpc.aio.ServicerContext[pb.SinkServiceAttachRequest, Response]
Requests = AsyncIterator[pb.SinkServiceAttachRequest]

log = logging.getLogger("headrace.gateway")


class SinkService(SinkServiceServicer):
    """Serves sink connectors."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._sessions = SessionKind(
            "sink session",
            Role.SINK,
            "a sink's message",
            lambda request: request,
            _part,
            _check,
            gateway.open_sink_session,
            gateway.close_sink_session,
        )

    async def Attach(self, request_iterator: Requests, context: Context) -> None:  # type: ignore[override]
        """Serves one session, from Hello to its end."""

        def tasks(_: pb.SinkHello, session: SinkSession) -> tuple[Coroutine[Any, Any, None], ...]:
            session.send(pb.SinkServiceAttachResponse(welcome=self._welcome(session)))
            sink = attach_sink(self._gateway, session)
            return self._read(sink, session, request_iterator), self._write(session, context)

        await serve_session(self._gateway, context, self._sessions, request_iterator, tasks)

    def _welcome(self, session: SinkSession) -> pb.SinkWelcome:
        return pb.SinkWelcome(
            protocol_version=PROTOCOL_VERSION,
            gateway_version=VERSION,
            session=session.id,
            read_timeout_ms=milliseconds(self._gateway.limits.write_timeout_seconds),
            capabilities=[source_pb2.CAPABILITY_HEARTBEAT, source_pb2.CAPABILITY_RUNS],
        )

    async def _read(self, sink: Sink, session: SinkSession, requests: Requests) -> None:
        async for request in requests:
            if session.failure is not None:
                raise session.failure
            was_proven = session.heartbeat.proves_life
            session.note_activity()
            if not was_proven:
                sink.losses += self._gateway.votes.check_instance(session)
            match request.WhichOneof("message"):
                case "staged":
                    _staged(sink, session, request.staged)
                case "prepared":
                    transaction = session.named(request.prepared.transaction)
                    if not session.prepared(transaction):
                        log.info("ignored a vote for an aborted transaction", extra={**session.for_logs, **transaction.for_logs})
                    else:
                        log.debug("transaction voted for", extra={**session.for_logs, **transaction.for_logs})
                        sink.note_success(session)
                case "committed":
                    transaction = session.named(request.committed.transaction)
                    if session.committed(transaction):
                        log.debug("transaction visible", extra={**session.for_logs, **transaction.for_logs})
                        sink.note_committed(transaction)
                        note_visible(self._gateway, transaction)
                        sink.note_success(session)
                case "failed":
                    _failed(sink, session, request.failed)
                case "busy":
                    pass  # `note_activity` already has its effect.
                case "report":
                    take_report(session, request.report)
                    sink.note_errors(request.report)
                case "goodbye":
                    take_leave(session, request.goodbye)
                    return
                case "hello":
                    raise OutOfTurn("a second SinkHello: a session has one", sink=sink.name)
                case _:
                    raise UnknownMessage(UNKNOWN_MESSAGE, sink=sink.name)

    async def _write(self, session: SinkSession, context: Context) -> None:
        while True:
            while (response := session.waiting()) is not None:
                async with session.writing(milliseconds(self._gateway.limits.write_timeout_seconds)):
                    await context.write(response)
            if session.failure is not None:
                raise session.failure
            await session.outgoing.wait()


def _part(hello: pb.SinkHello) -> str:
    return connector_part(hello.instance, hello.sink) if hello.sink else ""


def _check(hello: pb.SinkHello, identity: Identity) -> None:
    check_of_session(hello)
    for field in ("staged", "prepared", "committed"):
        try:
            check_count(field, getattr(hello, field), MAX_LISTED)
        except ListTooLong as error:
            raise error.within(f"sink {hello.sink[:80]!r}", sink=hello.sink[:80]) from None
    if hello.mode not in (pb.SINK_MODE_TWO_PHASE, pb.SINK_MODE_BATCH_IDEMPOTENT, pb.SINK_MODE_AT_LEAST_ONCE):
        raise MalformedMessage(f"sink {hello.sink[:80]}: mode {hello.mode} is not one of the SinkModes")
    if not identity.may_write(check_sink(hello.sink)):
        text = f"the token of {identity.name!r} does not allow sink {hello.sink!r}; add it to the token's sinks"
        raise NotPermitted(text, sink=hello.sink)


def _staged(sink: Sink, session: SinkSession, staged: pb.Staged) -> None:
    opened = session.staged(staged.id, list(staged.refused))
    if opened is not None:
        sink.note_success(session)
        sink.staged_messages += opened.messages - len(staged.refused)
        sink.refused_messages += len(staged.refused)


def _failed(sink: Sink, session: SinkSession, failed: pb.Failed) -> None:
    reason = failed.reason[:500]
    sink.note_failure(session.instance, reason)
    if failed.WhichOneof("what") == "part_id":
        # The part may have been dropped in the meantime.
        opened = session.open.get(failed.part_id)
        log.warning("a sink failed", extra={**session.for_logs, **(opened.for_logs if opened else {}), "error": reason})
        session.part_failed(failed.part_id, reason)
        return
    transaction = session.named(failed.transaction)
    log.warning("a sink failed", extra={**session.for_logs, **transaction.for_logs, "error": reason})
    if not session.transaction_failed(transaction, reason):
        sink.note_failed(transaction, f"instance {session.instance}: {reason}")
