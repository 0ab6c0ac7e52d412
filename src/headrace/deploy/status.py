"""The one status of a deployment: a document whose names and types are kept stable."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a process is; in the order in which they are shown."""

    GATEWAY = "gateway"
    SOURCE = "source"
    PIPELINE = "pipeline"
    SINK = "sink"


class State(StrEnum):
    """What a process does."""

    WAITS = "waits"
    """Nothing yet: it will be started, or started again."""
    STARTS = "starts"
    """It is not connected yet."""
    RUNS = "runs"
    """It is connected."""
    RECONNECTS = "reconnects"
    """It was connected, and is no more."""
    FAILS = "fails"
    """It has failed several times in a row, and is tried again."""
    STOPS = "stops"
    """It was asked to end."""
    ENDED = "ended"
    """It has ended, and nothing is wrong with that."""
    KILLED = "killed"
    """It was asked to end, and had to be made to."""


class Condition(StrEnum):
    """How a deployment is."""

    STARTS = "starts"
    """Not all of its processes have run yet."""
    RUNS = "runs"
    """All of them run, or have come to their end."""
    DEGRADED = "degraded"
    """One of them does not."""
    STOPS = "stops"
    """They are asked to end."""
    ENDED = "ended"
    """All have ended."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process.

    Attributes:
        name: Its name.
        kind: gateway, source, pipeline or sink.
        what: Which connector, or which application.
        state: What it does.
        pid: Its id; None while there is none.
        restarts: How often it was started again.
        seconds: How long the process has run; None while there is none.
        next_start_seconds: In how many seconds it is started again; None where it is not.
        reason: Why it ended the last time; None once it has run well again.
        detail: What is to be said of what flows through it; empty for nothing.
        log: The file that has what it says.
    """

    name: str
    kind: Kind
    what: str
    state: State
    pid: int | None
    restarts: int
    seconds: float | None
    next_start_seconds: float | None
    reason: str | None
    detail: str
    log: str


@dataclass(frozen=True, slots=True)
class Status:
    """A deployment at one moment.

    Attributes:
        deployment: Its file.
        condition: How it is.
        cause: What keeps it from running, the first cause where there are several; None where nothing does.
        gateway: The gateway's address; None until it listens.
        seconds: How long it has been run.
        acknowledged: Messages acknowledged since the gateway started; None where the gateway does not say.
        rate: Of these, how many a second lately.
        lag: Messages that wait; None where the gateway does not say.
        processes: Its processes, in the order in which messages flow.
    """

    deployment: str
    condition: Condition
    cause: str | None
    gateway: str | None
    seconds: float
    acknowledged: int | None
    rate: int
    lag: int | None
    processes: Sequence[ProcessStatus]

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def condition(processes: Sequence[ProcessStatus], *, stopping: bool) -> tuple[Condition, str | None]:
    """How a deployment is whose processes are so, and the first cause where it does not run."""
    over = all(process.state in (State.ENDED, State.KILLED) for process in processes)
    if stopping or over:
        return Condition.ENDED if over else Condition.STOPS, None
    # What else does not run, waits for the gateway.
    for process in sorted(processes, key=lambda process: process.kind is not Kind.GATEWAY):
        if process.state is State.RECONNECTS:
            return Condition.DEGRADED, f"{process.name}: its connection to the gateway is lost"
        if process.state not in (State.RUNS, State.ENDED) and process.reason is not None:
            return Condition.DEGRADED, f"{process.name}: {process.reason}"
    if all(process.state in (State.RUNS, State.ENDED) for process in processes):
        return Condition.RUNS, None
    return Condition.STARTS, None
