"""A degraded part of a gateway, the kinds of reasons, and when they begin and end, from one look at the gateway to the next."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.contract import clock
from headrace.gateway.core.state import EventKind, EventLog
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
    REPLAY_AWAITED = "replay-awaited"
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
        """Whether something is wrong; what is paused or starts, with what waits for it, and what comes by a replay are not."""
        return self.kind not in (Kind.PAUSED, Kind.PROCESS_STARTS, Kind.REPLAY_AWAITED)

    def within(self, part: str) -> "Problem":
        """Returns the problem of a part that is degraded because of this one."""
        return self if part == self.part else replace(self, part=part, root=self.root or self.part)


MAX_AT_ONCE = 20
"""How many faults of a kind are noted one by one when they begin or end together; the others are counted."""
MAX_KNOWN = 1_000
"""How many faults are followed."""


class FaultWatch:
    """The faults of the last look. What a fault brings about elsewhere is left out: only first causes are events."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._began: dict[tuple[str, Kind], float] = {}
        """When each fault was first seen, on the monotonic clock."""

    def look(self, problems: Iterable[Problem]) -> None:
        """Compares the present faults with the faults of the last look."""
        now = clock.monotonic()
        found: dict[tuple[str, Kind], Problem] = {}
        for problem in problems:
            if len(found) < MAX_KNOWN and problem.is_fault and problem.root in ("", problem.part):
                found.setdefault((problem.part, problem.kind), problem)
        ended = {key: f"{key[1]}, after {now - began:.0f} s" for key, began in self._began.items() if key not in found}
        begun = {key: f"{key[1]}: {problem.cause}" for key, problem in found.items() if key not in self._began}
        self._note(EventKind.FAULT_ENDED, ended)
        self._note(EventKind.FAULT_BEGAN, begun)
        self._began = {key: self._began.get(key, now) for key in found}

    def _note(self, event: EventKind, faults: dict[tuple[str, Kind], str]) -> None:
        noted: Counter[Kind] = Counter()
        for (part, kind), text in faults.items():
            noted[kind] += 1
            if noted[kind] <= MAX_AT_ONCE:
                self._log.add(event, part, text)
        for kind, count in noted.items():
            if count > MAX_AT_ONCE:
                self._log.add(event, "gateway", f"{kind}: {count - MAX_AT_ONCE} more parts at the same time")
