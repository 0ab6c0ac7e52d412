"""Processes of their own that tests start, kill and start again; whoever waits for one sees its log when it is in vain."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import psutil

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0
LOG_LINES = 60

_T = TypeVar("_T")


class Process:
    """A command that can be started more than once. Its output goes to a log, all starts after one another."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str | Path],
        folder: Path,
        environ: Mapping[str, str] | None = None,
        *,
        program: str | Path = sys.executable,
    ) -> None:
        self.name = name
        self.log_file = folder / f"{name}.log"
        self.expected = False
        """True while its end would be a fault of its own."""
        self._arguments = [program, *arguments]
        plain = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        self._environ = {**plain, "PYTHONUNBUFFERED": "1", **(environ or {})}
        self._running: subprocess.Popen[bytes] | None = None
        self._descendants: dict[int, psutil.Process] = {}

    def start(self) -> None:
        """Starts it, in a process group of its own."""
        assert self._running is None or self._running.poll() is not None, f"{self.name} runs already"
        with self.log_file.open("ab") as log:
            log.write(f"--- start at {datetime.now(UTC):%T.%f}\n".encode())
            log.flush()
            self._running = subprocess.Popen(
                self._arguments,
                cwd=ROOT,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.expected = True

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._running is not None
        return self._running.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._running is not None and self._running.poll() is None

    def say(self, line: str) -> None:
        """Writes a line to its standard input."""
        assert self._running is not None
        assert self._running.stdin is not None
        self._running.stdin.write(line.encode() + b"\n")
        self._running.stdin.flush()

    def kill(self) -> None:
        """SIGKILL to it and to what runs in its process group."""
        self._note_descendants()
        os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def kill_alone(self) -> None:
        """SIGKILL to it, and not to what it started: that has to notice."""
        self._note_descendants()
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        """SIGTERM to it alone."""
        assert self._running is not None
        self._note_descendants()
        self.expected = False
        self._running.send_signal(signal.SIGTERM)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code."""
        assert self._running is not None
        self.expected = False
        try:
            code = self._running.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended within {deadline_s} s\n{self.log_tail()}") from None
        with self.log_file.open("a") as log:
            log.write(f"--- ended at {datetime.now(UTC):%T.%f} with {code}\n")
        return code

    def dispose(self) -> None:
        """Ends it and everything that it ever started, at the end of a test."""
        if self.alive:
            self.kill()
        for descendant in self._descendants.values():
            if descendant.is_running():
                descendant.kill()

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines that it logged."""
        if not self.log_file.exists():
            return f"=== {self.name}: never started"
        tail = self.log_file.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"=== {self.name} ({'alive' if self.alive else 'ended'})", *tail])

    def _note_descendants(self) -> None:
        """Spark's Python workers put themselves into groups of their own, and outlive a killed driver for a moment."""
        for descendant in psutil.Process(self.pid).children(recursive=True):
            self._descendants[descendant.pid] = descendant


def wait_for(what: str, condition: Callable[[], _T | None], processes: Sequence[Process], deadline_s: float = DEADLINE_S) -> _T:
    """The result of the condition once it is neither None nor False; fails early where a process ends by itself."""
    deadline = time.monotonic() + deadline_s
    while True:
        found = condition()
        if found is not None and found is not False:
            return found
        ended = [process.name for process in processes if process.expected and not process.alive]
        if ended or time.monotonic() > deadline:
            why = f"{', '.join(ended)} ended by itself" if ended else f"not within {deadline_s} s"
            tails = "\n".join(process.log_tail() for process in processes)
            raise AssertionError(f"{what}: {why}\n{tails}")
        time.sleep(0.02)


def free_port() -> int:
    """A port for a server that is started again and again: outside the range that outgoing connections take theirs from."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def write_whole(path: Path, text: str) -> None:
    """Writes a file in one step, so that nobody reads half of it, whoever is killed meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
