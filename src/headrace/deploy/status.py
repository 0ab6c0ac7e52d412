"""The status of a deployment: a document with stable names and types."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kinds of processes, in display order."""

    GATEWAY = "gateway"
    SOURCE = "source"
    PIPELINE = "pipeline"
    QUERY = "query"
    SINK = "sink"


class State(StrEnum):
    """The state of a process."""

    WAITS = "waits"
    """It will be started or restarted."""
    STARTS = "starts"
    """It is running, but not connected yet."""
    RUNS = "runs"
    """It is connected."""
    RECONNECTS = "reconnects"
    """It is running, but no longer connected."""
    FAILS = "fails"
    """It has failed several times in a row, and will be restarted."""
    STOPS = "stops"
    """It was told to stop."""
    ENDED = "ended"
    """It has ended as expected."""
    KILLED = "killed"
    """It was told to stop, and had to be killed."""


class Condition(StrEnum):
    """The condition of a deployment."""

    STARTS = "starts"
    """Not all of its processes have run yet."""
    RUNS = "runs"
    """All of them run, or have ended."""
    DEGRADED = "degraded"
    """At least one of them does not run."""
    STOPS = "stops"
    """They were told to stop."""
    ENDED = "ended"
    """All have ended."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process.

    Attributes:
        name: Its name.
        kind: gateway, source, pipeline, query or sink.
        what: Which connector, or which application.
        state: Its state.
        pid: Its process id; None while it is not running.
        restarts: Number of restarts.
        uptime_s: How long it has been running, in seconds; None while it is not.
        next_start_s: Seconds until it is restarted; None if it will not be.
        reason: Why it last ended; None once it has been stable again.
        detail: Its throughput or its problem; empty for nothing.
        log: Its log file.
    """

    name: str
    kind: Kind
    what: str
    state: State
    pid: int | None
    restarts: int
    uptime_s: float | None
    next_start_s: float | None
    reason: str | None
    detail: str
    log: str


@dataclass(frozen=True, slots=True)
class Status:
    """A deployment at one moment.

    Attributes:
        deployment: Its file.
        condition: Its condition.
        cause: What keeps it from running, the first cause if there are several; None if nothing does.
        gateway: The gateway's address; None until it listens.
        uptime_s: Seconds since the deployment started.
        acknowledged: Messages acknowledged since the gateway started; None if the gateway does not report it.
        rate: Recently acknowledged messages per second.
        lag: Messages not yet processed; None if the gateway does not report it.
        processes: Its processes, in the order in which messages flow.
    """

    deployment: str
    condition: Condition
    cause: str | None
    gateway: str | None
    uptime_s: float
    acknowledged: int | None
    rate: int
    lag: int | None
    processes: Sequence[ProcessStatus]

    def document(self) -> dict[str, Any]:
        """Returns the status as plain data, ready for JSON."""
        return asdict(self)


def condition(processes: Sequence[ProcessStatus], *, stopping: bool) -> tuple[Condition, str | None]:
    """Derives the condition of a deployment from its processes, and the first cause if it does not run."""
    over = all(process.state in (State.ENDED, State.KILLED) for process in processes)
    if stopping or over:
        return Condition.ENDED if over else Condition.STOPS, None
    # The gateway first: without it, no other process can run.
    for process in sorted(processes, key=lambda process: process.kind is not Kind.GATEWAY):
        if process.state is State.RECONNECTS:
            return Condition.DEGRADED, f"{process.name}: its connection to the gateway is lost"
        if process.state not in (State.RUNS, State.ENDED) and process.reason is not None:
            return Condition.DEGRADED, f"{process.name}: {process.reason}"
    if all(process.state in (State.RUNS, State.ENDED) for process in processes):
        return Condition.RUNS, None
    return Condition.STARTS, None
