"""Ensures one run of a deployment at a time, even while processes of a killed supervisor are still ending."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.deploy.errors import AlreadyRuns

_LOOK_EVERY_S = 0.1
_END_WITHIN_S = 90.0


@contextlib.contextmanager
def exclusive_run(folder: Path, tell: Callable[[str], None]) -> Iterator[int]:
    """Locks a folder for as long as the supervisor, or one of its processes, lives.

    Args:
        folder: The deployment's folder.
        tell: Called with a line for people if there is something to wait for.

    Yields:
        A descriptor for each process to inherit: it holds the lock until the last of them has ended.

    Raises:
        AlreadyRuns: Another supervisor runs the deployment, or processes of an earlier one do not end in time.
    """
    with _opened(folder / "supervisor.lock") as own, _opened(folder / "processes.lock") as shared:
        if not _locked(own):
            raise AlreadyRuns(f"this deployment is already running, as process {_said(own)}; stop that first")
        os.truncate(own, 0)
        os.pwrite(own, str(os.getpid()).encode(), 0)
        if not _locked(shared):
            tell("waiting for the processes of an earlier run to end")
            deadline = time.monotonic() + _END_WITHIN_S
            while not _locked(shared):
                if time.monotonic() > deadline:
                    raise AlreadyRuns(f"processes of an earlier run of this deployment do not end; see the logs in {folder}")
                time.sleep(_LOOK_EVERY_S)
        yield shared


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _said(descriptor: int) -> str:
    return os.pread(descriptor, 20, 0).decode() or "?"
