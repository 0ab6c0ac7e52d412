"""What a supervisor tells of its processes: to its gateway, and to commands on its machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.deploy.log_pipes import LogFault
from headrace.deploy.plan import Role
from headrace.deploy.process import SupervisedProcess
from headrace.deploy.status import Kind, State
from headrace.processes import memory_of_sessions
from headrace.protocol.v1 import admin_pb2 as pb

MEASURE_EVERY_S = 5.0
"""How often the memory of processes is measured."""
WARNS_AFTER_S = 5.0
"""After how many seconds without a connection a process's last warning is reported, and how often it is read again."""
MAX_REASON = 300
_KINDS = {
    Kind.GATEWAY: ("gateway", pb.PROCESS_KIND_GATEWAY),
    Kind.SOURCE: ("connector", pb.PROCESS_KIND_CONNECTOR),
    Kind.SINK: ("connector", pb.PROCESS_KIND_CONNECTOR),
    Kind.PIPELINE: ("application", pb.PROCESS_KIND_APPLICATION),
    Kind.QUERY: ("query", pb.PROCESS_KIND_QUERY),
}
_STATES = {
    "starts": pb.PROCESS_STATE_KIND_STARTS,
    "runs": pb.PROCESS_STATE_KIND_RUNS,
    "waits": pb.PROCESS_STATE_KIND_WAITS,
    "ended": pb.PROCESS_STATE_KIND_ENDED,
    "stopped": pb.PROCESS_STATE_KIND_STOPPED,
}


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """A process, as it is described to others.

    Attributes:
        role: Its role.
        state: starts, runs, waits, ended or stopped.
        since: When that began, on the clock of `Reports.look`.
        restarts: How often it was started again.
        reason: Why it last ended; empty once it is stable.
        reason_since: When that was, on the same clock; None without a reason.
        next_start: When it is started again, on the same clock; None if it does not wait for that.
        version: The version of Headrace with which it was started.
        memory_bytes: The resident memory of the process and its descendants; None if it does not run or was not measured.
        pid: Its process id; None if it does not run.
        log: Its log.
        log_fault: Why its log cannot be written; empty if it can.
        log_fault_since: Since when, on the same clock; None if it can be written.
        last_warning: The warning or error that it has logged last, if it runs and is not connected; empty otherwise.
    """

    role: Role
    state: str
    since: float
    restarts: int
    reason: str
    reason_since: float | None
    next_start: float | None
    version: str
    memory_bytes: int | None
    pid: int | None
    log: Path
    log_fault: str
    log_fault_since: float | None
    last_warning: str = ""

    def document(self, now: float) -> dict[str, Any]:
        """Returns it as plain data, with the keys of the gateway's status."""
        return {
            "name": self.role.name,
            "kind": _KINDS[self.role.kind][0],
            "pipelines": list(self.role.pipelines),
            "state": self.state,
            "state_age_ms": _ms(now - self.since),
            "restarts": self.restarts,
            "reason": self.reason or None,
            "reason_age_ms": None if self.reason_since is None else _ms(now - self.reason_since),
            "log_fault": self.log_fault or None,
            "log_fault_age_ms": None if self.log_fault_since is None else _ms(now - self.log_fault_since),
            "last_warning": self.last_warning or None,
            "next_start_ms": None if self.next_start is None else _ms(self.next_start - now),
            "version": self.version or None,
            "memory_bytes": self.memory_bytes,
            "pid": self.pid,
        }

    def message(self, now: float) -> pb.ProcessState:
        """Returns its description for the gateway."""
        return pb.ProcessState(
            name=self.role.name,
            kind=_KINDS[self.role.kind][1],
            pipelines=self.role.pipelines,
            reads=self.role.reads,
            state=_STATES[self.state],
            state_age_ms=_ms(now - self.since),
            restarts=self.restarts,
            reason=self.reason,
            reason_age_ms=None if self.reason_since is None else _ms(now - self.reason_since),
            log_fault=self.log_fault,
            log_fault_age_ms=None if self.log_fault_since is None else _ms(now - self.log_fault_since),
            last_warning=self.last_warning,
            next_start_ms=None if self.next_start is None else _ms(self.next_start - now),
            version=self.version,
            memory_bytes=self.memory_bytes,
            pid=self.pid,
        )

    def without_memory(self) -> "ProcessReport":
        """Returns it without what changes all the time."""
        return replace(self, memory_bytes=None)


