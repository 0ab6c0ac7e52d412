"""What supervisors report of the processes of their deployments, kept for as long as their calls last."""

from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.contract.names import is_name
from headrace.gateway.core.base.bounds import check_count, check_length
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.gateway.core.base.position import check_pattern
from headrace.protocol.v1 import admin_pb2 as pb

MAX_PROCESSES = 1_200
"""Processes of a deployment."""
MAX_PROCESSES_IN_ALL = 2_400
"""Processes of all deployments, since a status lists them all."""
MAX_NAMES_OF_ONE = 100
"""Pipelines of a process, and patterns of the streams that it reads."""
MAX_NAMES = 5_000
"""The same of all processes of a deployment."""
LOG_LINES = 100
"""Lines of a log that a caller gets who names no number."""
MAX_LOG_LINES = 1_000
_MAX_REASON = 300
"""A status has the reasons of all processes."""
_MAX_VERSION = 100
_MAX_LINE = 2_000
_MAX_PATH = 500
_MAX_LOG_BYTES = 256 << 10
MAX_AGE_MS = 2**53


@dataclass(frozen=True, slots=True)
class Process:
    """A process, and when its supervisor reported this."""

    state: pb.ProcessState
    at: float = field(default_factory=clock.monotonic)

    def now(self) -> pb.ProcessState:
        """Returns its state with ages as of now."""
        passed_ms = int((clock.monotonic() - self.at) * 1000)
        state = pb.ProcessState()
        state.CopyFrom(self.state)
        state.state_age_ms += passed_ms
        if state.HasField("next_start_ms"):
            state.next_start_ms = max(0, state.next_start_ms - passed_ms)
        if state.HasField("reason_age_ms"):
            state.reason_age_ms += passed_ms
        if state.HasField("log_fault_age_ms"):
            state.log_fault_age_ms += passed_ms
        return state


Processes = dict[str, Process]


def checked_processes(reported: pb.SupervisedProcesses) -> Processes:
    """Returns what a supervisor reports of its processes, by name, with texts that are cut.

    Raises:
        MalformedMessage: a name, a pattern, a kind or a state is not valid, or a name is listed twice.
        LimitExceeded: there are too many.
    """
    check_count("processes of a deployment", reported.processes, MAX_PROCESSES)
    found: Processes = {}
    for one in reported.processes:
        if not is_name(check_length("name of a process", one.name)):
            raise MalformedMessage(f"process {one.name!r}: the name of a process may contain letters, digits and ._- only")
        if one.name in found:
            raise MalformedMessage(f"process {one.name} is listed twice; each process of a deployment has another name")
        found[one.name] = Process(_checked(one))
    for what in ("pipelines", "reads"):
        check_count(f"{what} of all processes", [name for one in reported.processes for name in getattr(one, what)], MAX_NAMES)
    return found


def _checked(one: pb.ProcessState) -> pb.ProcessState:
    if one.kind not in pb.ProcessKind.values() or not one.kind:
        raise MalformedMessage(f"process {one.name}: kind {one.kind} is not one of the ProcessKinds")
    if one.state not in pb.ProcessStateKind.values() or not one.state:
        raise MalformedMessage(f"process {one.name}: state {one.state} is not one of the ProcessStateKinds")
    check_count(f"pipelines of process {one.name}", one.pipelines, MAX_NAMES_OF_ONE)
    check_count(f"reads of process {one.name}", one.reads, MAX_NAMES_OF_ONE)
    for name in one.pipelines:
        if not is_name(check_length(f"pipeline of process {one.name}", name)):
            raise MalformedMessage(f"process {one.name}, pipeline {name!r}: such a name has letters, digits and ._- only")
    return pb.ProcessState(
        name=one.name,
        kind=one.kind,
        pipelines=one.pipelines,
        reads=[check_pattern(pattern) for pattern in one.reads],
        state=one.state,
        state_age_ms=min(one.state_age_ms, MAX_AGE_MS),
        restarts=one.restarts,
        reason=line_of(one.reason, _MAX_REASON),
        version=line_of(one.version, _MAX_VERSION),
        memory_bytes=one.memory_bytes if one.HasField("memory_bytes") else None,
        pid=one.pid if one.HasField("pid") else None,
        next_start_ms=min(one.next_start_ms, MAX_AGE_MS) if one.HasField("next_start_ms") else None,
        reason_age_ms=min(one.reason_age_ms, MAX_AGE_MS) if one.HasField("reason_age_ms") else None,
        log_fault=line_of(one.log_fault, _MAX_REASON),
        last_warning=line_of(one.last_warning, _MAX_REASON),
        log_fault_age_ms=min(one.log_fault_age_ms, MAX_AGE_MS) if one.HasField("log_fault_age_ms") else None,
    )


def kept_log(log: pb.ProcessLog) -> pb.ProcessLog:
    """Returns the newest lines of a log that there is room for, each as one line.

    Raises:
        LimitExceeded: there are too many lines.
    """
    check_count("lines of a log", log.lines, MAX_LOG_LINES)
    kept: list[str] = []
    room = _MAX_LOG_BYTES
    for line in reversed(log.lines):
        text = line_of(line, _MAX_LINE)
        room -= len(text.encode())
        if room < 0:
            break
        kept.append(text)
    return pb.ProcessLog(lines=reversed(kept), path=line_of(log.path, _MAX_PATH))


def line_of(text: str, longest: int) -> str:
    """Returns the beginning of a text of a supervisor, as one line."""
    return "".join(c if c.isprintable() else " " for c in text[:longest])
