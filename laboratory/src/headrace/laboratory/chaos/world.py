"""All processes of a chaos run, in one folder: two sources, a gateway, a Spark driver with two queries, two sinks."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.laboratory.chaos.evidence import IDEMPOTENT, SINKS, TWO_PHASE, Layout, last_commit
from headrace.laboratory.chaos.observer import Observer
from headrace.laboratory.chaos.schedule import Role
from headrace.laboratory.chaos.validator import Finding, verdict
from headrace.laboratory.chaos.workload import REDELIVERING, REPLAYABLE
from headrace.laboratory.errors import ChaosError
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, Scratch, executors, headrace, spark_environ


@dataclass(frozen=True)
class Site:
    """Where the processes of a world run.

    Attributes:
        submit: The command that submits the driver's program to a cluster, `spark-submit --master URL`; empty for a Python
            process that starts Spark itself.
        host: The address that the gateway listens on.
        enter: The prefix of the command lines of gateway, sources and sinks that runs them on the host of this address,
            such as `ip netns exec NAME`; empty for this machine.
    """

    submit: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    enter: tuple[str, ...] = ()

    def free_address(self) -> str:
        """Returns a free address for a gateway that is restarted."""
        # A port that is free here is most likely free on another host too.
        port = free_address().rpartition(":")[2]
        return f"{self.host}:{port}"


DEADLINE_S = 240.0
_LOOKS_EVERY_S = 0.01
_CONFIG = "".join(
    f'[[streams]]\npattern = "{source}/*"\npipelines = {list(SINKS)}\n'.replace("'", '"') for source in (REPLAYABLE, REDELIVERING)
)
"""Several queries read each stream, so the gateway's configuration must name them: the gateway stores nothing."""
_LIMITS = "[limits]\nsession_messages = 2000\n"
"""Low enough for sources to reach the limit."""
_QUERY = Path(__file__).with_name("query.py")


