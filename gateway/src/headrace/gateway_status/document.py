"""The types of the documents. Sizes are in bytes and times in milliseconds; docs/run/gateway.md explains each field."""

from typing import Literal

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

StreamState = Literal["parked", "live", "detached", "ended", "lost"]
PipelineState = Literal["attached", "away", "detached", "awaited"]
ConnectorState = Literal["connecting", "running", "degraded", "waiting"]
Condition = Literal["flows", "idle", "waits", "no credit", "stalled", "source stalled", "trouble", "paused", "detached", "ended"]
"""What a part does, as the gateway decides it."""
SinkMode = Literal["two-phase", "batch-idempotent", "at-least-once"]
NO_FAULTS = frozenset({"paused", "process-starts"})
"""The kinds of problems that tell what somebody does: nothing is wrong with such a part, and the gateway is ready."""


class PositionDocument(TypedDict):
    """A place in a stream. The cursor is base64."""

    epoch: int
    sequence: int
    cursor: str | None


class GatewayDocument(TypedDict):
    """The gateway itself."""

    address: str
    version: str
    uptime_ms: int
    buffered_bytes: int
    buffer_limit_bytes: int
    draining: bool
    rejected_sessions: dict[str, int]
    received_frames: int
    received_messages: int
    received_bytes: int
    acknowledged_messages: int
    duplicate_messages: int
    losses: int
    buffered_messages: int


class HolderDocument(TypedDict):
    """A pipeline that a stream's acknowledgements wait for."""

    pipeline: str
    state: PipelineState
    committed: PositionDocument | None
    held_ms: int


class LastErrorDocument(TypedDict):
    """What went wrong last. It is over if no problem of the part is left."""

    message: str
    at: str
    is_over: bool


class PauseDocument(TypedDict):
    """A pause: the part that was paused, by whom, and for how long."""

    part: str
    by: str
    age_ms: int


class StreamDocument(TypedDict):
    """One stream."""

    stream: str
    condition: Condition
    state: StreamState
    detail: str
    state_age_ms: int
    instance: str | None
    last_instance: str | None
    readers: int
    replayable: bool
    received: PositionDocument | None
    acknowledged: PositionDocument | None
    received_messages: int
    received_bytes: int
    acknowledged_messages: int
    duplicate_messages: int
    losses: int
    lag_messages: int
    lag_bytes: int
    oldest_unacknowledged_ms: int
    stalled_ms: int | None
    last_error: LastErrorDocument | None
    last_error_age_ms: int | None
    holders: list[HolderDocument]
    paused: PauseDocument | None


class SdkDocument(TypedDict):
    """The library of a connector."""

    name: str
    version: str
    language: str


class ErrorDocument(TypedDict):
    """An error that a connector has reported."""

    message: str
    age_ms: int
    stream: str | None


class ReportedDocument(TypedDict):
    """The report of a connector about itself."""

    sdk: SdkDocument | None
    state: ConnectorState | None
    state_age_ms: int | None
    reason: str
    errors: list[ErrorDocument]
    last_error: LastErrorDocument | None
    last_error_age_ms: int | None


class SessionDocument(ReportedDocument):
    """One session of a source."""

    session: str
    connector: str
    connector_version: str
    instance: str
    peer: str
    age_ms: int
    condition: Condition
    streams: int
    credit_bytes: int
    credit_messages: int
    outstanding_bytes: int
    outstanding_messages: int
    linger_ms: int
    paused: PauseDocument | None


class SinkSessionDocument(ReportedDocument):
    """One session of a sink."""

    session: str
    sink: str
    connector: str
    connector_version: str
    instance: str
    peer: str
    age_ms: int
    condition: Condition


class StepDocument(TypedDict):
    """The totals of a step of an application since its run started."""

    step: str
    received: int
    sent: int
    failed: int
    late: int
    keys: int
    time_ms: int


class PipelineDocument(TypedDict):
    """One pipeline."""

    pipeline: str
    run: int
    attached: bool
    condition: Condition
    state: PipelineState
    away_ms: int | None
    patterns: list[str]
    committed: dict[str, PositionDocument | None]
    idle_ms: int
    planned_batches: int
    batch_ms: int | None
    paused: PauseDocument | None
    lag_messages: int
    lag_bytes: int
    last_error: LastErrorDocument | None
    last_error_age_ms: int | None
    steps: list[StepDocument]


class LostVoteDocument(TypedDict):
    """A vote without whose batch an instance has reconnected."""

    instance: str
    pipeline: str
    batch: int


class SinkDocument(TypedDict):
    """One sink."""

    sink: str
    mode: SinkMode | None
    condition: Condition
    instances: list[str]
    away: list[str]
    absent_ms: int | None
    writers: list[str]
    committed_transactions: int
    aborted_transactions: int
    failures: int
    failure: str | None
    failure_age_ms: int | None
    last_error: LastErrorDocument | None
    last_error_age_ms: int | None
    open_parts: int
    pending_transactions: int
    staged_messages: int
    refused_messages: int
    dead_letters: int
    committed: dict[str, int]
    lost: list[LostVoteDocument]
    losses: int
    paused: PauseDocument | None
    outstanding: str | None
    outstanding_ms: int | None


class SupervisedDocument(TypedDict):
    """A connector that a deployment runs, and why its process does not run."""

    name: str
    instance: str
    replays: str | None
    failure: str | None
    failing_ms: int | None


ProcessKind = Literal["gateway", "connector", "application", "query"]
ProcessStateKind = Literal["starts", "runs", "waits", "ended", "stopped"]


class ProcessDocument(TypedDict):
    """A process of a deployment, as its supervisor reports it."""

    name: str
    kind: ProcessKind
    pipelines: list[str]
    state: ProcessStateKind
    state_age_ms: int
    restarts: int
    reason: str | None
    reason_age_ms: int | None
    log_fault: str | None
    log_fault_age_ms: int | None
    next_start_ms: int | None
    version: str | None
    memory_bytes: int | None
    pid: int | None


class DeploymentDocument(TypedDict):
    """A deployment whose supervisor is registered."""

    deployment: str
    run: str
    peer: str
    age_ms: int
    connectors: list[SupervisedDocument]
    restarting: list[str]
    replaying: list[str]
    processes: list[ProcessDocument]


class ProblemDocument(TypedDict):
    """A degraded part, and the first cause."""

    part: str
    kind: str
    cause: str
    root: str
    since: str
    remedy: str


class StatusDocument(TypedDict):
    """A gateway at one moment."""

    problems: list[ProblemDocument]
    problems_in_all: int
    gateway: GatewayDocument
    streams: list[StreamDocument]
    sessions: list[SessionDocument]
    pipelines: list[PipelineDocument]
    sinks: list[SinkDocument]
    sink_sessions: list[SinkSessionDocument]
    deployments: list[DeploymentDocument]
