"""Ensures one run of a deployment at a time, even while processes of a killed supervisor are still ending."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from headrace.deploy.errors import AlreadyRuns, CannotStart, Stopped
from headrace.deploy.kernel_names import NameTaken, take_name
from headrace.deploy.patient_disk import PatientDisk
from headrace.deploy.signals import IsStopped, never
from headrace.log_writer import close

_LOOK_EVERY_S = 0.1
_END_WITHIN_S = 90.0


@dataclass
class RunLock:
    """The lock of a run.

    Attributes:
        path: The file that contains the process id of the supervisor.
        inherits: Descriptors for each process to inherit: they hold the lock until the last of them has ended.
    """

    path: Path
    inherits: tuple[int, ...]
    _descriptor: int
    _is_noted: bool = False

    def note_process_id(self, disk: PatientDisk) -> None:
        """Writes the process id of the supervisor into the file, unless it is there. The lock does not depend on it.

        Raises:
            OSError: There is no room for it, or the disk does not answer.
        """
        if self._is_noted:
            return
        disk.check()
        # Closed where it is used: by then, the number of the other one may be of another file.
        descriptor = os.dup(self._descriptor)
        disk.ask(partial(_note_process_id, descriptor))
        self._is_noted = True


def _note_process_id(descriptor: int) -> None:
    noted = str(os.getpid()).encode()
    try:
        # Over the one of the last run, which may be all the room that there is.
        os.pwrite(descriptor, noted, 0)
        os.truncate(descriptor, len(noted))
    except OSError:
        with contextlib.suppress(OSError):
            # Another process may have the id of the last run by now.
            os.truncate(descriptor, 0)
        raise
    finally:
        close(descriptor)


@contextlib.contextmanager
def exclusive_run(
    deployment: Path, folder: Path, tell: Callable[[str], None], is_stopped: IsStopped = never
) -> Iterator[RunLock]:
    """Locks a deployment for as long as the supervisor, or one of its processes, lives.

    Files in its folder do so wherever the folder is mounted, and names in the kernel wherever the folder has gone meanwhile.

    Args:
        deployment: The deployment's file.
        folder: Its folder.
        tell: Called with a line for people if there is something to wait for.
        is_stopped: Asked while it waits.

    Yields:
        The lock.

    Raises:
        AlreadyRuns: Another supervisor runs the deployment, or processes of an earlier one do not end in time.
        CannotStart: The folder cannot be locked.
        Stopped: It was stopped while it waited.
    """
    earlier = _Earlier(folder, tell, is_stopped)
    with contextlib.ExitStack() as held:
        try:
            _take_name(held, deployment, "supervisor", tell)
        except NameTaken as taken:
            raise AlreadyRuns(f"this deployment is already running, as process {taken.pid or '?'}; stop that first") from None
        own = _opened(held, folder / "supervisor.lock", deployment)
        if not _locked(own, folder / "supervisor.lock", deployment):
            raise AlreadyRuns(f"this deployment is already running, as process {_pid_text(own)}; stop that first")
        shared = _opened(held, folder / "processes.lock", deployment)
        while not _locked(shared, folder / "processes.lock", deployment):
            earlier.wait()
        while True:
            try:
                named = _take_name(held, deployment, "processes", tell)
                break
            except NameTaken:
                earlier.wait()
        yield RunLock(folder / "supervisor.lock", (shared, *(() if named is None else (named,))), own)


class _Earlier:
    """The processes of an earlier run, which are waited for."""

    def __init__(self, folder: Path, tell: Callable[[str], None], is_stopped: IsStopped) -> None:
        self._folder = folder
        self._tell = tell
        self._is_stopped = is_stopped
        self._deadline: float | None = None

    def wait(self) -> None:
        """Waits for a moment.

        Raises:
            AlreadyRuns: They have not ended in time.
            Stopped: The deployment was stopped meanwhile.
        """
        if self._is_stopped():
            raise Stopped("the deployment was stopped while it waited for processes of an earlier run")
        if self._deadline is None:
            self._deadline = time.monotonic() + _END_WITHIN_S
            self._tell("waiting for the processes of an earlier run to end")
        if time.monotonic() > self._deadline:
            which = _holders(self._folder / "processes.lock")
            said = f" do not end: {', '.join(which)}" if which else " do not end"
            raise AlreadyRuns(f"processes of an earlier run of this deployment{said}; see the logs in {self._folder}")
        time.sleep(_LOOK_EVERY_S)


def _holders(file: Path) -> list[str]:
    """Returns the processes that have opened a file, as far as the system tells, such as `4711 (sleep)`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(one.path == str(file.absolute()) for one in process.open_files()):
                found.append(f"{process.pid} ({process.name()})")
    return found


def _take_name(held: contextlib.ExitStack, deployment: Path, what: str, tell: Callable[[str], None]) -> int | None:
    """Takes a name of the deployment, and returns its descriptor; None if there can be none: the files lock alone then.

    Raises:
        NameTaken: Another process holds it.
    """
    try:
        return held.enter_context(take_name(deployment, what)).fileno()
    except OSError as error:
        tell(f"the files in its folder alone lock this deployment: the kernel gives it no name: {error.strerror or error}")
        return None


def _opened(held: contextlib.ExitStack, path: Path, deployment: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _cannot_start(path, deployment, error) from None
    held.callback(close, descriptor)
    return descriptor


def _locked(descriptor: int, path: Path, deployment: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _cannot_start(path, deployment, error) from None
    return True


def _cannot_start(path: Path, deployment: Path, error: OSError) -> CannotStart:
    failed = (
        f"{path} cannot be locked, which keeps two supervisors from running this deployment at once: {error.strerror or error}"
    )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "make room there"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "let the user of the supervisor write there"
    else:
        remedy = "correct that"
    return CannotStart(f'{failed}; {remedy}, or name another folder at the top of {deployment.name}: folder = "PATH"')


def _pid_text(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return os.pread(descriptor, 20, 0).decode(errors="replace") or "?"
    return "?"
