"""Starts the processes of a deployment, restarts them, and stops them in an order that lets each finish."""

import contextlib
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from headrace.contract.errors import HeadraceError
from headrace.deploy.comfort import Comfort, regardless
from headrace.deploy.control import ControlSocket
from headrace.deploy.errors import CannotRun, Stopped
from headrace.deploy.file_watch import Check, FileWatch
from headrace.deploy.link import GatewayLink
from headrace.deploy.link_call import Reach
from headrace.deploy.lock import exclusive_run
from headrace.deploy.patient_disk import PatientDisk
from headrace.deploy.plan import Plan
from headrace.deploy.process import SupervisedProcess
from headrace.deploy.processes import Connect, SupervisedProcesses
from headrace.deploy.reload import Reload, Replan
from headrace.deploy.replays import Replays
from headrace.deploy.reports import Reports
from headrace.deploy.restarts import Restarts
from headrace.deploy.signals import Signals
from headrace.deploy.status import Kind, State, Status
from headrace.deploy.supervisor_log import SupervisorLog
from headrace.deploy.view import LinesView
from headrace.logs.output import ConsoleFormatter, JsonFormatter

_LOOK_EVERY_S = 0.1
_STOP_ORDER = (
    ((Kind.SOURCE,), 20.0),
    ((Kind.PIPELINE, Kind.QUERY), 60.0),
    ((Kind.SINK,), 20.0),
    ((Kind.GATEWAY,), 30.0),
)
"""The order in which kinds stop, with timeouts in seconds: what sources sent is still committed, and sinks get every commit."""