class World:
    """Processes that are killed and restarted, and their files.

    The executor role is a Spark executor's JVM if the master is a cluster, and one of Spark's Python workers if it is local.
    Spark itself restarts them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        master: str = "local[2,4]",
        environ: Mapping[str, str] | None = None,
        instances: int = 1,
        site: Site | None = None,
    ) -> None:
        """Creates the folder. Starts nothing.

        Args:
            folder: A new folder for all files.
            master: Spark master URL.
            environ: Variables to add to the environment of every process.
            instances: The number of instances of each sink. They are killed in turn.
            site: Where the processes run; None for this machine. If it submits the driver to a cluster, `master` is ignored, and
                the owner of that cluster kills its executors.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.absolute()
        self.layout = Layout(self.folder)
        self.offered = 0
        # The scratch folder holds sockets, whose paths must be short, and what a killed JVM leaves behind.
        self._scratch = Scratch()
        self._site = site or Site()
        self._address, self._http = self._site.free_address(), self._site.free_address()
        self._is_cluster = master.startswith("local-cluster")
        scratch = self._scratch.path
        self._environ = {**spark_environ(scratch), "SPARK_WORKER_DIR": str(scratch / "work"), **(environ or {})}
        self._master = master
        self._instances = instances
        self._processes = {
            role: [self._process(role, number, command) for number, command in enumerate(commands, 1)]
            for role, commands in self._commands(master, instances).items()
        }
        self._turns = dict.fromkeys(self._processes, 0)
        self._ends: dict[Role, int] = {}
        self._replaced: list[OwnedProcess] = []
        """Drivers that were replaced and have not ended yet."""
        self._observer = Observer(self.layout)
        self._write_offered()

    def start(self, deadline_s: float = DEADLINE_S) -> None:
        """Starts everything, and waits until both queries have run a batch."""
        (self.folder / "gateway.toml").write_text(_LIMITS + _CONFIG)
        for role in self._processes:
            self.restart(role)
        self._observer.start()
        self.wait_for(
            "both queries have run a batch",
            lambda: all(last_commit(self.layout.checkpoint(sink)) is not None for sink in SINKS),
            deadline_s,
        )

    def dispose(self) -> None:
        """Kills all processes, and keeps the folder."""
        self._observer.stop()
        # A second Ctrl-C has no effect until all of them are gone.
        signals = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        everything = [process for processes in self._processes.values() for process in processes] + self._replaced
        for process in everything:
            process.send_kill()
        for process in everything:
            process.kill()
        self._scratch.remove()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    @property
    def gateway(self) -> str:
        """The gateway's address."""
        return self._address

    @property
    def http(self) -> str:
        """The address of its HTTP server, which only a gateway on this machine has."""
        return self._http

    # Its processes

    def pid(self, role: Role) -> int | None:
        """Returns the id of the role's process that is killed next, or of any executor; None if it is not running."""
        if role == Role.EXECUTOR:
            return next(iter(executors(self._processes[Role.DRIVER][0].pid, self._is_cluster)), None)
        self.alive(role)
        process = self._next(role)
        return process.pid if process.runs else None

    def alive(self, role: Role) -> bool:
        """Whether all processes of the role are running; at least one for executors."""
        if role == Role.EXECUTOR:
            return self.pid(role) is not None
        for process in self._processes[role]:
            code = process.exit_code()
            if code is not None:
                self._ends[role] = code
        return all(process.runs for process in self._processes[role])

    def ended(self, role: Role) -> bool:
        """Whether the role's process has ended since its last start, other than by `kill`."""
        return not self.alive(role) and (role == Role.EXECUTOR or role in self._ends)

    def kill(self, role: Role) -> int | None:
        """Kills a role's process with all its descendants; returns its id, None if it was not running."""
        pid = self.pid(role)
        if role != Role.EXECUTOR:
            self._next(role).kill()
            self._turns[role] += 1
        elif pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid

    def restart(self, role: Role) -> None:
        """Restarts a role's process immediately. Spark itself restarts executors."""
        if role == Role.EXECUTOR:
            return
        processes = self._processes[role]
        for process in processes:
            if len(processes) == 1 or not process.runs:
                process.kill()
                process.start()
        self._ends.pop(role, None)
        if role == Role.DRIVER:
            self.layout.driver.write_text(str(processes[0].pid))

    def replace_driver(self, *, pausing: bool = False) -> int | None:
        """Starts another driver on the same checkpoints while the present one runs. Returns the id of the present one, if any.

        Args:
            pausing: Whether to pause the present one until `wake` is called.
        """
        if not self.alive(Role.DRIVER):
            self.restart(Role.DRIVER)
            return None
        (before,) = self._processes[Role.DRIVER]
        if pausing:
            before.signal(signal.SIGSTOP)
        self._replaced.append(before)
        (command,) = self._commands(self._master, self._instances)[Role.DRIVER]
        self._processes[Role.DRIVER] = [self._process(Role.DRIVER, 1, command)]
        self.restart(Role.DRIVER)
        return before.pid

    def wake(self) -> None:
        """Resumes paused drivers."""
        for process in self._replaced:
            process.signal(signal.SIGCONT)

    def is_alone(self) -> bool:
        """Whether every replaced driver has ended."""
        self._replaced = [process for process in self._replaced if process.exit_code() is None]
        return not self._replaced

    def _next(self, role: Role) -> OwnedProcess:
        """Returns the role's process that is killed next."""
        return self._processes[role][self._turns[role] % len(self._processes[role])]

    # Its progress

    def offer(self, messages: int) -> None:
        """Makes each of the eleven senders send this many more messages."""
        self.offered += messages
        self._write_offered()

    def progress(self, sink: str | None = None) -> int:
        """Returns the number of messages visible in a sink, or in both together, without duplicates."""
        return sum(self._observer.visible(one) for one in ((sink,) if sink else SINKS))

    def lag(self) -> int:
        """Returns the largest number of messages of one sender that are not yet visible in both sinks."""
        return self.offered - self._observer.lowest()

    def is_at_rest(self) -> bool:
        """Whether everything that was offered is visible in both sinks, and acknowledged."""
        return self._observer.is_at_rest(self.offered)

    def is_acknowledged(self) -> bool:
        """Whether everything that was offered is acknowledged, so that the commit log of every query contains it."""
        return self._observer.is_acknowledged(self.offered)

    def rest(self, deadline_s: float = DEADLINE_S) -> None:
        """Waits until everything that was offered is visible in both sinks, and acknowledged."""
        self.wait_for("everything is visible and acknowledged", self.is_at_rest, deadline_s)

    def wait_for(self, what: str, condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Waits until a condition is true.

        Raises:
            ChaosError: It is not true by the deadline, or a process has ended other than by SIGKILL.
        """
        deadline = time.monotonic() + deadline_s
        while not condition():
            gone = [f"{role} ended by itself with {self._ends[role]}" for role in self._processes if self._has_failed(role)]
            if gone or time.monotonic() > deadline:
                raise ChaosError(f"{what}: {', '.join(gone) or f'not within {deadline_s:.0f} s'}\n{self.describe()}")
            time.sleep(_LOOKS_EVERY_S)

    def verdict(self) -> list[Finding]:
        """Returns the violations, assuming that everything offered is visible by now."""
        self._observer.look()
        return verdict(self.folder, self.offered)

    def describe(self) -> str:
        """Returns the progress, and the last lines of each process's log."""
        commits = {sink: last_commit(self.layout.checkpoint(sink)) for sink in SINKS}
        lines = [f"offered {self.offered} each, {self._observer.describe()}, last batches committed {commits}"]
        for role, processes in self._processes.items():
            lines += [f"=== {role} ({'alive' if self.alive(role) else 'ended'})"]
            lines += [line for process in processes for line in process.tail()]
        return "\n".join(lines)

    def _has_failed(self, role: Role) -> bool:
        return self.ended(role) and self._ends[role] != -signal.SIGKILL

    def _write_offered(self) -> None:
        """Writes the file atomically, so that no reader sees half of it."""
        temporary = self.folder / "offered.new"
        temporary.write_text(str(self.offered))
        temporary.replace(self.layout.offered)

    def _process(self, role: Role, number: int, command: list[str]) -> OwnedProcess:
        environ = {**self._environ, "HEADRACE_CHAOS_ROLE": role, "PYTHONUNBUFFERED": "1"}
        enter = () if role == Role.DRIVER else self._site.enter
        return OwnedProcess(_name(role, number), [*enter, *command], self.folder, environ)

    def _commands(self, master: str, instances: int) -> dict[Role, list[list[str]]]:
        folder, gateway = str(self.folder), ("--gateway", self._address)
        config = str(self.folder / "gateway.toml")
        here = self._site.host == "127.0.0.1"
        listen = ["--listen", self._address, *(["--http-listen", self._http] if here else ["--insecure"])]
        sink = [*headrace("connector", "run", "file-sink"), "--sink", TWO_PHASE, "--format", "length-prefixed"]
        sink += ["--rotate-bytes", "200000"]
        submit = [*self._site.submit, str(_QUERY)] if self._site.submit else [*_python("query"), "--master", master]
        numbers = range(1, instances + 1)
        return {
            # Spark takes longest to start.
            Role.DRIVER: [[*submit, folder, *gateway]],
            Role.GATEWAY: [headrace("gateway", *listen, "--config", config, "--log-level", "warning")],
            Role.REPLAYABLE: [[*_python("senders"), REPLAYABLE, folder, *gateway]],
            Role.REDELIVERING: [[*_python("senders"), REDELIVERING, folder, *gateway]],
            Role.TWO_PHASE: [
                [*sink, "--path", str(self.layout.output_of(n)), "--instance", _name(TWO_PHASE, n), *gateway] for n in numbers
            ],
            Role.IDEMPOTENT: [[*_python("sinks"), folder, *gateway, "--instance", _name(IDEMPOTENT, n)] for n in numbers],
        }


def _python(module: str) -> list[str]:
    """Returns the command line of a program of this package."""
    return [sys.executable, "-m", f"headrace.laboratory.chaos.{module}"]


def _name(role: str, number: int) -> str:
    """Returns the name of an instance of a role, counted from 1."""
    return role if number == 1 else f"{role}-{number}"
