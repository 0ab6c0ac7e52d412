"""The types of documents, generated from admin.proto. Sizes are in bytes and times in milliseconds."""

from typing import Literal

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict


class GatewayFields(TypedDict):
    """The gateway itself."""

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


Condition = Literal[
    "flows",
    "idle",
    "waits",
    "no credit",
    "stalled",
    "source stalled",
    "trouble",
    "paused",
    "detached",
    "ended",
]
"""The activity of a part, in a word. The gateway decides it once: whoever shows it uses the same word."""


StreamState = Literal[
    "parked",
    "live",
    "detached",
    "ended",
    "lost",
]
"""The state of a stream."""


class PositionDocument(TypedDict):
    """A place in a stream: everything at or before it has been read, and nothing after it. Positions of one stream are ordered by (epoch, sequence); of equal ones, that with more `moves` has the later cursor."""

    epoch: int
    sequence: int
    cursor: str | None
    moves: int


PipelineState = Literal[
    "attached",
    "away",
    "detached",
    "awaited",
]
"""The state of a pipeline, as its gateway sees it."""


class HolderDocument(TypedDict):
    """A pipeline that has not committed all that was received of a stream: the rest is not acknowledged before it has."""

    pipeline: str
    state: PipelineState
    committed: PositionDocument | None
    held_ms: int


class PauseDocument(TypedDict):
    """A pause."""

    part: str
    by: str
    age_ms: int


class StreamFields(TypedDict):
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
    holders: list[HolderDocument]
    paused: PauseDocument | None


class SessionFields(TypedDict):
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


class PipelineFields(TypedDict):
    """One pipeline."""

    pipeline: str
    run: int
    attached: bool
    condition: Condition
    state: PipelineState
    away_ms: int | None
    patterns: list[str]
    idle_ms: int
    planned_batches: int
    batch_ms: int | None
    paused: PauseDocument | None
    lag_messages: int
    lag_bytes: int


SinkMode = Literal[
    "two-phase",
    "batch-idempotent",
    "at-least-once",
]
"""The guarantee of a sink."""


class SinkFields(TypedDict):
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
    open_parts: int
    pending_transactions: int
    staged_messages: int
    refused_messages: int
    dead_letters: int
    losses: int
    paused: PauseDocument | None
    outstanding: str | None
    outstanding_ms: int | None


class SinkSessionFields(TypedDict):
    """One session of a sink."""

    session: str
    sink: str
    connector: str
    connector_version: str
    instance: str
    peer: str
    age_ms: int
    condition: Condition


class ProblemFields(TypedDict):
    """A degraded part, and its first cause. The same list is at /readyz."""

    part: str
    kind: str
    cause: str
    root: str
    remedy: str


class SupervisedDocument(TypedDict):
    """A connector that a deployment runs."""

    name: str
    instance: str
    replays: str | None
    failure: str | None
    failing_ms: int | None


ProcessKind = Literal[
    "gateway",
    "connector",
    "application",
    "query",
]
"""The kind of a process."""


ProcessStateKind = Literal[
    "starts",
    "runs",
    "waits",
    "ended",
    "stopped",
]
"""The state of a process."""


class ProcessDocument(TypedDict):
    """A process of a deployment, and its state."""

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
    last_warning: str | None
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
    file_fault: str | None
    file_fault_age_ms: int | None


class SdkDocument(TypedDict):
    """The library that speaks the protocol for a connector. A connector that uses none leaves it out."""

    name: str
    version: str
    language: str


ConnectorState = Literal[
    "connecting",
    "running",
    "degraded",
    "waiting",
]
"""The state of a connector."""


class ErrorDocument(TypedDict):
    """An error that a connector met, and survived."""

    message: str
    age_ms: int
    stream: str | None


class ReportedFields(TypedDict):
    """The report of a connector about itself."""

    sdk: SdkDocument | None
    state: ConnectorState | None
    reason: str
    errors: list[ErrorDocument]


class StepFields(TypedDict):
    """What one step of an application has done."""

    step: str
    received: int
    sent: int
    failed: int
    late: int
    keys: int
    violated: int
    further: int


class SeriesDocument(TypedDict):
    """A counter or a histogram of an application, for one value of its label."""

    metric: str
    value: str
    count: int
    sum: float | None
    bounds: list[float]
    buckets: list[int]


class LostVoteFields(TypedDict):
    """A vote without whose batch an instance has reconnected."""

    instance: str


class TransactionDocument(TypedDict):
    """Identifies what one micro-batch of one pipeline writes to one sink."""

    pipeline: str
    batch: int


class EventFields(TypedDict):
    """Something that happened."""

    number: int
    kind: str
    part: str
    text: str


class TimelineFields(TypedDict):
    """The last micro-batches of a pipeline."""

    pipeline: str


class BatchFields(TypedDict):
    """One micro-batch."""

    batch: int | None
    rebuilt: bool
    streams_in_all: int
    redelivered: bool


class BatchStreamFields(TypedDict):
    """The messages of one stream that a micro-batch reads."""

    stream: str
    messages: int | None


MessageState = Literal[
    "not-received",
    "not-planned",
    "in-batch",
    "committed",
    "acknowledged",
    "redelivered",
]
"""How far a message is on its way to its acknowledgement."""


class MessageFields(TypedDict):
    """Where a message stands."""

    state: MessageState
    reason: str


BatchStage = Literal[
    "planned",
    "read",
    "processed",
    "staged",
    "voted",
    "committed",
    "sink_committed",
    "acknowledged",
]
"""The stages of a micro-batch, in order. A micro-batch that does not need a stage never reaches it."""


class MessageReaderFields(TypedDict):
    """How far a message is in one pipeline."""

    pipeline: str
    state: MessageState
    batch: int | None
    stage: BatchStage | None
    reason: str


class PeekFields(TypedDict):
    """A part of a sample. At least one is sent each second."""

    not_shown: int


class MessagePreviewFields(TypedDict):
    """The beginning of a message. What looks like a secret by its name is replaced with `(hidden)`."""

    epoch: int
    sequence: int


class HeaderFields(TypedDict):
    """A header of a message."""

    name: str


class PreviewFields(TypedDict):
    """The beginning of some bytes."""

    size: int


class DeadLettersFields(TypedDict):
    """Dead letters by sink."""

    keeps_letters: bool


class SinkDeadLettersFields(TypedDict):
    """The dead letters of a sink."""

    sink: str
    count: int


class DeadLetterFields(TypedDict):
    """A message that could not be processed or written, as far as its query states it."""

    pipeline: str
    batch: int
    reason: str
    sink: str | None
    step: str | None
    stream: str | None
    sequence: int | None