Show = Callable[[Status], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a deployment ended.

    Attributes:
        exit_code: 0 if everything ended normally.
        summary: The same for people.
    """

    exit_code: int
    summary: str


class Supervisor:
    """Runs a deployment, once."""

    def __init__(
        self,
        plan: Plan,
        connect: Connect,
        show: Show,
        replan: Replan | None = None,
        reach: Reach | None = None,
        signals: Signals | None = None,
        check: Check | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            plan: What to run.
            connect: Returns a probe of the gateway at an address.
            show: Called with the status several times a second.
            replan: Reads the deployment's file again, on SIGHUP, on a thread of its own; raises a HeadraceError if it is invalid.
                None for a deployment that never changes.
            reach: Returns how to call the gateway at an address, to register there; None for a deployment that does not register.
            signals: The signals that arrived before; None for none.
            check: Reads the deployment's file, as `replan` does, without the imports; None if nobody is to look after it.
        """
        self._reload = None if replan is None else Reload(replan)
        self._watch = None if replan is None or check is None else FileWatch(plan.name, check, replan)
        self._reach = reach
        self._plan = plan
        self._connect = connect
        self._display = regardless(show)
        self._report: Callable[[], None] = lambda: None
        self._comfort = Comfort(lambda _: None)
        self._signals = signals or Signals()
        self._logged: Show = lambda _: None

    def run(self, tell: Callable[[str], None]) -> Ending:
        """Runs the deployment until it ends or is stopped. All of its processes have ended when this returns.

        SIGTERM and SIGINT stop it in order, a second one stops it immediately. SIGHUP applies changes of its file, all or none.

        Args:
            tell: Called with lines for people.

        Raises:
            AlreadyRuns: Another supervisor runs it.
            CannotStart: Its folder cannot be used, or the system lacks what it needs.
            CannotRun: One of its processes can never run as it is configured.
        """
        try:
            with self._signals.noted():
                return self._run(regardless(tell))
        except Stopped:
            # It has waited for processes of an earlier run.
            return Ending(0, "stopped")

    def _run(self, show: Callable[[str], None]) -> Ending:
        log = SupervisorLog(JsonFormatter() if self._plan.logs_json else ConsoleFormatter())
        self._logged, tell = LinesView(log.write, stamps=False), _both(log.write, show)
        self._comfort = Comfort(tell)
        link = GatewayLink(self._plan.name, uuid.uuid4().hex, self._reach, tell, log=self._plan.log)
        with (
            exclusive_run(self._plan.cwd / self._plan.name, self._plan.folder, tell, self._signals.is_stopped) as lock,
            contextlib.closing(PatientDisk()) as disk,
            ControlSocket(self._plan.folder, tell, disk) as control,
            link,
        ):
            processes = SupervisedProcesses(
                self._plan, self._connect, lock.inherits, self._comfort, log, disk, pids=lambda: link.connected
            )
            reports = Reports()

            def report() -> None:
                self._comfort.do(f"write the process id into {lock.path}", partial(lock.note_process_id, disk), None)
                now = time.monotonic()
                listed = reports.look(processes.all, processes.log_faults, now)
                control.processes = [one.document(now) for one in listed]
                control.gateway_fault = link.fault
                control.file_fault = link.file_fault = None if self._watch is None else self._watch.fault
                link.report(listed, now)

            self._report = lambda: self._comfort.do("report the processes", report, None)
            restarts, replays = Restarts((control, link), processes, tell), Replays(link, processes, tell)
            try:
                cannot_run = self._until_over(processes, restarts, replays, link, tell)
                if self._reload is not None and self._reload.stop():
                    tell("reload refused: the deployment is stopping")
                if self._watch is not None:
                    self._watch.stop()
                self._drain(processes, restarts, replays)
                self._show(processes.status(stopping=True))
                if cannot_run is not None:
                    said = f"{cannot_run.role.name} {cannot_run.reason} (log: {cannot_run.process.log})"
                    raise CannotRun(said, cannot_run.exit_code or 1)
                ending = self._ending(processes)
                log.write(f"{self._plan.name} {ending.summary}")
            except Exception as error:
                log.write(f"{self._plan.name} has failed: {str(error) or type(error).__name__}")
                raise
            finally:
                self._comfort.do("end replays", replays.close, None)
                processes.close()
                if self._reload is not None:
                    self._reload.close()
                if self._watch is not None:
                    self._watch.close()
        return ending

    def _look_at_file(self, processes: SupervisedProcesses, tell: Callable[[str], None]) -> None:
        """Has the file read again if that is requested, and applies what was read."""
        hung_up = self._signals.take_hangup()
        if self._watch is not None:
            said: list[str] = self._comfort.do("look after the file", self._watch.look, [])
            for line in said:
                tell(line)
        if self._reload is None:
            return
        if hung_up:
            self._reload.want()
        if (reading := self._reload.look()) is not None:
            self._apply(reading, processes, tell)

    def _apply(self, reading: Future[Plan], processes: SupervisedProcesses, tell: Callable[[str], None]) -> None:
        """Applies changes of the file, or says why not; the previous plan then stays in effect."""
        if self._watch is not None:
            self._watch.reloaded(reading.exception())
        try:
            changes = processes.apply(reading.result())
        except HeadraceError as error:
            tell(f"reload refused: {error}")
        except (Exception, SystemExit) as error:
            # Whatever a file contains, and an application does when it is imported, the processes run on.
            tell(f"reload refused: {str(error) or type(error).__name__}; nothing has changed")
        else:
            tell(f"reloaded: {', '.join(changes) or 'nothing has changed'}")

    def _until_over(
        self,
        processes: SupervisedProcesses,
        restarts: Restarts,
        replays: Replays,
        link: GatewayLink,
        tell: Callable[[str], None],
    ) -> SupervisedProcess | None:
        """Starts what is due until there is a reason to end. Returns the process that can never run, if that is the reason."""
        while not self._signals.stops:
            self._look_at_file(processes, tell)
            processes.look()
            self._report()
            self._comfort.do("call the gateway", lambda: link.update(processes.address, processes.connectors), None)
            self._comfort.do("take requests", restarts.look, None)
            self._comfort.do("replay dead letters", replays.look, None)
            cannot_run = next((one for one in processes.all if one.cannot_run), None)
            if cannot_run is not None or processes.is_over:
                return cannot_run
            processes.start_due()
            self._show(processes.status(stopping=False))
            time.sleep(_LOOK_EVERY_S)
        return None

    def _drain(self, processes: SupervisedProcesses, restarts: Restarts, replays: Replays) -> None:
        """Stops the processes in order. Replays stop with the sources.

        A process that ends before its turn is started again, since others need it to stop: without the gateway, none can finish.
        """
        self._comfort.do("stop replays", replays.ask_to_stop, None)
        for kinds, within_s in _STOP_ORDER:
            group = [one for kind in kinds for one in processes.of(kind)]
            for one in group:
                self._comfort.do(f"stop {one.role.name}", one.ask_to_stop, None)
            deadline = time.monotonic() + within_s
            while _run(kinds, group, replays) and time.monotonic() < deadline and len(self._signals.stops) < 2:
                self._comfort.do("take requests", restarts.refuse, None)
                self._comfort.do("replay dead letters", replays.refuse, None)
                self._report()
                self._show(processes.status(stopping=True))
                time.sleep(_LOOK_EVERY_S)
                processes.look()
                processes.start_again()
            for one in group:
                self._comfort.do(f"kill {one.role.name}", one.kill, None)
            if Kind.SOURCE in kinds:
                self._comfort.do("end replays", replays.close, None)

    def _show(self, status: Status) -> None:
        self._comfort.do("log the status", lambda: self._logged(status), None)
        self._comfort.do("show the status", lambda: self._display(status), None)

    def _ending(self, processes: SupervisedProcesses) -> Ending:
        if len(self._signals.stops) > 1:
            return Ending(128 + self._signals.stops[1], "stopped by force")
        killed = [one.role.name for one in processes.all if one.state is State.KILLED]
        if killed:
            return Ending(1, f"ended; killed, since they did not stop in time: {', '.join(killed)}")
        return Ending(0, "stopped" if self._signals.stops else "ended")


def _both(first: Callable[[str], None], second: Callable[[str], None]) -> Callable[[str], None]:
    """Returns what tells each line to both."""

    def tell(line: str) -> None:
        first(line)
        second(line)

    return tell


def _run(kinds: tuple[Kind, ...], group: list[SupervisedProcess], replays: Replays) -> bool:
    """Whether processes of a kind still run. Replays are sources."""
    return any(one.process.runs for one in group) or (Kind.SOURCE in kinds and replays.runs)
