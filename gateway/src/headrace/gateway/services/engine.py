"""EngineService, for Spark's drivers, planners and tasks."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from headrace.contract import clock
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.position import Position
from headrace.contract.units import milliseconds
from headrace.gateway.core import VERSION, Gateway, ProtocolError
from headrace.gateway.core.base.bounds import MAX_PATTERNS, MAX_POSITIONS, check_count, check_length
from headrace.gateway.core.base.envelopes import range_frame_head
from headrace.gateway.core.base.errors import MalformedMessage, MessagesLost, NotPermitted, Superseded, UnknownPipeline
from headrace.gateway.core.base.position import BEGINNING, check_pattern, from_stream_positions, to_proto
from headrace.gateway.core.batches import (
    PlannedRange,
    ReadRange,
    adopt,
    all_ended,
    attach,
    bootstrapped,
    check_follows,
    check_is_last_plan,
    check_not_late,
    check_reads,
    commit,
    describe_loss,
    detach,
    exhausted,
    follow,
    has_waited_for_ends,
    identify,
    newly_opened,
    plan,
    read,
    streams_away,
    tables_away,
    without_connector,
)
from headrace.gateway.core.connections import Role
from headrace.gateway.core.intake import begin_to_forget, held_by, leave_out, to_forget
from headrace.gateway.core.pipelines import BatchStream, Bootstrap, Pipeline, Run
from headrace.gateway.core.sinks import check_pipeline
from headrace.gateway.core.status import await_sinks, sinks_away
from headrace.gateway.identity import Identity, identity_of
from headrace.gateway.services.at_once import deliver_at_once
from headrace.gateway.services.calls import end_call
from headrace.gateway.services.commits import report_commits
from headrace.gateway.services.delivery import ask_for_vote, deliver
from headrace.gateway.services.received import Delivered
from headrace.gateway.services.reporting import hear, report_batches
from headrace.gateway.statuses import Context
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1.engine_pb2_grpc import EngineServiceServicer

RESPONSE_BYTES = 256 * 1024
"""The size in bytes up to which frames share a response: a gRPC message costs as much as the frames of many messages."""
BATCH_SHARE = 4
"""A batch without limits takes at most 1/BATCH_SHARE of the shared buffer, so that sources can fill the rest."""


class EngineService(EngineServiceServicer):
    """Serves the drivers and tasks of queries."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Attach(self, request: pb.AttachRequest, context: Context) -> pb.AttachResponse:
        """Attaches a pipeline with all positions from its checkpoint."""
        part = f"pipeline {request.pipeline.name[:MAX_NAME_BYTES]}" if request.pipeline.name.isprintable() else ""
        try:
            pipeline = self._pipeline(request.pipeline, identity_of(context))
            check_not_late(pipeline, request.pipeline.attachment)
            committed, planned = _positions(pipeline, request.committed), _positions(pipeline, request.planned)
            attach(self._gateway, pipeline, committed, planned, request.available_now, request.ended)
            pipeline.caller = identity_of(context)
            self._gateway.refusals.admit(part)
        except ProtocolError as error:
            self._gateway.refusals.note(Role.QUERY, part, context.peer(), error)
            raise
        return pb.AttachResponse(gateway_version=VERSION, lease_ms=milliseconds(self._gateway.limits.query_lease_seconds))

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.RenewResponse:
        """Renews a query's lease."""
        pipeline = self._attached(request.pipeline, identity_of(context))
        pipeline.renewed(context.peer(), self._gateway.limits.query_lease_seconds)
        return pb.RenewResponse(lease_ms=milliseconds(self._gateway.limits.query_lease_seconds))

    async def Plan(self, request: pb.PlanRequest, context: Context) -> pb.PlanResponse:
        """Commits the checkpoint's positions, then plans the next batch; waits up to `wait_ms` if there is nothing to plan."""
        pipeline = self._planning(request.pipeline, identity_of(context), context.peer())
        if pipeline.planner is not None:
            pipeline.planner.heard(context.peer())
        check_is_last_plan(pipeline, request.number)
        check_follows(pipeline, request.follows, request.pipeline.attachment)
        committed, forgotten = _positions(pipeline, request.committed), _positions(pipeline, request.forgotten)
        check_count("bootstraps", request.bootstraps, MAX_PATTERNS)
        bootstraps = tuple(map(Bootstrap.from_proto, request.bootstraps))
        commit(self._gateway, pipeline, committed, request.ended)
        pipeline.plan_number, pipeline.bootstraps = request.number, bootstraps
        leave_out(self._gateway, pipeline, forgotten)
        check_count("awaited", request.awaited, MAX_POSITIONS)
        pipeline.ended_unread = {name: None for name in request.awaited if name in pipeline.ended_unread}
        pipeline.calls += 1
        try:
            return await self._plan(pipeline, request)
        finally:
            pipeline.calls -= 1
            pipeline.called_at = clock.monotonic()

    async def _plan(self, pipeline: Pipeline, request: pb.PlanRequest) -> pb.PlanResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait_ms / 1000
        max_messages = request.max_messages if request.HasField("max_messages") else None
        max_bytes = request.max_bytes if request.HasField("max_bytes") else self._gateway.credit.shared_bytes // BATCH_SHARE
        while True:
            self._check_losses(pipeline)
            if held_by(self._gateway, pipeline) is not None:
                pipeline.plan({})
                if not await pipeline.news.wait(max(0.0, deadline - loop.time())):
                    unseen = pipeline.patterns if request.awaits_streams and not pipeline.available_now else ()
                    return pb.PlanResponse(streams_away=unseen)
                _check_current(pipeline, request.pipeline)
                continue
            ranges = plan(pipeline, self._gateway.streams, max_messages, max_bytes, tell_ends=request.tell_ends)
            pipeline.plan({r.stream.name: r.end for r in ranges if r.end.is_past(pipeline.position(r.stream.name))})
            over = request.tell_ends and all_ended(pipeline, self._gateway.streams.values())
            forgotten = to_forget(self._gateway, pipeline, tell_ends=request.tell_ends, with_batch=bool(ranges))
            away = sinks_away(self._gateway, pipeline.name) if ranges or over or forgotten else []
            if away:
                ranges, forgotten, over = [], [], False
                pipeline.plan({})
            accepts_away = pipeline.available_now and not request.awaits_streams
            tables = [] if away else bootstrapped(pipeline, self._gateway.streams, accepts_away=accepts_away)
            is_last = pipeline.available_now and not (away or pipeline.bootstraps)
            done = is_last and exhausted(pipeline, self._gateway.streams.values())
            missing = streams_away if pipeline.available_now else without_connector
            absent = missing(pipeline, self._gateway.streams.values()) if request.awaits_streams else []
            if pipeline.available_now and request.awaits_streams:
                absent += tables_away(pipeline, self._gateway.streams, absent)
            done = done and not absent
            if done and request.tell_ends and not over:
                done = has_waited_for_ends(pipeline)
            if ranges or forgotten or tables or done or not await pipeline.news.wait(max(0.0, deadline - loop.time())):
                begin_to_forget(self._gateway, forgotten)
                planned = [_to_proto(r) for r in ranges]
                if ranges:
                    pipeline.planned_batches += 1
                    pipeline.timeline.plan([_batch_stream(pipeline, r) for r in ranges])
                response = pb.PlanResponse(
                    ranges=planned,
                    exhausted=done,
                    all_ended=over,
                    sinks_away=away,
                    forgotten=forgotten,
                    streams_away=absent,
                    bootstrapped=tables,
                )
                if request.tell_ends and (ranges or forgotten or over):
                    response.opened.extend(newly_opened(pipeline, self._gateway.streams.values(), ranges, request.awaited))
                    response.ended_unread.extend(pipeline.ended_unread)
                return response
            _check_current(pipeline, request.pipeline)

    async def AwaitSinks(self, request: pb.AwaitSinksRequest, context: Context) -> pb.AwaitSinksResponse:
        """Waits until the sinks of a query are attached; returns the sinks that are still missing."""
        pipeline = self._pipeline(request.pipeline, identity_of(context))
        return pb.AwaitSinksResponse(away=await await_sinks(self._gateway, pipeline.name, request.wait_ms / 1000))

    async def Fetch(  # type: ignore[override]
        self, request: pb.FetchRequest, context: Context
    ) -> AsyncIterator[bytes]:
        """Streams the frames of planned ranges; each FetchResponse is built around their bytes."""
        reading = Counter[str]()
        pipeline = None
        timeout_s = request.progress_timeout_ms / 1000 if request.HasField("progress_timeout_ms") else None
        try:
            pipeline = self._pipeline(request.pipeline, identity_of(context))
            pipeline.check_not_detached()
            check_count("ranges", request.ranges, MAX_POSITIONS)
            ranges = [ReadRange.from_proto(wire) for wire in request.ranges]
            check_reads(pipeline, (r.stream for r in ranges))
            reading.update(r.stream for r in ranges)
            pipeline.calls += bool(reading)
            pipeline.reading += reading
            streams = [adopt(self._gateway, pipeline, r.stream, r.committed, r.batch_end) for r in ranges]
            parts, size = list[bytes | memoryview](), 0
            for index, (stream, wanted) in enumerate(zip(streams, ranges, strict=True)):
                async for frames in read(pipeline, stream, wanted, timeout_s):
                    _check_current(pipeline, request.pipeline)
                    for held in frames:
                        parts += range_frame_head(index, held.size), held.serialized
                        size += held.size
                        if size >= RESPONSE_BYTES:
                            response, parts, size = b"".join(parts), [], 0
                            yield response
                            _check_current(pipeline, request.pipeline)
                if wanted.end == wanted.batch_end:
                    pipeline.fetched.add(wanted.stream)
                    pipeline.timeline.served(wanted.stream)
            if size:
                yield b"".join(parts)
            pipeline.timeline.fetched()
        except ProtocolError as error:
            await end_call(context, error)
        finally:
            if pipeline is not None and reading:
                pipeline.calls -= 1
                pipeline.called_at = clock.monotonic()
                pipeline.reading -= reading

    async def Follow(  # type: ignore[override]
        self, request: pb.FollowRequest, context: Context
    ) -> AsyncIterator[bytes]:
        """Streams what arrives after positions; each FollowResponse is built around the frames' bytes."""
        try:
            pipeline = self._attached(request.pipeline, identity_of(context))
            positions = _positions(pipeline, request.positions)
            if len(positions) < len(request.positions):
                raise MalformedMessage(f"pipeline {pipeline.name}: a stream is named twice; follow each stream once")
            async for arrived in follow(self._gateway, pipeline, positions):
                parts, size = list[bytes | memoryview](), 0
                for index, held in arrived:
                    parts += range_frame_head(index, held.size), held.serialized
                    size += held.size
                    if size >= RESPONSE_BYTES:
                        response, parts, size = b"".join(parts), [], 0
                        yield response
                if size:
                    yield b"".join(parts)
        except ProtocolError as error:
            await end_call(context, error)

    async def Detach(self, request: pb.DetachRequest, context: Context) -> pb.DetachResponse:
        """Commits the checkpoint's positions, and detaches the pipeline."""
        pipeline = self._pipeline(request.pipeline, identity_of(context))
        commit(self._gateway, pipeline, _positions(pipeline, request.committed))
        detach(self._gateway, pipeline)
        return pb.DetachResponse()

    async def Deliver(  # type: ignore[override]
        self, request_iterator: AsyncIterator[Delivered], context: Context
    ) -> pb.DeliverResponse:
        """Delivers the rows of one task to a sink."""
        return await deliver(self._gateway, identity_of(context), request_iterator)

    async def DeliverAtOnce(  # type: ignore[override]
        self, request_iterator: AsyncIterator[Sequence[Delivered]], context: Context
    ) -> AsyncIterator[pb.DeliverAtOnceResponse]:
        """Delivers parts of a run in real-time mode, one after the other."""
        requests = (message async for messages in request_iterator for message in messages)
        try:
            async for response in deliver_at_once(self._gateway, identity_of(context), requests):
                yield response
        except ProtocolError as error:
            await end_call(context, error)

    async def Vote(self, request: pb.VoteRequest, context: Context) -> pb.VoteResponse:
        """Asks a sink for its vote."""
        return await ask_for_vote(self._gateway, identity_of(context), request)

    async def ReportCommits(self, request: pb.ReportCommitsRequest, context: Context) -> pb.ReportCommitsResponse:
        """Applies a driver's report of its query's commit log."""
        return report_commits(self._gateway, identity_of(context), request, context.peer())

    async def ReportBatches(self, request: pb.ReportBatchesRequest, context: Context) -> pb.ReportBatchesResponse:
        """Notes what a driver reads in its checkpoint, for the timeline."""
        return report_batches(self._gateway, identity_of(context), request)

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Context) -> pb.HeartbeatResponse:
        """Notes that a driver runs."""
        hear(self._gateway, request.driver, context.peer())
        return pb.HeartbeatResponse()

    def _pipeline(self, who: pb.Pipeline, identity: Identity) -> Pipeline:
        check_pipeline(who.name)
        check_length("run_id", who.run_id)
        check_length("checkpoint", who.checkpoint)
        check_length("driver", who.driver)
        if not who.streams:
            raise MalformedMessage(f"pipeline {who.name!r}: want at least one stream")
        _permit(identity, who)
        return identify(self._gateway, who.name, _run(who), tuple(who.streams), who.skip_lost, who.attachment, who.driver)

    def _attached(self, who: pb.Pipeline, identity: Identity) -> Pipeline:
        pipeline = self._pipeline(who, identity)
        if not pipeline.attached:
            raise UnknownPipeline(f"pipeline {pipeline.name}: {pipeline.run} is not attached to this gateway; attach it")
        if pipeline.caller != identity:
            # It has read its token again.
            pipeline.caller = identity
            self._gateway.refusals.admit(f"pipeline {pipeline.name}")
        return pipeline

    def _planning(self, who: pb.Pipeline, identity: Identity, peer: str) -> Pipeline:
        """Returns the attached pipeline that plans. Only a query that runs does so: a replaced run that does is a rival.

        Raises:
            ProtocolError: as `_attached`.
        """
        try:
            return self._attached(who, identity)
        except Superseded:
            self._gateway.drivers.note_rival([who.name], str(_run(who)), peer, "")
            raise

    def _check_losses(self, pipeline: Pipeline) -> None:
        if pipeline.skip_lost:
            return
        for stream in self._gateway.streams.values():
            if pipeline in stream.readers and stream.is_lost_for(pipeline):
                raise MessagesLost(describe_loss(stream, pipeline.position(stream.name), pipeline.planned.get(stream.name)))


