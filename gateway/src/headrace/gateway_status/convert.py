"""Converts the status of the protocol to documents."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import cast

from headrace.gateway_status import document
from headrace.gateway_status.document import (
    DeploymentDocument,
    PauseDocument,
    PipelineDocument,
    PositionDocument,
    ProblemDocument,
    ProcessDocument,
    ReportedDocument,
    SessionDocument,
    SinkDocument,
    SinkSessionDocument,
    StatusDocument,
    StreamDocument,
)
from headrace.gateway_status.last_errors import LastErrors
from headrace.protocol.v1.admin_pb2 import (
    Condition,
    DeploymentStatus,
    GetStatusResponse,
    PipelineState,
    PipelineStatus,
    Problem,
    ProcessKind,
    ProcessState,
    ProcessStateKind,
    ReportedStatus,
    SessionStatus,
    SinkSessionStatus,
    SinkStatus,
    StreamState,
    StreamStatus,
)
from headrace.protocol.v1.connector_pb2 import ConnectorState
from headrace.protocol.v1.frame_pb2 import Position
from headrace.protocol.v1.sink_pb2 import SinkMode

_STREAM_STATES = {number: name.removeprefix("STREAM_STATE_").lower() for name, number in StreamState.items()}
_PIPELINE_STATES = {number: name.removeprefix("PIPELINE_STATE_").lower() for name, number in PipelineState.items()}
_CONDITIONS = {number: name.removeprefix("CONDITION_").lower().replace("_", " ") for name, number in Condition.items()}
_PROCESS_KINDS = {number: name.removeprefix("PROCESS_KIND_").lower() for name, number in ProcessKind.items()}
_PROCESS_STATES = {number: name.removeprefix("PROCESS_STATE_KIND_").lower() for name, number in ProcessStateKind.items()}


def status_document(address: str, status: GetStatusResponse, at: datetime | None = None) -> StatusDocument:
    """Converts a status to plain data: absent values become None, enums lower-case words.

    Args:
        address: The address of the gateway.
        status: The status.
        at: When it was taken; None for now.
    """
    gateway, taken_at = status.gateway, at or datetime.now(UTC)
    known = status.HasField("problems_in_all")
    errors = LastErrors(status, taken_at)
    return {
        "problems": problem_documents(status, taken_at) if known else None,
        "problems_in_all": status.problems_in_all if known else None,
        "gateway": {
            "address": address,
            "version": gateway.version,
            "uptime_ms": gateway.uptime_ms,
            "buffered_bytes": gateway.buffered_bytes,
            "buffer_limit_bytes": gateway.buffer_limit_bytes,
            "draining": gateway.draining,
            "rejected_sessions": dict(sorted(gateway.rejected_sessions.items())),
            "received_frames": gateway.received_frames,
            "received_messages": gateway.received_messages,
            "received_bytes": gateway.received_bytes,
            "acknowledged_messages": gateway.acknowledged_messages,
            "duplicate_messages": gateway.duplicate_messages,
            "losses": gateway.losses,
            "buffered_messages": gateway.buffered_messages,
        },
        "streams": [_stream(stream, errors) for stream in status.streams],
        "sessions": [_session(session, errors) for session in status.sessions],
        "pipelines": [_pipeline(pipeline, errors) for pipeline in status.pipelines],
        "sinks": [_sink(sink, errors) for sink in status.sinks],
        "sink_sessions": [_sink_session(session, errors) for session in status.sink_sessions],
        "deployments": [_deployment(deployment) for deployment in status.deployments],
    }


def _deployment(deployment: DeploymentStatus) -> DeploymentDocument:
    return {
        "deployment": deployment.deployment,
        "run": deployment.run,
        "peer": deployment.peer,
        "age_ms": deployment.age_ms,
        "connectors": [
            {
                "name": one.name,
                "instance": one.instance,
                "replays": one.replays or None,
                "failure": one.failure or None,
                "failing_ms": one.failing_ms if one.HasField("failing_ms") else None,
            }
            for one in deployment.connectors
        ],
        "restarting": list(deployment.restarting),
        "replaying": list(deployment.replaying),
        "processes": [_process(one) for one in deployment.processes],
    }


def _process(process: ProcessState) -> ProcessDocument:
    return {
        "name": process.name,
        "kind": cast(document.ProcessKind, _PROCESS_KINDS[process.kind]),
        "pipelines": list(process.pipelines),
        "state": cast(document.ProcessStateKind, _PROCESS_STATES[process.state]),
        "state_age_ms": process.state_age_ms,
        "restarts": process.restarts,
        "reason": process.reason or None,
        "reason_age_ms": process.reason_age_ms if process.HasField("reason_age_ms") else None,
        "log_fault": process.log_fault or None,
        "log_fault_age_ms": process.log_fault_age_ms if process.HasField("log_fault_age_ms") else None,
        "next_start_ms": process.next_start_ms if process.HasField("next_start_ms") else None,
        "version": process.version or None,
        "memory_bytes": process.memory_bytes if process.HasField("memory_bytes") else None,
        "pid": process.pid if process.HasField("pid") else None,
    }


def problem_documents(status: GetStatusResponse, at: datetime) -> list[ProblemDocument]:
    """Converts the problems of a status that was taken at a time."""
    return [problem_document(problem, at) for problem in status.problems]


def problem_document(problem: Problem, at: datetime) -> ProblemDocument:
    """Converts a problem as of a time."""
    return {
        "part": problem.part,
        "kind": problem.kind,
        "cause": problem.cause,
        "root": problem.root,
        "since": (at - timedelta(milliseconds=problem.age_ms)).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "remedy": problem.remedy,
    }


def _stream(stream: StreamStatus, errors: LastErrors) -> StreamDocument:
    return {
        "stream": stream.stream,
        "condition": _condition(stream),
        "state": cast(document.StreamState, _STREAM_STATES[stream.state]),
        "detail": stream.detail,
        "state_age_ms": stream.state_age_ms,
        "instance": stream.instance or None,
        "last_instance": stream.last_instance or None,
        "readers": stream.readers,
        "replayable": stream.replayable,
        "received": _position(stream.received) if stream.HasField("received") else None,
        "acknowledged": _position(stream.acknowledged) if stream.HasField("acknowledged") else None,
        "received_messages": stream.received_messages,
        "received_bytes": stream.received_bytes,
        "acknowledged_messages": stream.acknowledged_messages,
        "duplicate_messages": stream.duplicate_messages,
        "losses": stream.losses,
        "lag_messages": stream.lag_messages,
        "lag_bytes": stream.lag_bytes,
        "oldest_unacknowledged_ms": stream.oldest_unacknowledged_ms,
        "stalled_ms": stream.stalled_ms if stream.HasField("stalled_ms") else None,
        **errors.of_part(f"stream {stream.stream}", stream),
        "holders": [
            {
                "pipeline": holder.pipeline,
                "state": _pipeline_state(holder.state),
                "committed": _position(holder.committed) if holder.HasField("committed") else None,
                "held_ms": holder.held_ms,
            }
            for holder in stream.holders
        ],
        "paused": _pause(stream),
    }


def _session(session: SessionStatus, errors: LastErrors) -> SessionDocument:
    return {
        "session": session.session,
        "connector": session.connector,
        "connector_version": session.connector_version,
        "instance": session.instance,
        "peer": session.peer,
        "age_ms": session.age_ms,
        "condition": _condition(session),
        "streams": session.streams,
        "credit_bytes": session.credit_bytes,
        "credit_messages": session.credit_messages,
        "outstanding_bytes": session.outstanding_bytes,
        "outstanding_messages": session.outstanding_messages,
        "linger_ms": session.linger_ms,
        "paused": _pause(session),
        **_reported(session.reported, errors, f"connector {session.instance}"),
    }


def _sink_session(session: SinkSessionStatus, errors: LastErrors) -> SinkSessionDocument:
    return {
        "session": session.session,
        "sink": session.sink,
        "connector": session.connector,
        "connector_version": session.connector_version,
        "instance": session.instance,
        "peer": session.peer,
        "age_ms": session.age_ms,
        "condition": _condition(session),
        **_reported(session.reported, errors, f"connector {session.instance} of sink {session.sink}", f"sink {session.sink}"),
    }


def _reported(reported: ReportedStatus, errors: LastErrors, *parts: str) -> ReportedDocument:
    """Converts a connector's report about itself; values that it has not reported become None."""
    sdk = reported.sdk
    return {
        "sdk": {"name": sdk.name, "version": sdk.version, "language": sdk.language} if reported.HasField("sdk") else None,
        "state": _connector_state(reported.state) if reported.state else None,
        "state_age_ms": reported.state_age_ms if reported.state else None,
        "reason": reported.reason,
        "errors": [
            {"message": error.message, "age_ms": error.age_ms, "stream": error.stream or None} for error in reported.errors
        ],
        **errors.of_connector(reported, *parts),
    }


