"""The supervised processes of a deployment: when each starts, and their status."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from headrace.contract.names import SUPERVISOR, nearest
from headrace.deploy.comfort import Comfort
from headrace.deploy.commands import reachable
from headrace.deploy.errors import CannotChange, CannotRestart
from headrace.deploy.gateway import GatewayProbe, Known, ReadyFile
from headrace.deploy.log_pipes import LogFault, LogPipes
from headrace.deploy.patient_disk import PatientDisk
from headrace.deploy.plan import Listed, Plan, Role
from headrace.deploy.process import SupervisedProcess
from headrace.deploy.status import Kind, ProcessStatus, State, Status, condition
from headrace.deploy.supervisor_log import SupervisorLog
from headrace.processes import Orphans, OwnedProcess

_ASK_EVERY_S = 1.0
_RATE_OVER = 10

Connect = Callable[[str], GatewayProbe]
Pids = Callable[[], Mapping[str, int] | None]
"""Returns the process ids of the connected processes, by name; None if that is not known."""


class SupervisedProcesses:
    """All processes of a deployment. The gateway starts first, the others once it listens."""

    def __init__(
        self,
        plan: Plan,
        connect: Connect,
        inherits: tuple[int, ...],
        comfort: Comfort,
        log: SupervisorLog,
        disk: PatientDisk,
        pids: Pids = lambda: None,
    ) -> None:
        """Starts nothing yet.

        Args:
            plan: The processes.
            connect: Returns a probe of the gateway at an address.
            inherits: File descriptors that every process inherits.
            comfort: Does what the processes do not depend on.
            log: The log of the supervisor itself, which is written beside theirs.
            disk: The disk of the logs.
            pids: Returns what the gateway tells to whoever may not read its status.

        Raises:
            CannotStart: The system lacks what the gateway needs to tell its address.
        """
        self.disk = disk
        self._comfort = comfort
        self._plan = plan
        self._inherits = inherits
        self._connect = connect
        self._pids = pids
        self._ready_file = ReadyFile()
        self._pipes = LogPipes(comfort, to_stderr=plan.logs_to_stderr)
        self._log = log
        self._orphans = Orphans()
        self.gateway = self._supervised(plan.gateway, [*plan.gateway.command(None), *self._ready_file.options])
        self.gateway.process.inherits += (self._ready_file.descriptor,)
        self._others = [self._supervised(role, []) for role in plan.others]
        self._address: str | None = None
        self._probe: GatewayProbe | None = None
        self._known: Known | None = None
        self._last: Known | None = None
        self._counts: deque[tuple[float, int]] = deque(maxlen=_RATE_OVER)
        self._began = time.monotonic()
        self._asked_at = self._began - _ASK_EVERY_S

    @property
    def all(self) -> list[SupervisedProcess]:
        """Every process, in the order in which messages flow."""
        return sorted((self.gateway, *self._others), key=lambda one: list(Kind).index(one.role.kind))

    @property
    def log_faults(self) -> Mapping[str, LogFault]:
        """Why logs cannot be written, by the names of their processes."""
        return self._pipes.faults

    def of(self, kind: Kind) -> list[SupervisedProcess]:
        """The processes of a kind."""
        return [one for one in self.all if one.role.kind is kind]

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come: all applications and Spark programs have ended, or all sources have."""
        groups = ([*self.of(Kind.PIPELINE), *self.of(Kind.QUERY)], self.of(Kind.SOURCE))
        return any(group and all(one.state is State.ENDED for one in group) for group in groups)

    def start_due(self) -> None:
        """Starts every process that is due."""
        now = time.monotonic()
        self.gateway.start_if_due(now)
        if self._address is not None:
            for one in self._others:
                one.start_if_due(now)

    def start_again(self) -> None:
        """Starts every process that has run before, is due, and was not told to stop."""
        now = time.monotonic()
        for one in self.all:
            if one.process.pids and not (one.was_stopped or one.cannot_run):
                one.start_if_due(now)

    def look(self) -> None:
        """Updates the state of every process, and asks the gateway once a second."""
        now = time.monotonic()
        self._pipes.look()
        self._pass_on_log()
        self._comfort.do("wait for processes that others have left", partial(self._orphans.look, now), None)
        self._comfort.do("find the gateway", self._find_gateway, None)
        if now - self._asked_at >= _ASK_EVERY_S:
            self._ask(now)
        self._look(self.gateway, now, self._known is not None)
        if not self.gateway.process.runs:
            self._known = None
        for one in self._others:
            self._look(one, now, self._is_connected(one))
        gone = [one for one in self._others if one.leaves and not one.process.runs]
        self._others = [one for one in self._others if one not in gone]
        for one in gone:
            self._comfort.do(f"end the log of {one.role.name}", partial(self._pipes.leave, one.role.name), None)

    @property
    def address(self) -> str | None:
        """The gateway's address; None until it listens."""
        return self._address

    @property
    def connectors(self) -> dict[str, Listed]:
        """The description of each connector for the gateway, by its name."""
        return {one.role.name: _listed(one) for kind in (Kind.SOURCE, Kind.SINK) for one in self.of(kind) if not one.leaves}

    def replay(self, name: str, source: str, refused_by: str | None) -> OwnedProcess | None:
        """Returns a process that replays the dead letters of a connector, not started.

        None if there is no such connector, its dead letters cannot be replayed, or the gateway does not listen yet.

        Raises:
            OSError: The log of its last replay cannot be removed.
        """
        roles = (one.role for one in self._others if one.role.name == name and not one.leaves)
        replaying = next((role.replaying for role in roles), None)
        if replaying is None or self._address is None:
            return None
        # No connector has such a name.
        process = self._owned(
            f"{name}~replay", replaying.command(self._address, source, refused_by), replaying.environ, replaying.inherits
        )
        self.disk.ask(partial(process.log.unlink, missing_ok=True))
        return process

    def named(self, name: str) -> SupervisedProcess:
        """Returns a process to be restarted: of a connector, an application or a Spark program.

        Raises:
            CannotRestart: There is no such process, it has reached its end, or it is the gateway.
        """
        if name == self.gateway.role.name:
            raise CannotRestart(
                f"{name} is not restarted alone: end its process, which headrace ps --json shows, with SIGTERM; its supervisor "
                "starts it again, all others reconnect, and nothing is lost. For another [gateway], restart the deployment",
                2,
            )
        others = {one.role.name: one for one in self.all if one is not self.gateway and not one.leaves}
        if name not in others:
            has = f"it has {', '.join(others)}" if others else "it has none"
            raise CannotRestart(f"the deployment has no process {name}; {has}{nearest(name, others)}", 2)
        if others[name].state is State.ENDED:
            raise CannotRestart(f"{name} has reached its end, and is not started again as long as the deployment runs", 1)
        return others[name]

    def apply(self, plan: Plan) -> list[str]:
        """Applies another plan by difference: starts what is new, stops what is gone, restarts what has changed.

        Returns the changes, a line each.

        Raises:
            CannotChange: the gateway or the folder has changed, which needs a restart of the whole deployment.
        """
        fixed = {"[gateway]": plan.gateway.settings != self._plan.gateway.settings, "folder": plan.folder != self._plan.folder}
        for what, changed in fixed.items():
            if changed:
                raise CannotChange(f"{what} cannot change while the deployment runs, so nothing has changed; restart it for that")
        known = {one.role.name: one for one in self._others if not one.leaves}
        wanted = {role.name: role for role in plan.others}
        changes = []
        for name, one in known.items():
            role = wanted.get(name)
            if role is None:
                one.leave()
                changes.append(f"{name} is removed")
            elif role.settings != one.role.settings or role.kind is not one.role.kind:
                one.role, one.process.environ = role, role.environ
                one.process.inherits = (*self._inherits, *role.inherits)
                one.process.command = self._command(role)
                one.restart(time.monotonic())
                changes.append(f"{name} is restarted")
        for name in wanted.keys() - known.keys():
            self._others.append(self._supervised(wanted[name], self._command(wanted[name])))
            changes.append(f"{name} is new")
        self._plan = plan
        return sorted(changes)

    def _command(self, role: Role) -> list[str]:
        """The command line of a process; empty until the gateway listens."""
        return role.command(self._address) if self._address is not None else []

    def status(self, *, stopping: bool) -> Status:
        """Returns the status of the deployment."""
        now = time.monotonic()
        processes = [self._status_of(one, now) for one in self.all]
        how, cause = condition(processes, stopping=stopping)
        last = self._last
        return Status(
            deployment=self._plan.name,
            condition=how,
            cause=cause,
            gateway=self._address,
            uptime_s=round(now - self._began, 1),
            acknowledged=last.acknowledged if last is not None else None,
            rate=self._rate(),
            lag=last.lag if last is not None else None,
            processes=processes,
        )

    def close(self) -> None:
        """Kills the processes that are left, and closes the probe."""
        for one in self.all:
            self._comfort.do(f"kill {one.role.name}", one.process.kill, None)
        if self._probe is not None:
            self._probe.close()
        self._pass_on_log()
        self._comfort.do("end the log writer", self._pipes.close, None)
        self._log.close()
        self._ready_file.close()

    def _supervised(self, role: Role, command: list[str]) -> SupervisedProcess:
        return SupervisedProcess(role, self._owned(role.name, command, role.environ, role.inherits), self.disk)

    def _owned(self, name: str, command: list[str], environ: Mapping[str, str], inherits: tuple[int, ...]) -> OwnedProcess:
        return OwnedProcess(
            name,
            command,
            self._plan.folder,
            environ,
            cwd=self._plan.cwd,
            ends_with_parent=True,
            begins_apart=True,
            inherits=(*self._inherits, *inherits),
            output=self._pipes,
        )

    def _pass_on_log(self) -> None:
        """Passes on the lines of the supervisor to its log."""
        flush = partial(self._log.flush, partial(self._pipes.open_own, SUPERVISOR, self._plan.log))
        self._comfort.do("write the log of the supervisor", flush, None)

    def _find_gateway(self) -> None:
        """Reads the gateway's address once it listens. Later starts of the gateway reuse it."""
        if self._address is None and (listens := self._ready_file.address()) is not None:
            self._address = reachable(listens)
            self._probe = self._connect(self._address)
            self.gateway.process.command = self._plan.gateway.command(listens)
            for one in self._others:
                one.process.command = one.role.command(self._address)

    def _ask(self, now: float) -> None:
        self._asked_at = now
        known = self._probe.ask if self._probe is not None and self.gateway.process.runs else lambda: None
        self._known = self._comfort.do("ask the gateway", known, None)
        if self._known is not None and self._known.permitted:
            self._last = self._known
            self._counts.append((now, self._known.acknowledged))

    def _look(self, one: SupervisedProcess, now: float, connected: bool | None) -> None:
        """Looks at a process. That of another one does not depend on it."""
        self._comfort.do(f"look at {one.role.name}", lambda: one.look(now, connected), None)

    def _is_connected(self, one: SupervisedProcess) -> bool | None:
        # An older answer is about the previous start.
        known = self._known if self._asked_at >= one.started_at else None
        if known is not None and not known.permitted:
            pids = self._pids()
            if pids is None or not (one.role.serves or one.role.pipelines):
                return None
            # Its report of the previous start does not count.
            return one.process.runs and pids.get(one.role.name) == one.process.pid
        # A driver that was killed stays attached until its lease ends.
        return one.role.is_connected((known or Known()).within(self._asked_at - one.started_at))

    def _rate(self) -> int:
        """The recent rate of acknowledged messages per second; a restarted gateway counts from zero."""
        if len(self._counts) < 2:
            return 0
        (began, before), (ended, after) = self._counts[0], self._counts[-1]
        return round(max(0, after - before) / (ended - began))

    def _status_of(self, one: SupervisedProcess, now: float) -> ProcessStatus:
        runs = one.process.runs
        waits = one.state in (State.WAITS, State.FAILS) and not runs and one.reason is not None and not one.cannot_run
        return ProcessStatus(
            name=one.role.name,
            kind=one.role.kind,
            what=one.role.what,
            state=one.state,
            pid=one.process.pid if runs else None,
            restarts=one.restarts,
            uptime_s=round(now - one.started_at, 1) if runs else None,
            next_start_s=round(max(0.0, one.due_at - now), 1) if waits else None,
            reason=one.reason,
            detail=one.role.detail(self._known) if self._known is not None else "",
            log=str(one.process.log),
        )


def _listed(one: SupervisedProcess) -> Listed:
    """Returns the description of a connector for the gateway."""
    role = one.role
    return Listed(
        instance=role.instance or role.name,
        replays=role.replaying.sink if role.replaying is not None else "",
        source=role.serves if role.kind is Kind.SOURCE else "",
        sink=role.serves if role.kind is Kind.SINK else "",
        failure=one.failure,
    )
