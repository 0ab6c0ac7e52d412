"""AdminService, for operators and scripts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc
import grpc.aio

from headrace.contract.limits import MAX_BATCHES, MAX_EVENTS, MAX_SEQUENCE
from headrace.contract.names import nearest
from headrace.contract.units import milliseconds
from headrace.gateway.core import Gateway, ProtocolError
from headrace.gateway.core.base.errors import MalformedMessage, NotPermitted
from headrace.gateway.core.control import (
    Caller,
    drain,
    drain_progress,
    forget_pipeline,
    forget_stream,
    pause,
    read_log,
    reload,
    replay_dead_letters,
    restart_connector,
    resume,
    unknown,
)
from headrace.gateway.core.state import Replay
from headrace.gateway.core.status import (
    begin_peek,
    list_batches,
    list_dead_letters,
    list_events,
    locate,
    missing,
    pause_status,
    peek,
)
from headrace.gateway.core.streams import PartKind
from headrace.gateway.identity import Identity, identity_of
from headrace.gateway.observer import Observer
from headrace.gateway.services.calls import begin_call, end_call, write_in_time
from headrace.gateway.services.supervise import supervise
from headrace.gateway.statuses import Context, abort
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceServicer

DRAIN_REPORT_S = 0.5
"""How often the progress of a drain is reported."""


class AdminService(AdminServiceServicer):
    """Reports the gateway's state, and makes the changes that operators request."""

    def __init__(self, gateway: Gateway, observer: Observer) -> None:
        self._gateway = gateway
        self._observer = observer

    async def GetStatus(self, request: pb.GetStatusRequest, context: Context) -> pb.GetStatusResponse:
        """Returns the status of the gateway, and what is wrong."""
        await _reading(context)
        return (await self._observer.current()).status

    async def ListBatches(self, request: pb.ListBatchesRequest, context: Context) -> pb.ListBatchesResponse:
        """Returns the last micro-batches of a pipeline."""
        await _reading(context)
        if request.limit > MAX_BATCHES:
            text = f"limit {request.limit}: the gateway keeps {MAX_BATCHES} micro-batches of each pipeline"
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        pipeline = self._gateway.pipelines.get(request.pipeline)
        if pipeline is None:
            text = str(unknown("pipeline", request.pipeline[:80], self._gateway.pipelines))
            await abort(context, grpc.StatusCode.NOT_FOUND, text)
        return await list_batches(pipeline, request.limit or MAX_BATCHES)

    async def ListEvents(self, request: pb.ListEventsRequest, context: Context) -> pb.ListEventsResponse:
        """Returns the last events."""
        await _reading(context)
        if request.limit > MAX_EVENTS:
            text = f"limit {request.limit}: the gateway remembers {MAX_EVENTS} events"
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        return list_events(self._gateway.event_log, request.limit or MAX_EVENTS, request.after)

    async def LocateMessage(self, request: pb.LocateMessageRequest, context: Context) -> pb.LocateMessageResponse:
        """Returns where a message stands on its way to its acknowledgement."""
        await _reading(context)
        epoch = request.epoch if request.HasField("epoch") else None
        if max(request.sequence, request.epoch) > MAX_SEQUENCE:
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "the largest sequence and the largest epoch are 2^63 - 1")
        observed = await self._observer.current()
        stream = self._gateway.streams.get(request.stream)
        if stream is None:
            near = nearest(request.stream, self._gateway.streams)
            text = f"no stream {request.stream[:80]!r}; headrace status lists all{near}"
            await abort(context, grpc.StatusCode.NOT_FOUND, text + missing(observed.status, request.stream))
        return locate(self._gateway, stream, epoch, request.sequence, observed.status.problems)

    async def ForgetPipeline(self, request: pb.ForgetPipelineRequest, context: Context) -> pb.ForgetPipelineResponse:
        """Forgets a pipeline. Rejects one that the configuration declares, and, without `force`, one that is attached."""
        caller = await _controlling(context)
        forget_pipeline(self._gateway, caller, request.pipeline, force=request.force)
        return pb.ForgetPipelineResponse()

    async def Pause(self, request: pb.PauseRequest, context: Context) -> pb.PauseResponse:
        """Pauses a part."""
        caller = await _controlling(context)
        in_effect, changed = pause(self._gateway, caller, _kind(request.kind), request.name)
        return pb.PauseResponse(pause=pause_status(in_effect), changed=changed)

    async def Resume(self, request: pb.ResumeRequest, context: Context) -> pb.ResumeResponse:
        """Ends the pause of a part."""
        caller = await _controlling(context)
        return pb.ResumeResponse(changed=resume(self._gateway, caller, _kind(request.kind), request.name))

    async def ForgetStream(self, request: pb.ForgetStreamRequest, context: Context) -> pb.ForgetStreamResponse:
        """Treats a stream as if its source had ended it permanently."""
        caller = await _controlling(context)
        return pb.ForgetStreamResponse(forgotten=forget_stream(self._gateway, caller, request.stream))

    async def Drain(self, request: pb.DrainRequest, context: Context) -> AsyncIterator[pb.DrainResponse]:
        """Drains, and reports the progress until nothing is left or the time is over."""
        caller = await _controlling(context)
        try:
            task = drain(self._gateway, caller, request.timeout_ms if request.HasField("timeout_ms") else None)
        except ProtocolError as error:
            await end_call(context, error)
            return
        while True:
            left = drain_progress(self._gateway)
            yield pb.DrainResponse(
                sessions=left.sessions,
                sink_sessions=left.sink_sessions,
                unacknowledged_messages=left.unacknowledged_messages,
                done=left.done,
            )
            if left.done:
                return
            # The drain continues if the caller leaves.
            await asyncio.wait({task}, timeout=DRAIN_REPORT_S)

    async def Reload(self, request: pb.ReloadRequest, context: Context) -> pb.ReloadResponse:
        """Reads the configuration again, and applies all that has changed, or nothing."""
        caller = await _controlling(context)
        return pb.ReloadResponse(changes=reload(self._gateway, caller))

    async def RestartConnector(self, request: pb.RestartConnectorRequest, context: Context) -> pb.RestartConnectorResponse:
        """Restarts a connector of a registered deployment, and waits until it has a session again."""
        caller = await _controlling(context)
        timeout_ms = request.timeout_ms if request.HasField("timeout_ms") else None
        return await restart_connector(self._gateway, caller, request.connector, request.deployment, timeout_ms)

    async def ReplayDeadLetters(self, request: pb.ReplayDeadLettersRequest, context: Context) -> pb.ReplayDeadLettersResponse:
        """Has a registered deployment replay the dead letters of a sink, and waits until all are acknowledged."""
        caller = await _controlling(context)
        timeout_ms = request.timeout_ms if request.HasField("timeout_ms") else None
        replay = Replay(request.source, request.refused_by)
        return await replay_dead_letters(self._gateway, caller, request.sink, replay, request.deployment, timeout_ms)

    async def ReadLog(self, request: pb.ReadLogRequest, context: Context) -> pb.ReadLogResponse:
        """Returns the last lines of the log of a process of a registered deployment."""
        caller = await _controlling(context)
        timeout_ms = request.timeout_ms if request.HasField("timeout_ms") else None
        return await read_log(self._gateway, caller, request.process, request.deployment, request.lines, timeout_ms)

    async def Supervise(  # type: ignore[override]
        self,
        request_iterator: AsyncIterator[pb.SuperviseRequest],
        context: Context,
    ) -> None:
        """Registers the supervisor of a deployment, and sends it the restarts and replays that are requested."""
        identity = identity_of(context)
        try:
            if not identity.supervise:
                text = f"the token of {identity.name!r} does not allow this; name the deployment in its supervise"
                raise NotPermitted(text)
            await supervise(self._gateway, identity, request_iterator, context)
        except ProtocolError as error:
            await end_call(context, error)

    async def ListDeadLetters(self, request: pb.ListDeadLettersRequest, context: Context) -> pb.ListDeadLettersResponse:
        """Returns the last dead letters of sinks."""
        identity = identity_of(context)
        caller = _caller(identity, context)
        return await list_dead_letters(self._gateway, caller, identity, request.sink, request.limit)

    async def Peek(  # type: ignore[override]  # it writes, so that it can limit how long that takes
        self, request: pb.PeekRequest, context: Context
    ) -> None:
        """Shows a sample of a stream's messages."""
        identity, timeout_ms = identity_of(context), milliseconds(self._gateway.limits.write_timeout_seconds)
        try:
            stream = begin_peek(self._gateway, _caller(identity, context), identity, request.stream, request.limit)
            await begin_call(context)
            async with aclosing(peek(self._gateway, identity, stream, request.limit)) as samples:
                async for sample in samples:
                    await write_in_time(context, sample, timeout_ms, "listener")
        except ProtocolError as error:
            await end_call(context, error)


