"""The processes of deployments that run pipelines: why a pipeline is not attached, as far as its supervisor knows."""

from dataclasses import dataclass, field

from headrace.contract.names import covers
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb

CONNECTS_WITHIN_MS = 120_000
"""For how long a process starts. One that still runs afterwards, and has not attached, has a problem."""
LOST_AFTER_MS = 15_000
"""How long a supervisor may take to come back whose connection was lost, in milliseconds."""
_DOWN = (pb.PROCESS_STATE_KIND_WAITS, pb.PROCESS_STATE_KIND_STARTS)
_RUN_PIPELINES = (pb.PROCESS_KIND_APPLICATION, pb.PROCESS_KIND_QUERY)


@dataclass(frozen=True, slots=True)
class PipelineProcesses:
    """The problems of processes whose pipelines are not attached."""

    by_pipeline: dict[str, Problem] = field(default_factory=dict)
    """The first problem of each pipeline that is not attached, by its name."""
    failed: dict[str, Problem] = field(default_factory=dict)
    """Why the process of a pipeline has ended whose lease has not, by the name of the pipeline."""
    ends: dict[str, tuple[int, Problem]] = field(default_factory=dict)
    """How long ago the process of a pipeline ended that does not run, in milliseconds, and why, by the name of the pipeline."""
    readers: list[tuple[tuple[str, ...], Problem]] = field(default_factory=list)
    """What each process reads that is neither connected nor stopped, and its problem; no patterns if that is not known."""

    def of_pipeline(self, name: str) -> Problem | None:
        """Returns why a pipeline is not attached, if its supervisor knows; its remedy is never to forget the pipeline."""
        return self.by_pipeline.get(name)

    def of_stream(self, stream: str) -> Problem | None:
        """Returns the problem of a process that will read a stream, or may: what it reads is not always known."""
        found = (problem for reads, problem in self.readers if any(covers(pattern, stream) for pattern in reads))
        unknown = (problem for reads, problem in self.readers if not reads and problem.kind is not Kind.PIPELINE_ENDED)
        return next(found, None) or next(unknown, None)

    @property
    def down(self) -> list[Problem]:
        """The problems of processes that start, or fail; not of processes that have ended as expected."""
        return [problem for _, problem in self.readers if problem.kind is not Kind.PIPELINE_ENDED]


def pipeline_processes(status: pb.GetStatusResponse) -> PipelineProcesses:
    """Returns why pipelines of deployments are not attached."""
    attached = {pipeline.pipeline: pipeline for pipeline in status.pipelines if pipeline.state == pb.PIPELINE_STATE_ATTACHED}
    found = PipelineProcesses()
    for deployment in status.deployments:
        for process in deployment.processes:
            if process.kind not in _RUN_PIPELINES:
                continue
            if process.reason and process.state in _DOWN:
                for name in process.pipelines:
                    ended = process.reason_age_ms, _problem(f"pipeline {name}", deployment, process)
                    found.ends.setdefault(name, ended)
                for name in attached.keys() & {*process.pipelines}:
                    # One that has called since is run by another process.
                    if attached[name].idle_ms >= process.state_age_ms:
                        found.failed.setdefault(name, _problem(f"pipeline {name}", deployment, process))
            absent = [name for name in process.pipelines if name not in attached]
            for name in absent:
                found.by_pipeline.setdefault(name, _problem(f"pipeline {name}", deployment, process))
            is_connected = process.state == pb.PROCESS_STATE_KIND_RUNS
            if not is_connected and process.state != pb.PROCESS_STATE_KIND_STOPPED and (absent or not process.pipelines):
                part = f"pipeline {absent[0]}" if absent else f"process {process.name}"
                found.readers.append((tuple(process.reads), _problem(part, deployment, process)))
    for lost in status.gateway.lost_supervisors:
        if lost.lost_ms >= LOST_AFTER_MS:
            for name in lost.pipelines:
                found.by_pipeline.setdefault(name, lost_supervisor(lost).within(f"pipeline {name}"))
    return found


def lost_supervisor(supervisor: pb.LostSupervisor) -> Problem:
    """Returns the problem of a deployment whose supervisor has left without a word, or is silent."""
    cause = (
        f"its supervisor, at {supervisor.peer}, has left without a word, or is silent: "
        "it was killed, is frozen, or its network is cut"
    )
    remedy = (
        "look whether it runs, and start the deployment again if it does not: until then, nothing restarts its processes; a "
        "deployment that never comes back is forgotten an hour later"
    )
    return Problem(f"deployment {supervisor.deployment}", Kind.NOT_CONNECTED, cause, supervisor.lost_ms, remedy)


def last_warning(process: pb.ProcessState | None) -> str:
    """Returns the last warning of a process that is not connected, as the end of a cause; empty if that is not known."""
    return f": it says {process.last_warning}" if process is not None and process.last_warning else ""


def _problem(part: str, deployment: pb.DeploymentStatus, process: pb.ProcessState) -> Problem:
    """Returns why a part has no connected process, whose own connection the gateway does not see."""
    name, pid, age_ms = process.name, process.pid, process.state_age_ms
    log = f"headrace ps --log {name} shows its log"
    match process.state:
        case pb.PROCESS_STATE_KIND_ENDED:
            cause = f"its process {name} of {deployment.deployment} has ended as expected, and is not started again"
            return Problem(part, Kind.PIPELINE_ENDED, cause, age_ms, "start the deployment again to read what has come since")
        case pb.PROCESS_STATE_KIND_STOPPED:
            cause = f"its process {name} was stopped by the supervisor of {deployment.deployment}"
            return Problem(part, Kind.PIPELINE_ENDED, cause, age_ms, "start the deployment again")
        case pb.PROCESS_STATE_KIND_WAITS | pb.PROCESS_STATE_KIND_STARTS if process.reason:
            remedy = f"correct what the error names; the supervisor starts it again, and nothing is lost: {log}"
            return Problem(part, Kind.PIPELINE_FAILS, f"its process fails: {process.reason}", age_ms, remedy)
        case pb.PROCESS_STATE_KIND_WAITS:
            cause = f"its process {name} of {deployment.deployment} is about to be started"
            return Problem(part, Kind.PROCESS_STARTS, cause, age_ms, f"wait; headrace ps shows its state, and {log}")
        case pb.PROCESS_STATE_KIND_STARTS if age_ms < CONNECTS_WITHIN_MS:
            cause = f"its process {name} of {deployment.deployment} starts as process {pid}"
            return Problem(part, Kind.PROCESS_STARTS, cause, age_ms, f"wait; headrace ps shows its state, and {log}")
        case _:
            warns = last_warning(process)
            cause = f"its process {name} of {deployment.deployment} runs as process {pid}, and has not attached{warns}"
            return Problem(part, Kind.NOT_CONNECTED, cause, age_ms, f"look at what it does: {log}")
