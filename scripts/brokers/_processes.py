"""Processes that outlive the one that started them: identified by id and start time, and killed with all their children."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

import psutil

_DEADLINE_S = 30.0
_children: list[Popen[bytes]] = []
"""The processes that this one has started: a Popen object warns if it is dropped while its process runs."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run as a process.

    Attributes:
        arguments: Its command line.
        environ: Variables to add to this process's environment.
        user: The user to run it as; None for the present one.
    """

    arguments: Sequence[str | Path]
    environ: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was started.

    Attributes:
        pid: Its id, which the system may have reused.
        created: When it was started, in seconds since 1970, which identifies it.
    """

    pid: int
    created: float

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        found = self._find()
        return found is not None and not _ended(found)

    def stop(self, number: signal.Signals) -> None:
        """Sends it a signal, waits until it has ended, and kills its remaining children."""
        root = self._find()
        if root is not None:
            family = [root, *root.children(recursive=True)]
            with suppress(psutil.NoSuchProcess):
                root.send_signal(number)
            _wait([root])
            _kill(family)

    def signal(self, number: signal.Signals) -> None:
        """Sends it and all its children a signal, the parent first, so that it starts no others meanwhile."""
        root = self._find()
        if root is not None:
            for process in [root, *root.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def kill(self) -> None:
        """Kills it with all its children, and waits until they are gone."""
        root = self._find()
        if root is not None:
            _kill([root, *root.children(recursive=True)])

    def _find(self) -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.pid)
            if abs(found.create_time() - self.created) < 1.0:
                return found
        return None


def as_user(user: str | None) -> list[str]:
    """Returns what precedes a command that another user runs; nothing for the present one.

    Not by Popen's `user`: with it, this process is forked while threads of gRPC run in it, and the child may hang or die.
    """
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"] if user else []


def start(command: Command, log: Path) -> Process:
    """Starts a process in a new session, and appends its output to a file."""
    with log.open("ab") as out:
        child = Popen(
            [*as_user(command.user), *(os.fspath(argument) for argument in command.arguments)],
            env={**os.environ, **command.environ},
            cwd=log.parent,
            stdin=DEVNULL,
            stdout=out,
            stderr=STDOUT,
            start_new_session=True,
        )
    _children.append(child)
    return Process(child.pid, psutil.Process(child.pid).create_time())


def _kill(family: list[psutil.Process]) -> None:
    """Kills processes in order: the parent first, so that it starts no others."""
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _wait(family)


def _wait(processes: list[psutil.Process]) -> None:
    """Waits until processes have ended."""
    deadline = time.monotonic() + _DEADLINE_S
    while not all(map(_ended, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)
    _children[:] = [child for child in _children if child.poll() is None]


def _ended(process: psutil.Process) -> bool:
    """Whether a process has ended, or is a zombie."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
