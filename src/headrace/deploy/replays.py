"""Replays of dead letters on request: a process for each, answered once all of it is acknowledged."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.deploy.control import refusal
from headrace.deploy.process import end_of
from headrace.deploy.processes import SupervisedProcesses
from headrace.processes import OwnedProcess


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay.

    Attributes:
        source: The source under whose name the messages are sent.
        refused_by: Only what this sink or step has refused; None for all.
    """

    source: str
    refused_by: str | None


class ReplayRequest(Protocol):
    """A request, which waits for its answer."""

    @property
    def name(self) -> str:
        """The connector that has written the dead letters."""

    @property
    def replay(self) -> Replay | None:
        """What to replay."""

    @property
    def by(self) -> str:
        """Who requests it."""

    @property
    def is_open(self) -> bool:
        """Whether it still waits."""

    def answer(self, document: Mapping[str, Any]) -> None:
        """Answers it. Does not wait for whoever has made it."""


class ReplayRequests(Protocol):
    """Where requests arrive."""

    def replays(self) -> Sequence[ReplayRequest]:
        """The requests that have arrived since the last call."""


@dataclass(slots=True)
class _Running:
    """A replay in progress, and who waits for it. It continues if nobody does."""

    replay: Replay
    process: OwnedProcess
    since: float
    waiting: list[ReplayRequest] = field(default_factory=list)


class Replays:
    """Carries out the requests that arrive, and logs each with who made it. One replay runs for each connector at a time."""

    def __init__(self, arriving: ReplayRequests, processes: SupervisedProcesses, tell: Callable[[str], None]) -> None:
        """Takes where requests arrive, the processes of the deployment, and what is called with lines for people."""
        self._arriving = arriving
        self._processes = processes
        self._tell = tell
        self._running: dict[str, _Running] = {}

    def look(self) -> None:
        """Begins what is requested, and answers what is done. An equal request joins the replay in progress."""
        for request in self._arriving.replays():
            assert request.replay is not None
            what = f"replay of what {request.name} has written, as source {request.replay.source}, by {request.by}"
            refused = self._begin(request, request.replay)
            if refused is None:
                self._tell(f"change made: {what}")
            else:
                self._tell(f"change refused: {what}: {refused['error']}")
                request.answer(refused)
        for name, running in list(self._running.items()):
            code = running.process.exit_code()
            if code is not None:
                del self._running[name]
                self._answer(name, running, code)

    def ask_to_stop(self) -> None:
        """Lets the processes end, since the deployment is stopping, and refuses what is requested."""
        self.refuse()
        for running in self._running.values():
            for request in running.waiting:
                request.answer(
                    refusal("the deployment is stopping; the next replay continues after what is committed", is_done=True)
                )
            running.waiting = []
            running.process.ask_to_stop()

    def refuse(self) -> None:
        """Refuses what is requested, since the deployment is stopping."""
        for request in self._arriving.replays():
            request.answer(refusal("the deployment is stopping"))

    @property
    def runs(self) -> bool:
        """Whether a replay is in progress."""
        return any(running.process.exit_code() is None for running in self._running.values() if running.process.runs)

    def close(self) -> None:
        """Kills the processes that are left. The next replay sends again all that they have sent without a commit."""
        for running in self._running.values():
            running.process.kill()

    def _begin(self, request: ReplayRequest, replay: Replay) -> dict[str, Any] | None:
        """Begins or joins a replay; returns the answer if that cannot be."""
        running = self._running.get(request.name)
        if running is None:
            try:
                process = self._processes.replay(request.name, replay.source, replay.refused_by)
                if process is None:
                    said = f"the deployment has no connector {request.name} whose dead letters it can replay"
                    return refusal(said, invalid=True)
                process.start()
            except OSError as error:
                return refusal(f"the replay cannot be started: {error}")
            running = self._running[request.name] = _Running(replay, process, time.monotonic())
        elif running.replay != replay:
            return refusal(f"a replay of what {request.name} has written is in progress, as source {running.replay.source}")
        running.waiting = [*(one for one in running.waiting if one.is_open), request]
        return None

    def _answer(self, name: str, running: _Running, code: int) -> None:
        seconds = time.monotonic() - running.since
        source, process = running.replay.source, running.process
        if code == 0:
            self._tell(f"what {name} has written is replayed as source {source}, and acknowledged ({seconds:.1f} s)")
            answer = {"ok": True, "result": {"pid": process.pid, "duration_ms": round(seconds * 1000)}}
        else:
            said = f"the replay of what {name} has written {end_of(process, self._processes.disk, 0, code)} (log: {process.log})"
            self._tell(said)
            answer = refusal(said, is_done=True)
        for request in running.waiting:
            request.answer(answer)