def _pipeline(pipeline: PipelineStatus, errors: LastErrors) -> PipelineDocument:
    return {
        "pipeline": pipeline.pipeline,
        "run": pipeline.run,
        "attached": pipeline.attached,
        "condition": _condition(pipeline),
        "state": _pipeline_state(pipeline.state),
        "away_ms": pipeline.away_ms if pipeline.HasField("away_ms") else None,
        "patterns": list(pipeline.patterns),
        "committed": {
            entry.stream: _position(entry.position) if entry.HasField("position") else None for entry in pipeline.committed
        },
        "idle_ms": pipeline.idle_ms,
        "planned_batches": pipeline.planned_batches,
        "batch_ms": pipeline.batch_ms if pipeline.HasField("batch_ms") else None,
        "paused": _pause(pipeline),
        "lag_messages": pipeline.lag_messages,
        "lag_bytes": pipeline.lag_bytes,
        **errors.of_part(f"pipeline {pipeline.pipeline}", pipeline),
        "steps": [
            {
                "step": step.step,
                "received": step.received,
                "sent": step.sent,
                "failed": step.failed,
                "late": step.late,
                "keys": step.keys,
                "time_ms": step.time_us // 1000,
            }
            for step in pipeline.metrics.steps
        ],
    }


def _pipeline_state(state: PipelineState.ValueType) -> document.PipelineState:
    return cast(document.PipelineState, _PIPELINE_STATES[state])


