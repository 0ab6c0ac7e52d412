"""Deployments of small shell scripts, with a gateway that says what a test wants it to."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.deploy import Ending, IsStopped, Kind, Known, Plan, ProcessStatus, Role, Status, Supervisor
from headrace.deploy.link_call import Reach
from headrace.deploy.plan import Replaying

DEADLINE_S = 300.0
"""How long a deployment of a test may take, however busy the machine is."""
SLEEPS = "exec sleep 600"
TELLS_ITS_ADDRESS = 'echo 127.0.0.1:1 > "${1:-/dev/null}"\n'
"""What a gateway does with its options at its first start, which the supervisor adds."""
LISTENS = TELLS_ITS_ADDRESS + SLEEPS


@dataclass
class Probe:
    """Sends the messages that a test gives it."""

    known: Known | None = field(default_factory=lambda: Known(connected=frozenset({"source", "app", "sink"})))

    def ask(self) -> Known | None:
        return self.known

    def close(self) -> None:
        pass


def role(name: str, kind: Kind, script: str, *, may_end: bool = False, replay: str | None = None) -> Role:
    """A process that runs a script; it is connected where the probe knows its name. Its dead letters are replayed by another."""

    def replays(_: str, source: str, refused_by: str | None) -> list[str]:
        return ["/bin/sh", "-c", replay or "", "replay", source, refused_by or ""]

    return Role(
        name,
        kind,
        what="script",
        command=lambda _: ["/bin/sh", "-c", script],
        environ=dict(os.environ),
        is_connected=lambda known: name in known.connected,
        may_end=may_end,
        settings=script,
        replaying=None if replay is None else Replaying("errors", replays, dict(os.environ)),
    )


def plan(folder: Path, gateway: str = LISTENS, **others: tuple[Kind, str]) -> Plan:
    """A deployment of a gateway and others, by name."""
    roles = [role(name, kind, script, may_end=kind is Kind.SOURCE) for name, (kind, script) in others.items()]
    return Plan("deploy.toml", folder / "run", folder, role("gateway", Kind.GATEWAY, gateway), tuple(roles))


class Watched:
    """Runs a deployment and sees every status; what a test does next hangs on what it has seen."""

    def __init__(
        self,
        planned: Plan,
        *,
        probe: Probe | None = None,
        replan: Callable[[IsStopped], Plan] | None = None,
        reach: Reach | None = None,
    ) -> None:
        self.statuses: list[Status] = []
        self.told: list[str] = []
        self._steps: list[tuple[Callable[[Status], bool], Callable[[Status], object]]] = []
        self._supervisor = Supervisor(planned, lambda _: probe or Probe(), self._see, replan, reach)

    def when(self, condition: Callable[[Status], bool], then: Callable[[Status], object]) -> "Watched":
        """Adds a step: what to do once a status meets a condition, after the steps before it."""
        self._steps.append((condition, then))
        return self

    def run(self) -> Ending:
        """Runs it until it ends; stops it, and fails, if the steps do not lead there."""
        late = threading.Event()

        def end() -> None:
            late.set()
            stop_this_process()

        # The second signal ends processes that ignore the first one.
        timers = [threading.Timer(DEADLINE_S, end), threading.Timer(1.2 * DEADLINE_S, stop_this_process)]
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            ending = self._supervisor.run(self.told.append)
        finally:
            for timer in timers:
                timer.cancel()
        assert not late.is_set(), (f"it did not end within {DEADLINE_S:.0f} s", self.told[-20:], self.statuses[-1:])
        return ending

    def states(self, name: str) -> list[str]:
        """The states that a process was seen in, in order, each once in a row."""
        seen = [process_of(status, name).state for status in self.statuses]
        return [state for number, state in enumerate(seen) if number == 0 or state != seen[number - 1]]

    def _see(self, status: Status) -> None:
        self.statuses.append(status)
        if self._steps and self._steps[0][0](status):
            _, then = self._steps.pop(0)
            then(status)


def process_of(status: Status, name: str) -> ProcessStatus:
    (process,) = (process for process in status.processes if process.name == name)
    return process


def runs(*names: str) -> Callable[[Status], bool]:
    """Whether processes are connected."""
    return lambda status: all(process_of(status, name).state == "runs" for name in names)


def stop(_: Status) -> None:
    """What SIGTERM does."""
    stop_this_process()


def stop_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def kill(name: str) -> Callable[[Status], None]:
    """SIGKILLs a process."""

    def then(status: Status) -> None:
        pid = process_of(status, name).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    return then


def notes(name: str, *, listens: bool = False) -> str:
    """A script that writes its name down when it is asked to end, once it has `begun`."""
    first = TELLS_ITS_ADDRESS if listens else ""
    return f"{first}trap 'echo {name} >> ended; kill $!; exit 0' TERM\ntouch {name}.begun\nsleep 600 &\nwait"


def begun(folder: Path, *names: str) -> Callable[[Status], bool]:
    """Whether processes are connected, and their scripts handle SIGTERM."""
    return lambda status: runs(*names)(status) and all((folder / f"{name}.begun").exists() for name in names)
