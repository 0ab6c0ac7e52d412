"""The pipes through which processes print, and the process that writes what comes out into their logs.

A pipe belongs to a process for as long as the deployment runs, and is open for reading and writing at both ends: no process is
ended by a pipe that nobody reads, whichever of the supervisor and the log writer is killed. The next writer reads what is in it.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace.deploy.comfort import Comfort
from headrace.deploy.writer_process import WriterProcess
from headrace.log_writer import Lines, Writer, opened

MAX_BYTES = 32 << 20
"""When a log is renamed, of which two are kept."""
MAX_BYTES_BESIDE_STDERR = 1 << 20
"""The same where lines go to standard error: the files are for `headrace ps --log`."""
START_AGAIN_AFTER_S = 1.0
_ENDS_WITHIN_S = 5.0
_PIPE_BYTES = 1 << 20


@dataclass
class _Pipe:
    path: Path
    descriptor: int
    shows: bool
    """Whether its lines go to standard error too, where lines do."""
    is_read: bool = False
    """Whether the log writer reads it."""


@dataclass(frozen=True, slots=True)
class LogFault:
    """Why the log of a process cannot be written."""

    cause: str
    since: float
    """Since when, on the clock of `LogPipes`."""


class LogPipes:
    """Takes what processes print to their logs. No method waits for room on a disk."""

    def __init__(self, comfort: Comfort, *, to_stderr: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        """Starts the log writer.

        Args:
            comfort: What tells of errors.
            to_stderr: Whether all lines go to standard error too, with the names of their processes.
            now: A monotonic clock, in seconds.
        """
        self.faults: dict[str, LogFault] = {}
        """What keeps lines from each log, by the name of its process; empty for standard error."""
        self._silence: str | None = None
        """Why the log writer does not work, as reported last."""
        self._comfort = comfort
        self._to_stderr = to_stderr
        self._now = now
        self._largest_bytes = MAX_BYTES_BESIDE_STDERR if to_stderr else MAX_BYTES
        self._pipes: dict[str, _Pipe] = {}
        self._process: WriterProcess | None = None
        self._start_at = float("-inf")
        self._own = self._new_writer()
        self._lost: dict[str, int] = {}
        self.look()

    @property
    def writer_pid(self) -> int | None:
        """The process id of the log writer; None while the supervisor does its work."""
        return self._process.pid if self._is_ready and self._process is not None else None

    @property
    def _is_ready(self) -> bool:
        return self._process is not None and self._process.is_ready

    def open(self, name: str, path: Path) -> BinaryIO:
        """Returns what a process is to print to. If there can be no pipe, that is its log itself, or nothing."""
        pipe = self._comfort.do("make a pipe for a log", lambda: self._pipe(name, path, shows=True), None)
        if pipe is None:
            return self._comfort.do(f"open {path}", lambda: _unpiped(path), None) or open(os.devnull, "ab")
        return open(os.dup(pipe.descriptor), "wb", buffering=0)

    def open_own(self, name: str, path: Path) -> int:
        """Returns a descriptor for a log of this process, which does not block; standard error has its lines already.

        Raises:
            OSError: There can be no pipe at the moment.
        """
        pipe = self._pipe(name, path, shows=False)
        return os.open(f"/proc/self/fd/{pipe.descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def leave(self, name: str) -> None:
        """Forgets a process that is not started again."""
        pipe = self._pipes.pop(name, None)
        if pipe is not None:
            self._own.leave(name)
            if pipe.is_read and self._process is not None:
                self._process.leave(name)
            os.close(pipe.descriptor)

    def look(self) -> None:
        """Starts the log writer if it does not run, does its work meanwhile, and notes what is wrong."""
        self._comfort.do("write logs", self._look, None)

    def catch_up(self) -> None:
        """Waits until what processes have printed is in their logs, for at most five seconds."""
        self._comfort.do("write logs", self._catch_up, None)

    def close(self) -> None:
        """Waits until all is written, and ends the log writer."""
        if self._process is not None:
            self._process.look()
            self._hand_over()
        # Only now: what the log writer has not read is still in the pipes.
        has_written = self._process is not None and self._process.end()
        if not has_written and (self._process is None or self._process.exit_code() is not None):
            self._read_all_ourselves()
        has_written = self._own.close(_ENDS_WITHIN_S) and (has_written or self._process is None)
        if not has_written:
            self._comfort.tell("the last lines of logs may be missing: the log writer did not write them in time")
        if self._process is not None:
            self._process.close()
        for pipe in self._pipes.values():
            os.close(pipe.descriptor)
        self._pipes.clear()

    def _pipe(self, name: str, path: Path, *, shows: bool) -> _Pipe:
        """Returns the pipe of a log, a new one if there is none.

        Raises:
            OSError: There can be none.
        """
        if name not in self._pipes or self._pipes[name].path != path:
            self.leave(name)
            self._pipes[name] = pipe = _Pipe(path, _new_pipe(), shows)
            self._comfort.do("read the pipe of a log", lambda: self._add_own(name, pipe), None)
            self._hand_over()
        return self._pipes[name]

    def _look(self) -> None:
        if self._process is not None and (code := self._process.exit_code()) is not None:
            self._comfort.tell(f"the log writer has ended with exit code {code}; it is started again")
            self._read_all_ourselves()
        if self._process is None and self._now() >= self._start_at:
            self._start_at = self._now() + START_AGAIN_AFTER_S
            self._process = self._comfort.do("start the log writer", self._start, None)
        silence = self._process.look() if self._process is not None else None
        if silence is not None and silence != self._silence:
            self._comfort.tell(f"{silence}; processes that print more than {_PIPE_BYTES >> 20} MiB meanwhile wait for it")
        self._silence = silence
        self._own.step()
        own, others = self._own.state(), self._process.state if self._process is not None else {}
        self._note({what: {**others.get(what, {}), **own[what]} for what in ("faults", "lost")})
        self._hand_over()

    def _start(self) -> WriterProcess:
        return WriterProcess(self._largest_bytes, to_stderr=self._to_stderr, now=self._now)

    def _read_all_ourselves(self) -> None:
        """Reads the pipes here, until another log writer is ready."""
        if self._process is not None:
            self._process.close()
        self._process = None
        self._lost = {}
        for name, pipe in self._pipes.items():
            if pipe.is_read:
                pipe.is_read = False
                self._add_own(name, pipe)

    def _hand_over(self) -> None:
        """Gives the log writer the pipes that it does not have, as far as it takes them now."""
        if self._process is None or not self._process.is_ready:
            return
        for name, pipe in self._pipes.items():
            # One whose log has a fault stays here, with what waits for room.
            if not pipe.is_read and not self._own.waits_for(name):
                self._own.let_go(name)
                self._lost.pop(name, None)
                descriptor = _reading(pipe.descriptor)
                try:
                    self._process.give(name, str(pipe.path), descriptor, shows=pipe.shows)
                except OSError:
                    self._add_own(name, pipe)
                    return
                finally:
                    os.close(descriptor)
                pipe.is_read = True

    def _catch_up(self) -> None:
        self._own.catch_up()
        if self._process is not None and not self._process.catch_up():
            self._comfort.tell("the log writer has ended; it is started again")
            self._read_all_ourselves()
            self._own.catch_up()

    def _note(self, state: dict[str, Any]) -> None:
        """Tells what has become wrong, and what is right again."""
        faults, lost = state["faults"], state["lost"]
        for name in sorted(faults.keys() | self.faults.keys() | lost.keys()):
            known, now = self.faults.get(name), faults.get(name)
            before = None if known is None else known.cause
            since = lost.get(name, 0) - self._lost.get(name, 0)
            what = f"the log of {name}, {self._pipes[name].path}" if name in self._pipes else "a log"
            if not name:
                self._note_output(before, now)
                continue
            if now is not None and now != before:
                self._comfort.tell(f"{what}: {now}; its process runs on, and this is tried again")
            elif now is None and (before is not None or since > 0):
                missing = f", without {since:,} bytes that had no room" if since > 0 else ""
                self._comfort.tell(f"{what} is written again{missing}")
                self._lost[name] = lost.get(name, 0)
        since_now = {name: known.since for name, known in self.faults.items()}
        self.faults = {name: LogFault(cause, since_now.get(name, self._now())) for name, cause in faults.items()}

    def _note_output(self, before: str | None, now: str | None) -> None:
        if now != before:
            self._comfort.tell("lines go to standard error again" if now is None else f"{now}; this is tried again")

    def _add_own(self, name: str, pipe: _Pipe) -> None:
        self._own.add(name, pipe.path, _reading(pipe.descriptor), shows=pipe.shows)

    def _new_writer(self) -> Writer:
        return Writer(self._largest_bytes, Lines(2) if self._to_stderr else None)


def _new_pipe() -> int:
    """Makes a pipe, and returns one descriptor for both of its ends."""
    reads, writes = os.pipe()
    try:
        both = os.open(f"/proc/self/fd/{writes}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(reads)
        os.close(writes)
    with contextlib.suppress(OSError):
        # The system limits how many large ones a user may have.
        fcntl.fcntl(both, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return both


def _reading(pipe: int) -> int:
    """Returns a descriptor that only reads a pipe, and does not block."""
    return os.open(f"/proc/self/fd/{pipe}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _unpiped(path: Path) -> BinaryIO:
    descriptor = opened(path)
    os.set_blocking(descriptor, True)
    return open(descriptor, "ab")
