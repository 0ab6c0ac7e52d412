"""The output of commands: one-line failures, tables for people, JSON for programs."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from headrace.contract.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED = 1
EXIT_INVALID = 2
EXIT_ENVIRONMENT = 3

_WIDTH_OF_A_PIPE = 200
_FURTHER = 4
"""By how much the rest of a broken line is indented."""
_DAY_MS = 86_400_000


class Failure(click.ClickException):
    """Ends a command with one clear line on standard error, or with one object if it has --json, and an exit code.

    Attributes:
        summary: The field `summary` of the object, such as unchanged parts; None for the first line of the message.
        result: What the object has as `result`: what was found or done before the failure.
    """

    def __init__(
        self,
        message: str,
        exit_code: int = EXIT_FAILED,
        *,
        summary: str | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class, and reads it from the instance
        self.summary, self.result = summary, result

    def with_summary(self, summary: str) -> "Failure":
        """Returns the same failure, with what is as before."""
        return Failure(self.message, self.exit_code, summary=summary, result=self.result)

    def format_message(self) -> str:
        """Returns the line. It may quote what a connector has said."""
        return printable(super().format_message())


def print_line(text: str = "", *, err: bool = False) -> None:
    """Prints a line, or several, on standard output or standard error. It may quote what a connector has said."""
    click.echo(printable(text), err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Prints lines of prose. Where the terminal ends, a line is broken between words, and continues further to the right.

    Whatever reads a pipe gets whole lines.
    """
    width = _width()
    lines = printable(text).split("\n")
    click.echo("\n".join(lines if width is None else (part for line in lines for part in _broken(line, width))), err=err)


def _width() -> int | None:
    """Returns the width of the terminal, or the one that COLUMNS names; None for a pipe."""
    return shutil.get_terminal_size().columns if "COLUMNS" in os.environ or sys.stdout.isatty() else None


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    further = " " * (len(line) - len(line.lstrip(" ")) + _FURTHER)
    return textwrap.wrap(
        line, width, subsequent_indent=further, expand_tabs=False, break_long_words=False, break_on_hyphens=False
    ) or [""]


def print_json(document: Any, *, compact: bool = False) -> None:
    """Prints one JSON document, on one line if `compact` is set or standard output is not a terminal."""
    print_line(json.dumps(document, indent=2 if sys.stdout.isatty() and not compact else None))


def console() -> "Console":
    """Creates a console on standard output, with colours on a terminal unless NO_COLOR is set, and ASCII lines without UTF-8."""
    from headrace.terminal.tables import PrintableConsole

    terminal = sys.stdout.isatty()
    return PrintableConsole(highlight=False, width=None if terminal or "COLUMNS" in os.environ else _WIDTH_OF_A_PIPE)


def bytes_text(count: int) -> str:
    """Formats a size in bytes for people: `3.4 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def ago_text(milliseconds: int) -> str:
    """Formats a moment, such as "9m 05s ago (14:03:12)": the local time, with the date if that is a day ago or more."""
    now = datetime.now(UTC)
    at = now - timedelta(milliseconds=min(milliseconds, now.timestamp() * 1000))
    form = "%H:%M:%S" if milliseconds < _DAY_MS else "%Y-%m-%d %H:%M:%S"
    return f"{duration_text(milliseconds)} ago ({at.astimezone().strftime(form)})"


def duration_text(milliseconds: int) -> str:
    """Formats a time span for people: `140 ms`, `3.2 s`, `45 s`, `4m 05s`, `3h 12m`, `2d 04h`. Smaller units are cut off.

    The console does the same: gateway/console/test/durations.json has the cases that both are tested with.
    """
    milliseconds = max(0, milliseconds)
    seconds = milliseconds // 1000
    if seconds < 1:
        return f"{milliseconds} ms"
    if seconds < 10:
        return f"{seconds}.{milliseconds // 100 % 10} s"
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 48 else f"{hours // 24}d {hours % 24:02}h"
