"""The reports of a query's commit log, by which sinks commit and a rival driver is noticed."""

from collections.abc import Sequence
from math import isfinite

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.bounds import (
    MAX_SEGMENTS,
    MAX_SERIES,
    MAX_STAGES,
    MAX_STEPS,
    MAX_WRITTEN,
    check_count,
    check_length,
)
from headrace.gateway.core.base.errors import MalformedMessage, NotPermitted, Superseded
from headrace.gateway.core.base.last_error import later
from headrace.gateway.core.batches import (
    record_commits,
    renew,
)
from headrace.gateway.core.pipelines import Driver, Fault, after_report
from headrace.gateway.core.sinks import (
    CommitLog,
    Segment,
    Voter,
    check_pipeline,
    check_sink,
)
from headrace.gateway.identity import Identity
from headrace.gateway.services.delivery import permitted_sink
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import metrics_pb2

MAX_VOTES = 1024
"""The maximum number of votes in a request."""
MAX_UNDECIDED = 100
"""The maximum number of undecided batches in a response."""


def report_commits(gateway: Gateway, identity: Identity, request: pb.ReportCommitsRequest, peer: str) -> pb.ReportCommitsResponse:
    """Applies a run's report of its query's commit log.

    Raises:
        ProtocolError: a name or a segment is invalid, the caller is not permitted to use it, the query belongs to another
            token, or the run is not the current one.
    """
    check_count("sinks", request.sinks, MAX_WRITTEN)
    check_count("readers", request.readers, MAX_WRITTEN)
    _check_metrics(request.metrics)
    fault = Fault.of(request.fault, request.run) if request.HasField("fault") else None
    check_length("run", request.run)
    if not request.run or "/" in request.run or not request.run_number:
        raise MalformedMessage(
            f"pipeline {request.pipeline[:80]}: want the run that reports the commit log, as a number from 1 and an id "
            "without a slash"
        )
    if not (request.sinks or request.former_sinks or request.readers):
        raise MalformedMessage(f"pipeline {request.pipeline[:80]}: want the sinks of the run, or the names under which it reads")
    check_count("former sinks", request.former_sinks, MAX_WRITTEN)
    sinks = tuple(permitted_sink(gateway, identity, name).name for name in request.sinks)
    former = tuple(name for name in map(check_sink, request.former_sinks) if identity.may_deliver(name))
    for reader in map(check_pipeline, request.readers):
        if not identity.may_run(reader):
            text = f"the token of {identity.name!r} does not allow pipeline {reader[:80]!r}; add it to the token's pipelines"
            raise NotPermitted(text)
    if not (sinks or former or request.readers):
        # It names only former sinks to which the caller may not write: a report of nothing must claim no query.
        return pb.ReportCommitsResponse()
    gateway.owners.claim(check_pipeline(request.pipeline), identity)
    commit_log = CommitLog(
        check_pipeline(request.pipeline),
        request.run,
        request.run_number,
        request.first_batch,
        request.committed if request.HasField("committed") else -1,
        tuple(request.readers),
        (*sinks, *former),
        _segments(request),
        request.closed,
        awaited=_awaited(request, sinks),
        former=former,
        stopped=request.stopped,
    )
    votes = _votes(request, commit_log, sinks)
    if request.replaced:
        _note_rival(gateway, request, peer)
        return pb.ReportCommitsResponse()
    was_replaced = fault is not None and fault.told.origin == metrics_pb2.RUN_FAULT_ORIGIN_OTHER_RUN
    if was_replaced:
        # Its query has ended because of the other one, which is no fault of the batch.
        _note_rival(gateway, request, peer)
        fault = None
    try:
        pending = record_commits(gateway, commit_log, votes, accept_older=request.accept_older)
    except Superseded:
        if not (request.stopped or request.closed):
            _note_rival(gateway, request, peer)
        elif not was_replaced:
            # It may have reported once more before somebody stopped it.
            gateway.drivers.end_rival(_read_by(request), _run_of(request))
        raise
    gateway.drivers.by_query.setdefault(commit_log.pipeline, Driver()).heard(peer)
    renew(gateway, request.readers)
    for reader in request.readers:
        if (read := gateway.pipelines.get(reader)) is not None:
            read.fault = after_report(read.fault, fault, commit_log.committed)
            if fault is not None:
                read.error = later(read.error, fault.told.message, fault.told.age_ms)
    if request.HasField("metrics"):
        for reader in request.readers:
            if (pipeline := gateway.pipelines.get(reader)) is not None:
                pipeline.metrics = metrics_pb2.RunMetrics()
                pipeline.metrics.CopyFrom(request.metrics)
    if request.accept_lost:
        gateway.votes.accept(commit_log.pipeline)
    return pb.ReportCommitsResponse(
        pending=pending.transactions,
        undecided=pending.undecided[:MAX_UNDECIDED],
        votes=[_vote(voter, batch) for voter, batch in gateway.votes.logged(commit_log.pipeline)],
        lost=[_vote(voter, batch) for voter, batch in gateway.votes.lost() if voter.pipeline == commit_log.pipeline],
    )


