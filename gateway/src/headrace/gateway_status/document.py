"""The types of the status document: what the messages of the protocol contain, and what the gateway makes of it.

`headrace.protocol.v1.admin_documents` has the fields that a document takes from its message as they are; it is generated from
the protocol. Sizes are in bytes and times in milliseconds; docs/reference/status.md explains each field.
"""

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.protocol.v1.admin_documents import (
    DeploymentDocument,
    GatewayFields,
    LostVoteFields,
    PipelineFields,
    PositionDocument,
    ProblemFields,
    ReportedFields,
    SeriesDocument,
    SessionFields,
    SinkFields,
    SinkSessionFields,
    StepFields,
    StreamFields,
    TransactionDocument,
)

NO_FAULTS = frozenset({"paused", "process-starts", "replay-awaited"})
"""The kinds of problems that tell what somebody does: nothing is wrong with such a part, and the gateway is ready."""


class GatewayDocument(GatewayFields):
    """The gateway itself."""

    address: str


class LastErrorDocument(TypedDict):
    """What went wrong last. It is over if no problem of the part is left."""

    message: str
    at: str
    is_over: bool


class LastErrorFields(TypedDict):
    """The fields of a part with its last error."""

    last_error: LastErrorDocument | None
    last_error_age_ms: int | None


class StreamDocument(StreamFields, LastErrorFields):
    """One stream."""


class ReportedDocument(ReportedFields, LastErrorFields):
    """The report of a connector about itself."""

    state_age_ms: int | None


class SessionDocument(SessionFields, ReportedDocument):
    """One session of a source."""


class SinkSessionDocument(SinkSessionFields, ReportedDocument):
    """One session of a sink."""


class StepDocument(StepFields):
    """The totals of a step of an application since its run started."""

    time_ms: int


class PipelineDocument(PipelineFields, LastErrorFields):
    """One pipeline."""

    committed: dict[str, PositionDocument | None]
    steps: list[StepDocument]
    series: list[SeriesDocument]


class LostVoteDocument(LostVoteFields, TransactionDocument):
    """A vote without whose batch an instance has reconnected."""


class SinkDocument(SinkFields, LastErrorFields):
    """One sink."""

    committed: dict[str, int]
    lost: list[LostVoteDocument]


class ProblemDocument(ProblemFields):
    """A degraded part, and the first cause."""

    since: str


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
