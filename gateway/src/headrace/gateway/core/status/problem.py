"""A degraded part of a gateway, and the kinds of reasons."""

from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.gateway.own_faults import OwnFaultKind


class Kind(StrEnum):
    """The kinds of problems."""

    STOPPING = "stopping"
    CLOCK_JUMPED = "clock-jumped"
    CONFIGURATION_INVALID = OwnFaultKind.CONFIGURATION_INVALID.value
    CERTIFICATE_INVALID = OwnFaultKind.CERTIFICATE_INVALID.value
    CERTIFICATE_EXPIRES = OwnFaultKind.CERTIFICATE_EXPIRES.value
    GATEWAY_FAILS = OwnFaultKind.GATEWAY_FAILS.value
    DESCRIPTORS_EXHAUSTED = OwnFaultKind.DESCRIPTORS_EXHAUSTED.value
    REFUSED = "refused"
    CONNECTOR_AWAY = "connector-away"
    CONNECTOR_FAILS = "connector-fails"
    CONNECTOR_SILENT = "connector-silent"
    CONNECTOR_REPORTS = "connector-reports"
    CONNECTOR_RECONNECTS = "connector-reconnects"
    POSITION_LOST = "position-lost"
    NOT_SENT = "not-sent"
    SOURCE_STALLED = "source-stalled"
    NOT_READ = "not-read"
    SINK_AWAY = "sink-away"
    SINK_FAILS = "sink-fails"
    SINK_SLOW = "sink-slow"
    SINK_LOST = "sink-lost"
    SECOND_DRIVER = "second-driver"
    PIPELINE_FAILS = "pipeline-fails"
    PIPELINE_SILENT = "pipeline-silent"
    EXECUTOR_LOST = "executor-lost"
    COMMIT_SLOW = "commit-slow"
    PIPELINE_AWAITED = "pipeline-awaited"
    PIPELINE_ENDED = "pipeline-ended"
    PIPELINE_DETACHED = "pipeline-detached"
    PIPELINE_AWAY = "pipeline-away"
    LOG_FAILS = "log-fails"
    PROCESS_STARTS = "process-starts"
    NOT_CONNECTED = "not-connected"
    BATCH_STUCK = "batch-stuck"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Problem:
    """A degraded part, and why it is degraded."""

    part: str
    """What is degraded, such as `stream orders/0`."""
    kind: Kind
    cause: str
    """The first cause."""
    age_ms: int
    """For how long, in milliseconds."""
    remedy: str
    root: str = ""
    """The part where it began; empty if it is this one."""

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong; what somebody has paused or what starts, and what waits for it, is not."""
        return self.kind not in (Kind.PAUSED, Kind.PROCESS_STARTS)

    def within(self, part: str) -> "Problem":
        """Returns the problem of a part that is degraded because of this one."""
        return self if part == self.part else replace(self, part=part, root=self.root or self.part)
