"""Starts the processes of a deployment, restarts them, and stops them in an order that lets each finish."""

import contextlib
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from headrace.contract.errors import HeadraceError
from headrace.deploy.comfort import Comfort, regardless
from headrace.deploy.control import ControlSocket
from headrace.deploy.errors import CannotRun
from headrace.deploy.link import GatewayLink, Reach
from headrace.deploy.lock import exclusive_run
from headrace.deploy.plan import Plan
from headrace.deploy.processes import Connect, SupervisedProcesses
from headrace.deploy.replays import Replays
from headrace.deploy.reports import Reports
from headrace.deploy.restarts import Restarts
from headrace.deploy.status import Kind, State, Status
from headrace.deploy.supervised import Supervised

_LOOK_EVERY_S = 0.1
_STOP_ORDER = (
    ((Kind.SOURCE,), 20.0),
    ((Kind.PIPELINE, Kind.QUERY), 60.0),
    ((Kind.SINK,), 20.0),
    ((Kind.GATEWAY,), 30.0),
)
"""The order in which kinds stop, with timeouts in seconds: what sources sent is still committed, and sinks get every commit."""

Show = Callable[[Status], None]
Replan = Callable[[], Plan]


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
        self, plan: Plan, connect: Connect, show: Show, replan: Replan | None = None, reach: Reach | None = None
    ) -> None:
        """Starts nothing yet.

        Args:
            plan: What to run.
            connect: Returns a probe of the gateway at an address.
            show: Called with the status several times a second.
            replan: Reads the deployment's file again, on SIGHUP; raises a HeadraceError if it is invalid. None for a deployment
                that never changes.
            reach: Returns how to call the gateway at an address, to register there; None for a deployment that does not register.
        """
        self._replan = replan
        self._reach = reach
        self._reload_wanted = False
        self._plan = plan
        self._connect = connect
        self._shown = regardless(show)
        self._report: Callable[[], None] = lambda: None
        self._comfort = Comfort(lambda _: None)
        self._signals: list[int] = []

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
        tell = regardless(tell)
        self._comfort = Comfort(tell)
        link = GatewayLink(self._plan.name, uuid.uuid4().hex, self._reach, tell)
        with (
            exclusive_run(self._plan.cwd / self._plan.name, self._plan.folder, tell) as lock,
            self._signals_noted(),
            ControlSocket(self._plan.folder, tell) as control,
            link,
        ):
            processes = SupervisedProcesses(self._plan, self._connect, lock.inherits, self._comfort)
            reports = Reports()

            def report() -> None:
                self._comfort.do(f"write the process id into {lock.path}", lock.note_process_id, None)
                now = time.monotonic()
                listed = reports.look(processes.all, processes.log_faults, now)
                control.processes = [one.document(now) for one in listed]
                link.report(listed, now)

            self._report = lambda: self._comfort.do("report the processes", report, None)
            restarts, replays = Restarts((control, link), processes, tell), Replays(link, processes, tell)
            try:
                cannot_run = self._until_over(processes, restarts, replays, link, tell)
                self._drain(processes, restarts, replays)
                self._show(processes.status(stopping=True))
            finally:
                self._comfort.do("end replays", replays.close, None)
                processes.close()
        if cannot_run is not None:
            said = f"{cannot_run.role.name} {cannot_run.reason} (log: {cannot_run.process.log})"
            raise CannotRun(said, cannot_run.exit_code or 1)
        return self._ending(processes)

    def _reload(self, processes: SupervisedProcesses, tell: Callable[[str], None]) -> None:
        """Applies changes of the file, or says why not; the previous plan then stays in effect."""
        self._reload_wanted = False
        assert self._replan is not None
        try:
            changes = processes.apply(self._replan())
        except HeadraceError as error:
            tell(f"reload refused: {error}")
        except Exception as error:
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
    ) -> Supervised | None:
        """Starts what is due until there is a reason to end. Returns the process that can never run, if that is the reason."""
        while not self._signals:
            if self._reload_wanted:
                self._reload(processes, tell)
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

        What ends before its turn is started again, since those that stop need it: without the gateway, none of them can finish.
        """
        self._comfort.do("stop replays", replays.ask_to_stop, None)
        for kinds, within_s in _STOP_ORDER:
            group = [one for kind in kinds for one in processes.of(kind)]
            for one in group:
                self._comfort.do(f"stop {one.role.name}", one.ask_to_stop, None)
            deadline = time.monotonic() + within_s
            while _run(kinds, group, replays) and time.monotonic() < deadline and len(self._signals) < 2:
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
        self._comfort.do("show the status", lambda: self._shown(status), None)

    def _ending(self, processes: SupervisedProcesses) -> Ending:
        if len(self._signals) > 1:
            return Ending(128 + self._signals[1], "stopped by force")
        killed = [one.role.name for one in processes.all if one.state is State.KILLED]
        if killed:
            return Ending(1, f"ended; killed, since they did not stop in time: {', '.join(killed)}")
        return Ending(0, "stopped" if self._signals else "ended")

    @contextlib.contextmanager
    def _signals_noted(self) -> Iterator[None]:
        def note(number: int, _: FrameType | None) -> None:
            self._signals.append(number)

        def want_reload(number: int, _: FrameType | None) -> None:
            self._reload_wanted = True

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
        if self._replan is not None:
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, want_reload)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _run(kinds: tuple[Kind, ...], group: list[Supervised], replays: Replays) -> bool:
    """Whether processes of a kind still run. Replays are sources."""
    return any(one.process.runs for one in group) or (Kind.SOURCE in kinds and replays.runs)