def _sink(sink: SinkStatus, errors: LastErrors) -> SinkDocument:
    return {
        "sink": sink.sink,
        "mode": _mode(sink.mode) if sink.mode else None,
        "condition": _condition(sink),
        "instances": list(sink.instances),
        "away": list(sink.away),
        "absent_ms": sink.absent_ms if sink.HasField("absent_ms") else None,
        "writers": list(sink.writers),
        "committed_transactions": sink.committed_transactions,
        "aborted_transactions": sink.aborted_transactions,
        "failures": sink.failures,
        "failure": sink.failure or None,
        "failure_age_ms": sink.failure_age_ms if sink.HasField("failure_age_ms") else None,
        **errors.of_part(f"sink {sink.sink}", sink),
        "open_parts": sink.open_parts,
        "pending_transactions": sink.pending_transactions,
        "staged_messages": sink.staged_messages,
        "refused_messages": sink.refused_messages,
        "dead_letters": sink.dead_letters,
        "committed": {transaction.pipeline: transaction.batch for transaction in sink.committed},
        "lost": [
            {"instance": lost.instance, "pipeline": lost.transaction.pipeline, "batch": lost.transaction.batch}
            for lost in sink.lost
        ],
        "losses": sink.losses,
        "paused": _pause(sink),
        "outstanding": sink.outstanding or None,
        "outstanding_ms": sink.outstanding_ms if sink.HasField("outstanding_ms") else None,
    }


def _condition(
    row: StreamStatus | SessionStatus | SinkSessionStatus | PipelineStatus | SinkStatus,
) -> document.Condition | None:
    return cast(document.Condition, _CONDITIONS[row.condition]) if row.condition else None


def _pause(status: StreamStatus | SessionStatus | PipelineStatus | SinkStatus) -> PauseDocument | None:
    if not status.HasField("paused"):
        return None
    pause = status.paused
    return {"part": pause.part, "by": pause.by, "age_ms": pause.age_ms}


def _connector_state(state: ConnectorState.ValueType) -> document.ConnectorState:
    return cast(document.ConnectorState, ConnectorState.Name(state).removeprefix("CONNECTOR_STATE_").lower())


def _mode(mode: SinkMode.ValueType) -> document.SinkMode:
    return cast(document.SinkMode, SinkMode.Name(mode).removeprefix("SINK_MODE_").lower().replace("_", "-"))


def _position(position: Position) -> PositionDocument:
    return {
        "epoch": position.epoch,
        "sequence": position.sequence,
        "cursor": b64encode(position.cursor).decode() if position.HasField("cursor") else None,
    }
