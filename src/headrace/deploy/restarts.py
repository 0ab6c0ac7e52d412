"""Restarts of processes on request, each answered once it is known how it has ended."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.deploy.backoff import STABLE_S
from headrace.deploy.control import refusal
from headrace.deploy.errors import CannotRestart
from headrace.deploy.process import SupervisedProcess
from headrace.deploy.processes import SupervisedProcesses
from headrace.deploy.status import Kind, State

ANSWER_WITHIN_S = 300.0
"""A request is answered after this time at the latest, even if the process is not connected then."""


class Request(Protocol):
    """A request, which waits for its answer."""

    @property
    def name(self) -> str:
        """The process to restart."""

    @property
    def by(self) -> str:
        """Who requests it."""

    @property
    def is_open(self) -> bool:
        """Whether it still waits."""

    def is_checked(self, one: SupervisedProcess) -> bool:
        """Returns whether whoever takes the answer checks that it is connected."""

    def answer(self, document: Mapping[str, Any]) -> None:
        """Answers it. Does not wait for whoever has made it."""


class Requests(Protocol):
    """Where requests arrive."""

    def requests(self) -> Sequence[Request]:
        """The requests that have arrived since the last call."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A restart that is not known to have ended.

    Attributes:
        request: The request.
        one: The process.
        since: When it was requested.
        pid: Its process id then; None if it was not running.
        starts: How often it had been started.
    """

    request: Request
    one: SupervisedProcess
    since: float
    pid: int | None
    starts: int


class Restarts:
    """Carries out the requests that arrive, and logs each with who made it."""

    def __init__(self, arriving: Sequence[Requests], processes: SupervisedProcesses, tell: Callable[[str], None]) -> None:
        """Takes where requests arrive, the processes of the deployment, and what is called with lines for people."""
        self._arriving = arriving
        self._processes = processes
        self._tell = tell
        self._pending: list[_Pending] = []

    def look(self) -> None:
        """Begins what is requested, and answers what is done. A second request for the same process joins the first."""
        now = time.monotonic()
        for request in self._arrived():
            try:
                one = self._processes.named(request.name)
                pending = _Pending(request, one, now, one.process.pid if one.process.runs else None, len(one.process.pids))
                one.restart(now)
            except CannotRestart as error:
                self._tell(f"change refused: restart of {request.name}, by {request.by}: {error}")
                request.answer(refusal(str(error), invalid=error.exit_code == 2))
            else:
                self._tell(f"change made: restart of {request.name}, by {request.by}")
                self._pending.append(pending)
        for pending in self._pending:
            answer = _answer(pending, now)
            if answer is not None:
                pending.request.answer(answer)
        self._pending = [pending for pending in self._pending if pending.request.is_open]

    def refuse(self) -> None:
        """Answers all requests, since the deployment is stopping."""
        for request in (*(pending.request for pending in self._pending), *self._arrived()):
            request.answer(refusal("the deployment is stopping"))
        self._pending = []

    def _arrived(self) -> list[Request]:
        return [request for each in self._arriving for request in each.requests()]


def _answer(pending: _Pending, now: float) -> dict[str, Any] | None:
    """Returns the answer to a restart; None while it is under way."""
    one = pending.one
    name, duration_ms = one.role.name, round((now - pending.since) * 1000)
    if one.leaves:
        return refusal(f"{name} was removed from the deployment in the meantime", is_done=True)
    started = len(one.process.pids) > pending.starts
    # Nobody can tell of a program that names no pipelines.
    is_untold = one.role.kind is Kind.QUERY and not one.role.pipelines
    is_connected = one.state is State.RUNS and (one.has_session or is_untold or pending.request.is_checked(one))
    if started and (is_connected or one.state is State.ENDED):
        process = {"pid": one.process.pid, "stopped_pid": pending.pid, "stopped_exit_code": one.stopped_with}
        return {"ok": True, "result": {"name": name, "state": str(one.state), **process, "duration_ms": duration_ms}}
    if started and one.reason is not None:
        return refusal(f"{name} was restarted, and has failed: {one.reason} (log: {one.process.log})", is_done=True)
    if started and one.state is State.RUNS and now - one.started_at >= STABLE_S:
        text = (
            f"{name} was restarted and runs as process {one.process.pid}, and it is not known whether it is connected: give the "
        )
        return refusal(
            f"{text}token of the supervisor the right admin, or restart it with headrace restart --gateway", is_done=True
        )
    if now - pending.since > ANSWER_WITHIN_S:
        lacks = "not connected to the gateway" if started else "not been started again"
        return refusal(f"{name} has {lacks} after {now - pending.since:.0f} s (log: {one.process.log})", is_done=True)
    return None