class Reports:
    """Derives reports from processes, and remembers since when each is in its state."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}
        self._ended: dict[str, tuple[int, str, float]] = {}
        """After how many restarts each has a reason, which, and since when."""
        self._warnings: dict[str, tuple[float, str]] = {}
        """The last warning of each process that is not connected, and when to read it again."""
        self._memory: dict[int, int] = {}
        self._measured_at = float("-inf")

    def look(self, processes: Iterable[SupervisedProcess], log_faults: Mapping[str, LogFault], now: float) -> list[ProcessReport]:
        """Returns a report of each process, as of `now` on a monotonic clock.

        Args:
            processes: The processes.
            log_faults: Why logs cannot be written, by the names of their processes.
            now: The time, on the clock of `log_faults`, too.
        """
        all_of_them = list(processes)
        if now - self._measured_at >= MEASURE_EVERY_S:
            self._measured_at = now
            self._memory = memory_of_sessions({one.process.pid for one in all_of_them if one.process.runs})
        reports = [self._report(one, log_faults.get(one.role.name), now) for one in all_of_them]
        self._since = {report.role.name: (report.state, report.since) for report in reports}
        return reports

    def _report(self, one: SupervisedProcess, log_fault: LogFault | None, now: float) -> ProcessReport:
        runs, state = one.process.runs, _state_of(one)
        before, since = self._since.get(one.role.name, ("", now))
        restarts, why, reason_since = self._ended.get(one.role.name, (-1, "", now))
        if one.reason is None:
            self._ended.pop(one.role.name, None)
        elif one.reason != why or (restarts != one.restarts and not runs):
            self._ended[one.role.name], reason_since = (one.restarts, one.reason, now), now
        return ProcessReport(
            role=one.role,
            state=state,
            since=since if before == state else now,
            restarts=one.restarts,
            reason=(one.reason or "")[:MAX_REASON],
            reason_since=reason_since if one.reason else None,
            next_start=one.due_at if state == "waits" and one.reason is not None and not one.cannot_run else None,
            version=one.version,
            memory_bytes=self._memory.get(one.process.pid) if runs else None,
            pid=one.process.pid if runs else None,
            log=one.process.log,
            log_fault="" if log_fault is None else f"{one.process.log}: {log_fault.cause}"[:MAX_REASON],
            log_fault_since=None if log_fault is None else log_fault.since,
            last_warning=self._last_warning(one, now)[:MAX_REASON],
        )

    def _last_warning(self, one: SupervisedProcess, now: float) -> str:
        if not one.is_unconnected:
            self._warnings.pop(one.role.name, None)
            return ""
        due_at, found = self._warnings.setdefault(one.role.name, (now + WARNS_AFTER_S, ""))
        if now >= due_at:
            found = one.last_warning()
            self._warnings[one.role.name] = (now + WARNS_AFTER_S, found)
        return found


def _state_of(one: SupervisedProcess) -> str:
    if one.state in (State.ENDED, State.KILLED):
        return "stopped" if one.was_stopped else "ended"
    if one.state is State.STOPS:
        return "stopped" if one.was_stopped else "starts"
    # A connector that has lost its session was started long ago.
    if one.state is State.RUNS or (one.state is State.RECONNECTS and one.role.kind in (Kind.SOURCE, Kind.SINK)):
        return "runs"
    return "starts" if one.process.runs else "waits"


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
