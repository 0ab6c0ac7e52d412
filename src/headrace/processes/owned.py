"""A process that is restarted, and killed together with all its descendants, and that no SIGHUP ends."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

import psutil

from headrace.processes import begin

_TAIL_LINES = 15
_GONE_WITHIN_S = 10.0
_UNLISTED_WITHIN_S = 2.0
"""The same while processes cannot be listed, for want of descriptors: the group of the leader needs no list to be killed."""
_MOMENT_S = 0.05
UNKNOWN = 255
"""The exit code of a process for which somebody else has waited: nobody can tell that it ended well."""


@contextlib.contextmanager
def hangups_held() -> Iterator[None]:
    """Lets programs that this thread starts in the block begin with SIGHUP blocked: it waits for their `ignore_hangups`.

    Nothing else works from the first moment: a program begins without the handlers of its parent, and a parent that ignored the
    signal meanwhile would lose its own.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_hangups() -> None:
    """Ignores SIGHUP, also what has arrived while it was blocked, until this process handles it.

    Programs that this process starts, or is replaced by, begin with SIGHUP ignored: a JVM unblocks it, but leaves it ignored.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


class Output(Protocol):
    """Takes what processes print to their logs."""

    def open(self, name: str, path: Path) -> BinaryIO:
        """Returns what a process is to print to, given its name and its log."""
        ...

    def catch_up(self) -> None:
        """Waits for a moment until what processes have printed is in their logs."""
        ...


@dataclass
class OwnedProcess:
    """A process over its restarts. Each start leads a new session, through which its descendants are found."""

    name: str
    command: list[str]
    folder: Path
    environ: Mapping[str, str]
    pids: list[int] = field(default_factory=list)
    """The process id of each start, the latest last."""
    cwd: Path | None = None
    """Its working directory; None for `folder`."""
    ends_with_parent: bool = False
    """Whether its standard input is a pipe that closes when this process ends, even if killed."""
    inherits: tuple[int, ...] = ()
    """File descriptors that it inherits."""
    begins_apart: bool = False
    """Whether the process enters its working directory itself, so that its parent waits for no disk.

    SIGHUP is blocked in it until it calls `ignore_hangups`.
    """
    output: "Output | None" = None
    """What takes its output to its log; None if it writes there itself."""
    _process: "subprocess.Popen[bytes] | None" = None
    _ended_at: float | None = None
    """When it was found to have ended, while descendants of it are left."""

    @property
    def log(self) -> Path:
        """The file with its output, over all its starts."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The process id of the latest start."""
        return self.pids[-1]

    @property
    def runs(self) -> bool:
        """Whether it was started, and has neither been killed nor been found to have ended."""
        return self._process is not None

    def start(self) -> None:
        """Starts it, or restarts it after it has ended.

        Raises:
            OSError: Its log cannot be opened, or the system has no room for another process.
        """
        cwd = self.cwd or self.folder
        held = hangups_held() if self.begins_apart else nullcontext()
        with self._opened_log() as log, held:
            self._process = subprocess.Popen(
                begun_in(cwd, self.command) if self.begins_apart else self.command,
                cwd=None if self.begins_apart else cwd,
                env=self.environ,
                stdin=subprocess.PIPE if self.ends_with_parent else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=self.inherits,
            )
        self.pids.append(self._process.pid)

    def _opened_log(self) -> BinaryIO:
        return self.log.open("ab") if self.output is None else self.output.open(self.name, self.log)

    def catch_up(self) -> None:
        """Waits for a moment until its log has what it has printed until now."""
        if self.output is not None:
            self.output.catch_up()

    def exit_code(self) -> int | None:
        """Returns its exit code, None while it runs. Kills the descendants that it leaves behind.

        It waits for these for a moment only. One that cannot be killed, since it waits for a disk, still counts as the process,
        for ten seconds at most.
        """
        if self._process is None or (code := _exit_code(self.pid)) is None or not self._are_gone():
            return None
        self._forget(self._process)
        return code

    def _are_gone(self) -> bool:
        """Kills descendants. Returns whether none is left, or the rest have had their time."""
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        while _send_kill(self.pid) and time.monotonic() < self._ended_at + _patience_s():
            if time.monotonic() >= now + _MOMENT_S:
                return False
            time.sleep(0.005)
        return True

    def _forget(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait(_GONE_WITHIN_S)
        if process.stdin is not None:
            process.stdin.close()
        # From now on, the system may reuse its process id.
        self._process = self._ended_at = None

    def kill(self) -> None:
        """Kills it with all its descendants, and waits until they are gone. Does nothing if it is not running."""
        if self._process is None:
            return
        kill_session(self.pid)
        self._forget(self._process)

    def send_kill(self) -> bool:
        """Sends SIGKILL to it and all its descendants, without waiting. Returns whether there were any."""
        return self._process is not None and _send_kill(self.pid)

    def stop(self, timeout_s: float) -> None:
        """Sends SIGTERM, waits up to `timeout_s` seconds, and kills what is left."""
        self.ask_to_stop()
        deadline = time.monotonic() + timeout_s
        while self._process is not None and _exit_code(self.pid) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill()

    def signal(self, number: int) -> None:
        """Sends a signal to it and all its descendants."""
        for pid in _members(self.pid) if self._process is not None else []:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def ask_to_stop(self) -> None:
        """Sends SIGTERM if it is running."""
        if self._process is not None:
            # It has not been waited for, so that its process id is of no other process.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def tail(self) -> list[str]:
        """Returns the last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line for line in lines if line.strip()][-_TAIL_LINES:]


def begun_in(folder: Path, command: Sequence[str]) -> list[str]:
    """Returns a command that enters a folder, and is replaced by another command."""
    return [sys.executable, "-I", "-S", begin.__file__, str(folder), *command]


def kill_session(session: int) -> None:
    """Kills all processes of a session, and waits until they are gone. The caller still has to wait for its own child.

    Args:
        session: The process id of its leader.
    """
    deadline = time.monotonic() + _GONE_WITHIN_S
    # A descendant may start another one while it is being killed, so repeat until there is none.
    while _send_kill(session) and time.monotonic() < deadline:
        time.sleep(0.005)


def _exit_code(pid: int) -> int | None:
    """Returns the exit code of a child, None while it runs, without waiting for it: until then, its process id is its own."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return UNKNOWN
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _send_kill(session: int) -> bool:
    """Kills what it can of a session. Returns whether anything is left that may be killed."""
    # All that have not left the group of the leader: this needs no descriptor.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    try:
        # One of another user, such as by sudo, is left behind.
        return sum([_kill(pid) for pid in _members(session)]) > 0
    except OSError:
        # They cannot be listed: the descriptors are exhausted.
        return True


def _patience_s() -> float:
    """Returns how long descendants are waited for that may be left."""
    try:
        os.close(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _UNLISTED_WITHIN_S
    return _GONE_WITHIN_S


def _members(session: int) -> list[int]:
    """The living processes of a session, including orphans."""
    return [pid for pid in psutil.pids() if _session_of(pid) == session and lives(pid)]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def lives(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _kill(pid: int) -> bool:
    """Returns whether it may be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True
