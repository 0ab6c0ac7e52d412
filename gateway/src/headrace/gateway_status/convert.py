"""Converts the status of the protocol to documents."""

from datetime import UTC, datetime, timedelta

from headrace.gateway_status.document import (
    GatewayDocument,
    LostVoteDocument,
    PipelineDocument,
    ProblemDocument,
    ReportedDocument,
    SessionDocument,
    SinkDocument,
    SinkSessionDocument,
    StatusDocument,
    StepDocument,
    StreamDocument,
)
from headrace.gateway_status.fields import Fields, time_text
from headrace.gateway_status.last_errors import NONE, LastErrors
from headrace.protocol.v1.admin_documents import DeploymentDocument, PositionDocument, SeriesDocument, TransactionDocument
from headrace.protocol.v1.admin_pb2 import (
    DeploymentStatus,
    GatewayStatus,
    GetStatusResponse,
    LostVote,
    PipelineStatus,
    Problem,
    ReportedStatus,
    SessionStatus,
    SinkSessionStatus,
    SinkStatus,
    StreamStatus,
)
from headrace.protocol.v1.frame_pb2 import Position
from headrace.protocol.v1.metrics_pb2 import MetricSeries, StepMetrics
from headrace.protocol.v1.sink_pb2 import Transaction

_OF_REPORTED = tuple(ReportedDocument.__annotations__)
_gateway = Fields(GatewayDocument, GatewayStatus.DESCRIPTOR, "address")
_stream = Fields(StreamDocument, StreamStatus.DESCRIPTOR, *NONE)
_position = Fields(PositionDocument, Position.DESCRIPTOR)
_reported = Fields(ReportedDocument, ReportedStatus.DESCRIPTOR, "state_age_ms", *NONE)
_session = Fields(SessionDocument, SessionStatus.DESCRIPTOR, *_OF_REPORTED)
_sink_session = Fields(SinkSessionDocument, SinkSessionStatus.DESCRIPTOR, *_OF_REPORTED)
_pipeline = Fields(PipelineDocument, PipelineStatus.DESCRIPTOR, "committed", "steps", "series", *NONE)
_step = Fields(StepDocument, StepMetrics.DESCRIPTOR, "time_ms")
_series = Fields(SeriesDocument, MetricSeries.DESCRIPTOR)
_sink = Fields(SinkDocument, SinkStatus.DESCRIPTOR, "committed", "lost", *NONE)
_lost_vote = Fields(LostVoteDocument, LostVote.DESCRIPTOR, *TransactionDocument.__annotations__)
_transaction = Fields(TransactionDocument, Transaction.DESCRIPTOR)
_deployment = Fields(DeploymentDocument, DeploymentStatus.DESCRIPTOR)
_problem = Fields(ProblemDocument, Problem.DESCRIPTOR, "since")


def status_document(address: str, status: GetStatusResponse, at: datetime | None = None) -> StatusDocument:
    """Converts a status to plain data: absent values become None, enums lower-case words.

    Args:
        address: The address of the gateway.
        status: The status.
        at: When it was taken; None for now.
    """
    taken_at = at or datetime.now(UTC)
    errors = LastErrors(status, taken_at)
    return {
        "problems": problem_documents(status, taken_at),
        "problems_in_all": status.problems_in_all,
        "gateway": _gateway(status.gateway, {"address": address}),
        "streams": [_stream(stream, errors.of_part(f"stream {stream.stream}", stream)) for stream in status.streams],
        "sessions": [_session_document(session, errors) for session in status.sessions],
        "pipelines": [_pipeline_document(pipeline, errors) for pipeline in status.pipelines],
        "sinks": [_sink_document(sink, errors) for sink in status.sinks],
        "sink_sessions": [_sink_session_document(session, errors) for session in status.sink_sessions],
        "deployments": [_deployment(deployment) for deployment in status.deployments],
    }


def problem_documents(status: GetStatusResponse, at: datetime) -> list[ProblemDocument]:
    """Converts the problems of a status that was taken at a time."""
    return [problem_document(problem, at) for problem in status.problems]


def problem_document(problem: Problem, at: datetime) -> ProblemDocument:
    """Converts a problem as of a time."""
    return _problem(problem, {"since": time_text(at - timedelta(milliseconds=problem.age_ms), "seconds")})


def _session_document(session: SessionStatus, errors: LastErrors) -> SessionDocument:
    return _session(session, _reported_document(session.reported, errors, f"connector {session.instance}"))


def _sink_session_document(session: SinkSessionStatus, errors: LastErrors) -> SinkSessionDocument:
    parts = f"connector {session.instance} of sink {session.sink}", f"sink {session.sink}"
    return _sink_session(session, _reported_document(session.reported, errors, *parts))


def _reported_document(reported: ReportedStatus, errors: LastErrors, *parts: str) -> ReportedDocument:
    """Converts a connector's report about itself; values that it has not reported become None."""
    age_ms = reported.state_age_ms if reported.state else None
    return _reported(reported, {"state_age_ms": age_ms, **errors.of_connector(reported, *parts)})


def _pipeline_document(pipeline: PipelineStatus, errors: LastErrors) -> PipelineDocument:
    committed = {one.stream: _position(one.position) if one.HasField("position") else None for one in pipeline.committed}
    steps = [_step(step, {"time_ms": step.time_us // 1000}) for step in pipeline.metrics.steps]
    error = errors.of_part(f"pipeline {pipeline.pipeline}", pipeline)
    series = [_series(one) for one in pipeline.metrics.series]
    return _pipeline(pipeline, {"committed": committed, "steps": steps, "series": series, **error})


def _sink_document(sink: SinkStatus, errors: LastErrors) -> SinkDocument:
    lost = [_lost_vote(one, _transaction(one.transaction)) for one in sink.lost]
    committed = {one.pipeline: one.batch for one in sink.committed}
    return _sink(sink, {"committed": committed, "lost": lost, **errors.of_part(f"sink {sink.sink}", sink)})
