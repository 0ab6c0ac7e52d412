"""Temporary folders of runs. A run removes its own, and the folders of earlier runs that were killed."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from headrace.machine.owned_folder import OWNER, OwnedFolder, abandoned, remove

_PREFIX, _INNER_PREFIX = "headrace-", "s-"
"""Prefixes of folder names. Nested ones are short, since the path of a socket is limited to about 100 characters."""
_GONE_WITHIN_S = 10.0


class Scratch:
    """A temporary folder that this process owns until it removes it or ends.

    Processes whose environment has `TMPDIR` in the folder belong to it.

    Attributes:
        path: The folder.
    """

    def __init__(self, purpose: str = "") -> None:
        """Creates the folder, and sweeps the folders whose owners have ended.

        Args:
            purpose: Part of the folder's name, for people.
        """
        sweep()
        prefix = f"{_PREFIX}{purpose}-" if purpose else _PREFIX
        if Path(tempfile.gettempdir(), OWNER).exists():
            prefix = _INNER_PREFIX
        self._owned = OwnedFolder(Path(tempfile.gettempdir()), prefix)
        self.path = self._owned.path

    def remove(self) -> None:
        """Kills the processes that belong to the folder, and removes it."""
        _remove(self.path)
        self._owned.release()


@contextmanager
def scratch_folder(purpose: str = "") -> Iterator[Path]:
    """Yields the path of a `Scratch` that is removed when the block ends."""
    scratch = Scratch(purpose)
    try:
        yield scratch.path
    finally:
        # A second Ctrl-C has no effect until the folder is gone.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        scratch.remove()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


@contextmanager
def own_temporary_folder(purpose: str) -> Iterator[Path]:
    """Makes this process and its children keep temporary files in a `Scratch` for the duration of the block.

    When the block ends, the JVM of a Spark session in this process is killed too.
    """
    with scratch_folder(purpose) as folder:
        java = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={folder}"
        own = {"TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder), "SPARK_SUBMIT_OPTS": java.strip()}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        tempfile.tempdir = None
        try:
            yield folder
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            tempfile.tempdir = None


def sweep() -> None:
    """Removes the scratch folders whose owners have ended, and kills the processes that belong to them."""
    for folder in abandoned(Path(tempfile.gettempdir())):
        _remove(folder)


def _remove(folder: Path) -> None:
    # A process may start another one while it is being killed, so repeat until there is none.
    while belonging := _belonging(folder):
        for process in belonging:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if psutil.wait_procs(belonging, timeout=_GONE_WITHIN_S)[1]:
            break
    remove(folder)


def _belonging(folder: Path) -> list[psutil.Process]:
    """The processes whose `TMPDIR` is in this folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            temporary = process.environ().get("TMPDIR", "")
            if process.pid != os.getpid() and Path(temporary).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
