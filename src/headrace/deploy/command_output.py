"""What a command prints until it ends: kept in memory of bounded size, without files, which would need room on a disk."""

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.deploy.errors import Stopped
from headrace.deploy.signals import IsStopped
from headrace.processes import begun_in, hangups_held, kill_session

KEPT_BYTES = 4 << 20
"""How much of the end of an output is kept."""
_LOOK_EVERY_S = 0.05
_PIPE_BYTES = 1 << 20
"""More than a pipe contains."""


@dataclass(frozen=True, slots=True)
class Output:
    """How a command has ended.

    Attributes:
        exit_code: Its exit code; None if it did not end in time, and was killed.
        printed: The end of its standard output.
        said: The end of its standard error.
    """

    exit_code: int | None
    printed: str
    said: str


def output_of(command: Sequence[str], cwd: Path, environ: Mapping[str, str], *, within_s: float, is_stopped: IsStopped) -> Output:
    """Runs a command in a session of its own, and kills it at the end with everything that it has started and left behind.

    Its standard input is a pipe that closes when this process ends, even if that is killed. SIGHUP is blocked when it begins.

    Args:
        command: The command line.
        cwd: Its working directory.
        environ: Its environment.
        within_s: How long it may take, in seconds.
        is_stopped: Asked several times a second.

    Raises:
        OSError: The system has no room for a process or its pipes.
        ValueError: The command line or the environment contains a null byte.
        Stopped: It was stopped, and killed.
    """
    with hangups_held():
        process = subprocess.Popen(
            begun_in(cwd, command),
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            tails = printed, said = _Tail(process.stdout), _Tail(process.stderr)
            ended = _wait(process.pid, tails, time.monotonic() + within_s, is_stopped)
        finally:
            # Until it is waited for, its process id, and the session's, is of no other process.
            kill_session(process.pid)
        # What it has left behind could keep the pipes open: only what they contain is read.
        for tail in tails:
            tail.take()
        code = process.wait()
    return Output(code if ended else None, printed.text(), said.text())


def _wait(pid: int, tails: "tuple[_Tail, ...]", deadline: float, is_stopped: IsStopped) -> bool:
    """Reads until a process has ended. Returns False if it has not until the deadline."""
    with selectors.PollSelector() as pipes:
        for tail in tails:
            pipes.register(tail.descriptor, selectors.EVENT_READ, tail)
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if is_stopped():
                raise Stopped("it was stopped before its end")
            if time.monotonic() >= deadline:
                return False
            for key, _ in pipes.select(_LOOK_EVERY_S):
                if not key.data.take():
                    pipes.unregister(key.fd)
    return True


class _Tail:
    """The end of what arrives in a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.descriptor = pipe.fileno()
        os.set_blocking(self.descriptor, False)
        self._end = bytearray()

    def take(self) -> bool:
        """Takes what the pipe contains, without waiting. Returns whether more may arrive."""
        try:
            taken = os.read(self.descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return True
        self._end += taken
        del self._end[:-KEPT_BYTES]
        return bool(taken)

    def text(self) -> str:
        return self._end.decode(errors="replace").strip()
