"""A program in a real pseudo-terminal, whose screen an emulator shows as a person would see it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyte

DEADLINE_S = 150.0
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Becomes a program that Ctrl-C reaches: the terminal belongs to its session."""


class TerminalProcess:
    """A program, and the terminal that it runs in."""

    def __init__(self, command: list[str], environ: Mapping[str, str], columns: int, lines: int) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._main, other = pty.openpty()
        self._resize(columns, lines)
        self.before = termios.tcgetattr(other)
        self.sent = b""
        """Everything that the program has written."""
        # Not by preexec_fn: with it, this process is forked while threads of gRPC run in it, and the child may hang.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            env=dict(environ),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        self._other = other

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """What stands on the screen, as one text."""
        return "\n".join(self.lines)

    @property
    def modes(self) -> list[object]:
        """The modes of the terminal."""
        return termios.tcgetattr(self._other)

    def press(self, keys: str) -> None:
        """Types keys."""
        os.write(self._main, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Changes the size of the terminal; its program gets a signal."""
        self._screen.resize(lines, columns)
        self._resize(columns, lines)

    def _resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, holds: Callable[[str], bool], what: str = "the screen to be as expected") -> str:
        """The screen, once a condition holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds(self.text):
            assert time.monotonic() < deadline, f"waited for {what}:\n{self.text}"
            self._take(0.05)
        return self.text

    def until_shows(self, *texts: str) -> str:
        """The screen, once it shows these texts."""
        return self.until(lambda screen: all(text in screen for text in texts), " and ".join(texts))

    def ended(self) -> int:
        """The exit code of the program."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end:\n{self.text}"
            self._take(0.05)
        self._take(0.05)
        return self.process.returncode

    def _take(self, timeout_s: float) -> None:
        while select.select([self._main], [], [], timeout_s)[0]:
            try:
                data = os.read(self._main, 65_536)
            except OSError:
                return
            self.sent += data
            self._stream.feed(data)
            timeout_s = 0.0

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)
        os.close(self._other)


@contextmanager
def in_terminal(
    *arguments: str, environ: Mapping[str, str] | None = None, columns: int = 80, lines: int = 24
) -> Iterator[TerminalProcess]:
    """`headrace` with these arguments in a terminal."""
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "COLUMNS", "LINES", "NO_COLOR"))
    }
    command = [sys.executable, "-m", "headrace.cli", *arguments]
    running = TerminalProcess(command, {**plain, "TERM": "xterm-256color", **(environ or {})}, columns, lines)
    try:
        yield running
    finally:
        running.close()
