"""The calls with which a driver tells that it runs, and what its checkpoint has of the last micro-batches."""

from headrace.contract.counts import counted
from headrace.contract.limits import MAX_BATCH_STREAMS, MAX_BATCHES, MAX_SEQUENCE
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.bounds import check_count, check_length
from headrace.gateway.core.base.errors import MalformedMessage, NotPermitted, Superseded, UnknownPipeline
from headrace.gateway.core.base.position import BEGINNING, check_name, from_proto
from headrace.gateway.core.batches import check_reads
from headrace.gateway.core.pipelines import BatchStream, LoggedBatch
from headrace.gateway.core.sinks import check_pipeline
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import engine_pb2 as pb

MAX_RANGES = 5_000
"""Ranges in one request."""
MAX_TIME_MS = 253_402_300_799_999
"""The end of the year 9999, after which a time cannot be shown."""


def report_batches(gateway: Gateway, identity: Identity, request: pb.ReportBatchesRequest) -> pb.ReportBatchesResponse:
    """Notes micro-batches of a checkpoint.

    Raises:
        MalformedMessage: a name, a number or the order of the batches is invalid.
        ListTooLong: there are too many batches or ranges.
        NotPermitted: the caller may not run the pipeline, or a batch names a stream that the pipeline does not read.
        UnknownPipeline: the gateway does not know the pipeline.
        Superseded: another run or another checkpoint has taken over.
    """
    name = check_pipeline(request.pipeline)
    if not identity.may_run(name):
        raise NotPermitted(f"the token of {identity.name!r} does not allow pipeline {name!r}; add it to the token's pipelines")
    run = (request.run_number, check_length("run", request.run))
    if not request.run or not request.run_number:
        raise MalformedMessage(f"pipeline {name}: want the run that reports, as a number from 1 and an id")
    logged = _batches(request)
    pipeline = gateway.pipelines.get(name)
    if pipeline is None or not pipeline.patterns:
        raise UnknownPipeline(f"pipeline {name} is not known to this gateway; attach it")
    if not all(map(identity.may_read, pipeline.patterns)):
        raise NotPermitted(f"the token of {identity.name!r} does not allow reading what pipeline {name!r} reads")
    check_reads(pipeline, (read.stream for batch in logged for read in batch.streams))
    timeline = pipeline.timeline
    if request.checkpoint != pipeline.run.checkpoint:
        raise Superseded(f"pipeline {name} runs with another checkpoint now; its batches are not noted")
    if timeline.reporter is not None and run < timeline.reporter:
        raise Superseded(f"pipeline {name}: run {timeline.reporter[0]} reports its batches now, and not run {run[0]}")
    timeline.reporter = run
    timeline.report(logged, history=request.history)
    return pb.ReportBatchesResponse(wants_history=not timeline.has_history)


def hear(gateway: Gateway, driver: str, peer: str) -> None:
    """Notes that a driver runs, for the pipelines whose current run has named it.

    Raises:
        MalformedMessage: its id is missing or too long.
    """
    if not check_length("driver", driver):
        raise MalformedMessage("a heartbeat without driver: name the driver that runs")
    for pipeline in gateway.pipelines.values():
        if pipeline.driver is not None and pipeline.driver_id == driver:
            pipeline.driver.heard(peer)


def _batches(request: pb.ReportBatchesRequest) -> list[LoggedBatch]:
    check_count("batches", request.batches, MAX_BATCHES)
    check_count("ranges", [wanted for batch in request.batches for wanted in batch.ranges], MAX_RANGES)
    where = f"pipeline {request.pipeline}"
    last = -1
    for told in request.batches:
        check_count(f"ranges of batch {told.batch}", told.ranges, MAX_BATCH_STREAMS)
        if not last < told.batch <= MAX_SEQUENCE:
            raise MalformedMessage(f"{where}: batch {told.batch} after {last}: want ascending numbers up to 2^63 - 1")
        if told.streams < len(told.ranges):
            raise MalformedMessage(
                f"{where}: batch {told.batch} reads {counted(told.streams, 'stream')}, and names {len(told.ranges)}"
            )
        if max(told.planned_ms, told.committed_ms) > MAX_TIME_MS:
            raise MalformedMessage(f"{where}: batch {told.batch} has a time after the year 9999")
        last = told.batch
    return [_batch(told) for told in request.batches]


def _batch(batch: pb.LoggedBatch) -> LoggedBatch:
    streams = tuple(
        BatchStream(
            check_name(wanted.stream),
            from_proto(wanted.after) if wanted.HasField("after") else BEGINNING,
            from_proto(wanted.end),
        )
        for wanted in batch.ranges
    )
    planned = batch.planned_ms / 1000 if batch.HasField("planned_ms") else None
    committed = batch.committed_ms / 1000 if batch.HasField("committed_ms") else None
    return LoggedBatch(batch.batch, streams, batch.streams, planned, committed)