def _positions(pipeline: Pipeline, wire: Sequence[frame_pb2.StreamPosition]) -> dict[str, Position]:
    positions = from_stream_positions(wire)
    check_reads(pipeline, positions)
    return positions


def _run(who: pb.Pipeline) -> Run:
    return Run(who.run, who.run_id, who.checkpoint)


def _check_current(pipeline: Pipeline, who: pb.Pipeline) -> None:
    """Checks during a call that its run is still the current one, and attached.

    Raises:
        Superseded: another run has taken over.
        UnknownPipeline: the run was detached.
    """
    if pipeline.run != _run(who):
        raise Superseded(f"pipeline {pipeline.name}: {pipeline.run} has taken over from {_run(who)}")
    pipeline.check_not_detached()


def _permit(identity: Identity, who: pb.Pipeline) -> None:
    if not identity.may_run(who.name):
        raise NotPermitted(
            f"the token of {identity.name!r} does not allow pipeline {who.name!r}; add it to the token's pipelines"
        )
    check_count(f"streams of pipeline {who.name}", who.streams, MAX_PATTERNS)
    for streams in map(check_pattern, who.streams):
        if not identity.may_read(streams):
            raise NotPermitted(f"the token of {identity.name!r} does not allow reading {streams!r}; add it to the token's reads")


def _batch_stream(pipeline: Pipeline, planned: PlannedRange) -> BatchStream:
    after = pipeline.position(planned.stream.name)
    return BatchStream(planned.stream.name, after, planned.end, planned.messages)


def _to_proto(planned: PlannedRange) -> pb.PlannedRange:
    assert planned.end > BEGINNING
    return pb.PlannedRange(
        stream=planned.stream.name,
        end=to_proto(planned.end),
        messages=planned.messages,
        bytes=planned.bytes,
        start=planned.start,
        ended=planned.ended,
    )