_KINDS = {
    pb.PART_KIND_STREAM: PartKind.STREAM,
    pb.PART_KIND_CONNECTOR: PartKind.CONNECTOR,
    pb.PART_KIND_PIPELINE: PartKind.PIPELINE,
    pb.PART_KIND_SINK: PartKind.SINK,
}


def _kind(kind: pb.PartKind.ValueType) -> PartKind:
    """Returns what a request names.

    Raises:
        MalformedMessage: it is none of the PartKinds.
    """
    if kind not in _KINDS:
        raise MalformedMessage(f"kind {kind} is not one of the PartKinds; name a stream, a connector, a pipeline or a sink")
    return _KINDS[kind]


async def _reading(context: Context) -> None:
    """Ends the call of one that may not read the status."""
    identity = identity_of(context)
    if not identity.may_administer():
        text = f"the token of {identity.name!r} does not allow this; set admin = true for it"
        await abort(context, grpc.StatusCode.PERMISSION_DENIED, text)


async def _controlling(context: Context) -> Caller:
    """Returns who calls; ends the call of one that may not change anything."""
    identity = identity_of(context)
    if not identity.may_control():
        text = f"the token of {identity.name!r} does not allow this; set control = true for it"
        await abort(context, grpc.StatusCode.PERMISSION_DENIED, text)
    return _caller(identity, context)


def _caller(identity: Identity, context: Context) -> Caller:
    return Caller(identity.name, context.peer(), identity.may_administer())