def _note_rival(gateway: Gateway, request: pb.ReportCommitsRequest, peer: str) -> None:
    """Notes that the driver of a run reports although another run has replaced it."""
    current = gateway.drivers.by_query.get(request.pipeline)
    # The current run may not have reported yet.
    taken_over = current.peer if current is not None and current.peer != peer else ""
    gateway.drivers.note_rival(_read_by(request), _run_of(request), peer, taken_over)


def _read_by(request: pb.ReportCommitsRequest) -> Sequence[str]:
    """Returns the pipelines that a query reads as; its own name if it reads as none."""
    return request.readers or [request.pipeline]


def _run_of(request: pb.ReportCommitsRequest) -> str:
    return f"run {request.run_number} ({request.run})"


def _check_metrics(metrics: metrics_pb2.RunMetrics) -> None:
    """Checks the size of what a run says that it has done.

    Raises:
        ListTooLong: there are too many steps, stages or series.
        MalformedMessage: a name is too long, or a bucket lacks its bound.
    """
    check_count("steps", metrics.steps, MAX_STEPS)
    check_count("stages", metrics.stages, MAX_STAGES)
    check_count("series", metrics.series, MAX_SERIES)
    for name in (*(told.step for told in metrics.steps), *(told.stage for told in metrics.stages)):
        check_length("step or stage", name)
    for series in metrics.series:
        check_length("counter", series.metric)
        check_length("value of a counter", series.value)
        if len(series.bounds) != len(series.buckets):
            text = f"histogram {series.metric[:80]!r} has {len(series.bounds)} bounds and {len(series.buckets)} buckets"
            raise MalformedMessage(text)
        if not all(map(isfinite, (series.sum, *series.bounds))):
            raise MalformedMessage(f"histogram {series.metric[:80]!r} has a sum or a bound that is not finite")


def _awaited(request: pb.ReportCommitsRequest, sinks: Sequence[str]) -> tuple[str, ...]:
    """Returns the sinks that must be attached before a batch is planned.

    Raises:
        LimitExceeded: there are too many.
        MalformedMessage: one is not among the sinks of the request.
    """
    check_count("awaited sinks", request.awaited, MAX_WRITTEN)
    strange = [name for name in request.awaited if name not in sinks]
    if strange:
        raise MalformedMessage(f"pipeline {request.pipeline[:80]}: sink {strange[0][:80]!r} is awaited, but not one of its sinks")
    return tuple(dict.fromkeys(request.awaited))


def _votes(request: pb.ReportCommitsRequest, commit_log: CommitLog, sinks: Sequence[str]) -> list[tuple[str, str, int]]:
    """Returns a request's votes.

    Raises:
        MalformedMessage: there are too many, or one is for a sink that the request does not name, for an invalid instance, or
            for a batch that is not in the log.
    """
    where = f"pipeline {commit_log.pipeline}"
    if len(request.votes) > MAX_VOTES:
        raise MalformedMessage(f"{where}: {len(request.votes)} votes of sinks; name at most {MAX_VOTES}")
    for told in request.votes:
        if told.sink not in sinks or not 0 < len(told.instance) <= MAX_NAME_BYTES or told.batch > commit_log.committed:
            what = f"batch {told.batch} of sink {told.sink[:80]!r}, instance {told.instance[:80]!r}"
            raise MalformedMessage(f"{where}: a vote for {what}: want a sink of the request, an instance, and a batch in its log")
    return [(told.sink, told.instance, told.batch) for told in request.votes]


def _vote(voter: Voter, batch: int) -> pb.SinkVote:
    return pb.SinkVote(sink=voter.sink, instance=voter.instance, batch=batch)


def _segments(request: pb.ReportCommitsRequest) -> tuple[Segment, ...]:
    """Returns a request's run segments.

    Raises:
        LimitExceeded: there are too many.
        MalformedMessage: the name of a run is too long, or a segment ends before it begins.
    """
    where = f"pipeline {request.pipeline[:80]}"
    check_count("segments", request.segments, MAX_SEGMENTS)
    for told in request.segments:
        check_length("run", told.run)
        if told.first_batch > told.last_batch:
            raise MalformedMessage(
                f"{where}: a run segment from batch {told.first_batch} to {told.last_batch}: want them in order"
            )
    return tuple(Segment(told.run, told.first_batch, told.last_batch) for told in request.segments)
