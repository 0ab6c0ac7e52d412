"""What supervisors report of their deployments: connectors without a session, invalid files, logs that cannot be written."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.contract.names import source_of
from headrace.gateway.core.connections import Role
from headrace.gateway.core.status.health.of_gateway import Refused
from headrace.gateway.core.status.pipeline_processes import LOST_AFTER_MS, last_warning, lost_supervisor
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb

CONNECTS_WITHIN_MS = 15_000
"""For how long the process of a connector may run without a session, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Failing:
    """The problem of each connector that should have a session, by what the connector serves.

    Attributes:
        all: All of them.
        by_source: The first one of each source.
        by_sink: The first one of each sink.
    """

    all: list[Problem] = field(default_factory=list)
    by_source: dict[str, Problem] = field(default_factory=dict)
    by_sink: dict[str, Problem] = field(default_factory=dict)

    def of_stream(self, stream: str) -> Problem | None:
        """Returns why no connector sends a stream, if that is known."""
        return self.by_source.get(source_of(stream))


def failing(status: pb.GetStatusResponse, refused: Refused) -> Failing:
    """Returns the connectors that should have a session. One that has one works, whatever its supervisor has reported before.

    Args:
        status: The status.
        refused: Whom the gateway has refused.
    """
    connected = {("source", session.instance) for session in status.sessions}
    connected |= {(session.sink, session.instance) for session in status.sink_sessions}
    found = Failing()
    for deployment in status.deployments:
        processes = {process.name: process for process in deployment.processes}
        for connector in deployment.connectors:
            if (connector.sink or "source", connector.instance) in connected:
                continue
            problem = _problem(deployment, connector, processes.get(connector.name), refused)
            if problem is None:
                continue
            found.all.append(problem)
            if connector.source:
                found.by_source.setdefault(connector.source, problem)
            elif connector.sink:
                found.by_sink.setdefault(connector.sink, problem)
    for lost in status.gateway.lost_supervisors:
        if lost.lost_ms >= LOST_AFTER_MS:
            _add_lost(found, lost, connected)
    return found


def _add_lost(failing: Failing, supervisor: pb.LostSupervisor, connected: set[tuple[str, str]]) -> None:
    """Adds a deployment whose supervisor is lost, so that none of its connectors is started again once it has ended."""
    problem = lost_supervisor(supervisor)
    failing.all.append(problem)
    for connector in supervisor.connectors:
        if (connector.sink or "source", connector.instance) not in connected:
            away = problem.within(f"connector {connector.instance}" + (f" of sink {connector.sink}" if connector.sink else ""))
            failing.all.append(away)
            if connector.source:
                failing.by_source.setdefault(connector.source, away)
            elif connector.sink:
                failing.by_sink.setdefault(connector.sink, away)


def _problem(
    deployment: pb.DeploymentStatus, connector: pb.SupervisedConnector, process: pb.ProcessState | None, refused: Refused
) -> Problem | None:
    """Returns why a connector has no session; None if it has lost it just now, and its supervisor has not begun anything."""
    part = f"connector {connector.instance}" + (f" of sink {connector.sink}" if connector.sink else "")
    if part in refused.current:
        return refused.by_part[part]
    if not connector.failure:
        if connector.name in deployment.restarting or _starts(process):
            cause = f"the process of {connector.name} in {deployment.deployment} is being started"
            remedy = f"wait; headrace ps shows its state, and headrace ps --log {connector.name} its log"
            return Problem(part, Kind.PROCESS_STARTS, cause, connector.unconnected_ms, remedy)
        if connector.unconnected_ms < CONNECTS_WITHIN_MS:
            return None
        cause = f"the process of {connector.name} in {deployment.deployment} runs, and is not connected{last_warning(process)}"
        remedy = f"the log of {connector.name} says why; headrace restart {connector.name} starts its process again"
        role = Role.SINK if connector.sink else Role.SOURCE
        return refused.why(Problem(part, Kind.NOT_CONNECTED, cause, connector.unconnected_ms, remedy), role)
    remedy = (
        "correct what the error names; the supervisor starts it again, and "
        f"headrace restart {connector.name} does so at once: {deployment.deployment} has its log"
    )
    return Problem(part, Kind.CONNECTOR_FAILS, f"its process fails: {connector.failure}", connector.failing_ms, remedy)


def _starts(process: pb.ProcessState | None) -> bool:
    """Returns whether a supervisor is starting a process that has not failed, also one that it has just stopped for that."""
    states = (pb.PROCESS_STATE_KIND_STARTS, pb.PROCESS_STATE_KIND_WAITS)
    return process is not None and process.state in states and not process.reason and process.state_age_ms < CONNECTS_WITHIN_MS


def of_files(status: pb.GetStatusResponse) -> Iterator[Problem]:
    """Yields the deployments whose file, or one that it names, is invalid."""
    for deployment in status.deployments:
        if deployment.file_fault:
            part, age_ms = f"deployment {deployment.deployment}", deployment.file_fault_age_ms
            remedy = (
                "correct the file, or what it names; until then, what was valid before stays in effect, and a restart of the "
                "deployment would fail"
            )
            yield Problem(part, Kind.CONFIGURATION_INVALID, deployment.file_fault, age_ms, remedy)


def of_logs(status: pb.GetStatusResponse) -> Iterator[Problem]:
    """Yields the logs of processes that cannot be written, as their supervisors report."""
    for deployment in status.deployments:
        for process in deployment.processes:
            if process.log_fault:
                part = f"log of process {process.name} of {deployment.deployment}"
                remedy = "make room in its folder, or restore the folder; the process runs on, and the log is tried again"
                yield Problem(part, Kind.LOG_FAILS, process.log_fault, process.log_fault_age_ms, remedy)
