"""A process of a deployment over its restarts: its state, and why it ended."""

import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from headrace.contract.names import CONTINUES
from headrace.deploy.backoff import STABLE_S, wait_s
from headrace.deploy.logs import last_error_line, last_warning, size_of
from headrace.deploy.patient_disk import PatientDisk
from headrace.deploy.plan import Role
from headrace.deploy.status import Kind, State
from headrace.processes import OwnedProcess, RecentKills, memory_kills

STOPS_WITHIN_S = 20.0
"""How long a process may take to end before it is restarted; it is killed then."""
QUERY_STOPS_WITHIN_S = 60.0
"""The same for an application and a Spark program, whose micro-batch in flight ends first."""
_KEEPS_FAILING = 3
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit codes of a process that SIGKILL has ended, and of a shell whose program it has ended."""
_PERMANENT = (2, 3)
"""Exit codes for usage or configuration errors, and for missing requirements."""


@dataclass
class SupervisedProcess:
    """A process that is restarted whenever it ends, with backoff."""

    role: Role
    process: OwnedProcess
    disk: PatientDisk
    """The disk of its log."""
    state: State = State.WAITS
    restarts: int = 0
    failures: int = 0
    """Consecutive failures."""
    has_run: bool = False
    """Whether it was ever connected."""
    continues: bool = False
    """Whether it was ever connected since somebody last requested its start: it then has a checkpoint."""
    has_session: bool | None = False
    """Whether this run is connected; None if that is not known."""
    reason: str | None = None
    """Why it last ended; None if it never has, or has been stable since."""
    exit_code: int | None = None
    """The exit code of its last run."""
    stopped_with: int | None = None
    """The exit code of the run that the last restart ended; None if it was not running then."""
    started_at: float = 0.0
    due_at: float = 0.0
    """When to start it, in seconds on the clock of `look`."""
    version: str = ""
    """The version of Headrace that was installed when it was last started; empty before its first start."""
    was_stopped: bool = False
    """Whether it was told to stop, and is not to be started again."""
    leaves: bool = False
    """Whether it was removed from the deployment: it is stopped, and not started again."""
    _killed_at: float | None = None
    """While it ends in order to be restarted at once: when it is killed, on the clock of `look`."""
    _was_asked: bool = False
    """Whether this run was asked to end: a second SIGTERM would end it without its last work."""
    _log_offset: int = 0
    _memory_kills: RecentKills = field(default_factory=lambda: RecentKills(memory_kills))
    _runs_since: float = 0.0

    @property
    def cannot_run(self) -> bool:
        """Whether restarts are pointless, because it can never run as configured."""
        # A program of the user has exit codes of its own.
        return not self.has_run and self.exit_code in _PERMANENT and self.role.kind is not Kind.QUERY

    @property
    def failure(self) -> str:
        """Why it has ended, until it is connected again; empty if it runs, has reached its end, or was to stop."""
        return self.reason or "" if self.state in (State.WAITS, State.STARTS, State.FAILS) else ""

    @property
    def is_unconnected(self) -> bool:
        """Whether it runs, and the gateway does not know it."""
        return self.process.runs and self.state in (State.STARTS, State.RECONNECTS, State.FAILS)

    def last_warning(self) -> str:
        """Returns the warning or error that this run has logged last; empty for none, or if its log cannot be read."""
        with suppress(OSError):
            return self.disk.ask(partial(last_warning, self.process.log, self._log_offset))
        return ""

    def start_if_due(self, now: float) -> None:
        """Starts it if a start is due at `now`."""
        if self.state in (State.WAITS, State.FAILS) and not self.process.runs and now >= self.due_at:
            self.restarts += bool(self.process.pids)
            self._log_offset = _size_of(self.process.log, self.disk)
            self._memory_kills.begin(now)
            self.process.environ = self._environ()
            try:
                self.process.start()
            except Exception as error:
                # The disk with its log is full, there is no room for another process, or its command line is none: that may pass.
                self._failed(now, f"cannot be started: {error}")
                return
            self._was_asked, self.version = False, _installed_version()
            self.started_at, self.has_session = now, False
            self.state = State.FAILS if self.state is State.FAILS else State.STARTS

    def look(self, now: float, connected: bool | None) -> None:
        """Updates the state of the process.

        Args:
            now: The time, in seconds on a monotonic clock.
            connected: Whether the gateway knows it; for the gateway, whether it answers. None if unknown.
        """
        if not self.process.runs:
            return
        code = self.process.exit_code()
        if code is not None:
            self._ended(now, code)
            return
        self._memory_kills.renew(now)
        if self.state is State.STOPS:
            if self._killed_at is not None and now >= self._killed_at:
                # Not waited for: one that waits for a disk does not end before the disk answers.
                self.process.send_kill()
        elif connected or connected is None:
            self.has_session = connected
            self._runs_since = now if self.state is not State.RUNS else self._runs_since
            self.state, self.has_run = State.RUNS, self.has_run or bool(connected)
            self.continues = self.continues or bool(connected)
            if now - self._runs_since >= STABLE_S:
                self.failures, self.reason = 0, None
        elif self.state is State.RUNS:
            self.state = State.RECONNECTS if self.has_session else State.STARTS

    def ask_to_stop(self) -> None:
        """Sends SIGTERM; a process that is not running counts as ended."""
        self._killed_at = None
        self.was_stopped = self.was_stopped or self.process.runs or self.state is not State.ENDED
        if self.process.runs:
            self._ask_to_stop()
        elif self.state is not State.ENDED:
            self.state = State.ENDED

    def restart(self, now: float) -> None:
        """Lets it end, kills it if it does not end in time, and starts it again at once. This does not count as a failure."""
        self.continues = False
        if not self.process.runs:
            self.stopped_with = None
            self._start_at_once(now)
        elif self._killed_at is None:
            is_query = self.role.kind in (Kind.PIPELINE, Kind.QUERY)
            self._killed_at = now + (QUERY_STOPS_WITHIN_S if is_query else STOPS_WITHIN_S)
            self._ask_to_stop()

    def leave(self) -> None:
        """Lets it end permanently."""
        self.leaves = True
        self.ask_to_stop()

    def kill(self) -> None:
        """Kills it if it is still running."""
        if self.process.runs:
            self.process.kill()
            self.state, self.reason = State.KILLED, "it did not stop in time"

    def _ended(self, now: float, code: int) -> None:
        self.exit_code = code
        if self._killed_at is not None:
            self._killed_at, self.stopped_with = None, code
            self._start_at_once(now)
            return
        if self.state is State.STOPS or (code == 0 and self.role.may_end):
            # A process that has no handler yet is ended by the signal itself.
            self.reason = None if code in (0, -signal.SIGTERM) else self._why(code)
            self.state = State.ENDED
            return
        self._failed(now, self._why(code))

    def _failed(self, now: float, why: str) -> None:
        """Notes a failure, after which it is started again with backoff."""
        self.failures += 1
        self.reason = why
        self.due_at = now + wait_s(self.failures)
        self.state = State.FAILS if self.failures >= _KEEPS_FAILING else State.WAITS

    def _ask_to_stop(self) -> None:
        self.state = State.STOPS
        if not self._was_asked:
            self._was_asked = True
            self.process.ask_to_stop()

    def _environ(self) -> Mapping[str, str]:
        """Returns the environment of the next start."""
        continued = {CONTINUES: ",".join(self.role.pipelines)} if self.continues and self.role.pipelines else {}
        return {**self.role.environ, **continued}

    def _start_at_once(self, now: float) -> None:
        self.state, self.due_at, self.failures, self.reason = State.WAITS, now, 0, None

    def _why(self, code: int) -> str:
        """Returns one line: how it ended, its last error if it printed one, and whether memory was lacking."""
        how = end_of(self.process, self.disk, self._log_offset, code)
        is_killed, has_jvm = code in _KILLED, self.role.kind in (Kind.PIPELINE, Kind.QUERY)
        # One with a JVM ends itself once that was killed.
        lacked = self._memory_kills.reason(of_machine=is_killed) if is_killed or (has_jvm and code != 0) else ""
        return f"{how}; {lacked}" if lacked else how


def _installed_version() -> str:
    """Returns the version that is installed now: an upgrade may have replaced the one that runs here."""
    try:
        return version("headrace")
    except PackageNotFoundError:
        return ""


def _size_of(log: Path, disk: PatientDisk) -> int:
    with suppress(OSError):
        return disk.ask(partial(size_of, log))
    return 0


def end_of(process: OwnedProcess, disk: PatientDisk, offset: int, code: int) -> str:
    """Returns one line: how a process has ended whose output begins at byte `offset` of its log, and its last error."""
    process.catch_up()
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    if code < 0:
        return how
    try:
        said = disk.ask(partial(last_error_line, process.log, offset))
    except OSError as error:
        said = f"{process.log} cannot be read: {error.strerror or error}"
    return f"{how}: {said}" if said else how
