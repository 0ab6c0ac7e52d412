"""The document of `headrace status --json`. Its names and types are stable."""

from base64 import b64encode
from typing import Any

from headrace.protocol.v1.admin_pb2 import (
    GetStatusResponse,
    PipelineState,
    PipelineStatus,
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


def status_document(address: str, status: GetStatusResponse) -> dict[str, Any]:
    """Converts a status to plain data: absent values become None, enums lower-case words."""
    gateway = status.gateway
    return {
        "gateway": {
            "address": address,
            "version": gateway.version,
            "uptime_ms": gateway.uptime_ms,
            "buffered_bytes": gateway.buffered_bytes,
            "buffer_limit_bytes": gateway.buffer_limit_bytes,
            "draining": gateway.draining,
            "rejected_sessions": dict(sorted(gateway.rejected_sessions.items())),
        },
        "streams": [_stream(stream) for stream in status.streams],
        "sessions": [_session(session) for session in status.sessions],
        "pipelines": [_pipeline(pipeline) for pipeline in status.pipelines],
        "sinks": [_sink(sink) for sink in status.sinks],
        "sink_sessions": [_sink_session(session) for session in status.sink_sessions],
    }


def _stream(stream: StreamStatus) -> dict[str, Any]:
    return {
        "stream": stream.stream,
        "state": StreamState.Name(stream.state).removeprefix("STREAM_STATE_").lower(),
        "detail": stream.detail,
        "instance": stream.instance or None,
        "replayable": stream.replayable,
        "received": _position(stream.received) if stream.HasField("received") else None,
        "acknowledged": _position(stream.acknowledged) if stream.HasField("acknowledged") else None,
        "received_messages": stream.received_messages,
        "acknowledged_messages": stream.acknowledged_messages,
        "duplicate_messages": stream.duplicate_messages,
        "losses": stream.losses,
        "lag_messages": stream.lag_messages,
        "lag_bytes": stream.lag_bytes,
        "oldest_unacknowledged_ms": stream.oldest_unacknowledged_ms,
        "holders": [
            {
                "pipeline": holder.pipeline,
                "state": _pipeline_state(holder.state),
                "committed": _position(holder.committed) if holder.HasField("committed") else None,
                "held_ms": holder.held_ms,
            }
            for holder in stream.holders
        ],
    }


def _session(session: SessionStatus) -> dict[str, Any]:
    return {
        "session": session.session,
        "connector": session.connector,
        "connector_version": session.connector_version,
        "instance": session.instance,
        "peer": session.peer,
        "age_ms": session.age_ms,
        "streams": session.streams,
        "credit_bytes": session.credit_bytes,
        "credit_messages": session.credit_messages,
        "outstanding_bytes": session.outstanding_bytes,
        "outstanding_messages": session.outstanding_messages,
        "linger_ms": session.linger_ms,
        **_reported(session.reported),
    }


def _sink_session(session: SinkSessionStatus) -> dict[str, Any]:
    return {
        "session": session.session,
        "sink": session.sink,
        "connector": session.connector,
        "connector_version": session.connector_version,
        "instance": session.instance,
        "peer": session.peer,
        "age_ms": session.age_ms,
        **_reported(session.reported),
    }


def _reported(reported: ReportedStatus) -> dict[str, Any]:
    """Converts a connector's report about itself; values that it has not reported become None."""
    sdk = reported.sdk
    return {
        "sdk": {"name": sdk.name, "version": sdk.version, "language": sdk.language} if reported.HasField("sdk") else None,
        "state": ConnectorState.Name(reported.state).removeprefix("CONNECTOR_STATE_").lower() if reported.state else None,
        "state_age_ms": reported.state_age_ms if reported.state else None,
        "reason": reported.reason,
        "errors": [
            {"message": error.message, "age_ms": error.age_ms, "stream": error.stream or None} for error in reported.errors
        ],
    }


def _pipeline(pipeline: PipelineStatus) -> dict[str, Any]:
    return {
        "pipeline": pipeline.pipeline,
        "run": pipeline.run,
        "attached": pipeline.attached,
        "state": _pipeline_state(pipeline.state),
        "away_ms": pipeline.away_ms if pipeline.HasField("away_ms") else None,
        "patterns": list(pipeline.patterns),
        "committed": {
            entry.stream: _position(entry.position) if entry.HasField("position") else None for entry in pipeline.committed
        },
        "idle_ms": pipeline.idle_ms,
        "lag_messages": pipeline.lag_messages,
        "lag_bytes": pipeline.lag_bytes,
    }


def _pipeline_state(state: PipelineState.ValueType) -> str:
    return PipelineState.Name(state).removeprefix("PIPELINE_STATE_").lower()


def _sink(sink: SinkStatus) -> dict[str, Any]:
    return {
        "sink": sink.sink,
        "mode": SinkMode.Name(sink.mode).removeprefix("SINK_MODE_").lower().replace("_", "-") if sink.mode else None,
        "instances": list(sink.instances),
        "away": list(sink.away),
        "open_parts": sink.open_parts,
        "pending_transactions": sink.pending_transactions,
        "staged_messages": sink.staged_messages,
        "refused_messages": sink.refused_messages,
        "committed": {transaction.pipeline: transaction.batch for transaction in sink.committed},
        "lost": [
            {"instance": lost.instance, "pipeline": lost.transaction.pipeline, "batch": lost.transaction.batch}
            for lost in sink.lost
        ],
        "losses": sink.losses,
    }


def _position(position: Position) -> dict[str, Any]:
    return {
        "epoch": position.epoch,
        "sequence": position.sequence,
        "cursor": b64encode(position.cursor).decode() if position.HasField("cursor") else None,
    }
