"""A terminal that is drawn on: single keys, its size, and lines of which only changed ones are sent."""

import io
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self

from rich.text import Text

from headrace.terminal.tables import PrintableConsole

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_KEYS = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b[Z": "backtab",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1bOH": "home",
    b"\x1b[F": "end",
    b"\x1b[4~": "end",
    b"\x1bOF": "end",
    b"\x1b": "escape",
    b"\t": "tab",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x03": "interrupt",
}
_ESCAPE_WAIT_S = 0.05
"""How long the rest of a key's bytes may take; over a slow line they may come one by one."""


class Terminal:
    """The terminal of standard input and output, in a mode without echo and line editing."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wakes, False)
        os.set_blocking(self._wake, False)

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Takes the terminal over, and leaves it as it was, even if a signal ends this process."""
        before = termios.tcgetattr(self._in)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)}
        try:
            # Ctrl-C is a key here, and Ctrl-Z would leave the terminal in this mode.
            tty.setraw(self._in, termios.TCSANOW)
            modes = termios.tcgetattr(self._in)
            modes[1] |= termios.OPOST
            termios.tcsetattr(self._in, termios.TCSANOW, modes)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, _end)
            signal.signal(signal.SIGWINCH, lambda number, frame: self.wake())
            self._write(_ENTER)
            yield self
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            # The terminal may have gone away.
            with suppress(OSError, termios.error):
                self._write(_LEAVE)
                termios.tcsetattr(self._in, termios.TCSANOW, before)
            os.close(self._wake)
            os.close(self._wakes)

    def size(self) -> tuple[int, int]:
        """Returns the columns and lines of the terminal."""
        size = os.get_terminal_size(self._out)
        return max(1, size.columns), max(1, size.lines)

    def wake(self) -> None:
        """Ends a wait for keys. Any thread may call it while the terminal is open."""
        # If the pipe is full, the wait ends anyway.
        with suppress(OSError):
            os.write(self._wake, b"\0")

    def keys(self, timeout_s: float) -> list[str]:
        """Waits for keys.

        Args:
            timeout_s: How long to wait, in seconds.

        Returns:
            The keys in order: characters, or names such as `up`. None after the timeout, or once somebody has called `wake`.

        Raises:
            EOFError: the terminal has gone away.
        """
        ready, _, _ = select.select([self._in, self._wakes], [], [], timeout_s)
        if self._wakes in ready:
            while _read(self._wakes):
                pass
        if self._in not in ready:
            return []
        data = os.read(self._in, 1024)
        if not data:
            raise EOFError
        while data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([self._in], [], [], _ESCAPE_WAIT_S)[0]:
            data += os.read(self._in, 1024)
        return list(_parsed(data))

    def draw(self, lines: Sequence[Text]) -> None:
        """Draws a screen. Sends only the lines that differ from the present ones."""
        size = self.size()
        if size != self._size:
            self._size, self._drawn = size, []
        rendered = [_rendered(line, size[0]) for line in lines[: size[1]]]
        sent = [] if self._drawn else ["\x1b[0m\x1b[2J"]
        for number, text in enumerate(rendered):
            if number >= len(self._drawn) or self._drawn[number] != text:
                sent.append(f"\x1b[{number + 1};1H{text}\x1b[0m\x1b[K")
        if len(rendered) < len(self._drawn):
            sent.append(f"\x1b[{len(rendered) + 1};1H\x1b[0m\x1b[J")
        self._drawn = rendered
        self._write("".join(sent))

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "ascii", "replace")
        while data:
            data = data[os.write(self._out, data) :]


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1024)
    except BlockingIOError:
        return b""


def _rendered(line: Text, width: int) -> str:
    """Returns a line with the codes of its styles, as the environment permits them (NO_COLOR, TERM)."""
    out = io.StringIO()
    console = PrintableConsole(file=out, force_terminal=True, width=width, highlight=False, legacy_windows=False, soft_wrap=True)
    console.print(line, end="", no_wrap=True, overflow="crop", crop=True)
    return out.getvalue()


def _parsed(data: bytes) -> Iterator[str]:
    """Yields the keys in what a terminal has sent; unknown sequences are passed over."""
    text = data.decode(errors="ignore")
    at = 0
    while at < len(text):
        if text[at] == "\x1b" and at + 2 < len(text) and text[at + 1] in "[O":
            end = at + 2
            while end < len(text) - 1 and not ("@" <= text[end] <= "~"):
                end += 1
            if key := _KEYS.get(text[at : end + 1].encode()):
                yield key
            at = end + 1
            continue
        key = _KEYS.get(text[at].encode(), text[at])
        if len(key) > 1 or key.isprintable():
            yield key
        at += 1
