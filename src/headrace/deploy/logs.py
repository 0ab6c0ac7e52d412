"""Reads the logs of supervised processes: for why one has ended, and for people. A log may have vanished."""

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from headrace.machine.traces import JVM_ENDED, last_words, without_progress

_LAST_BYTES = 16 << 10
_MAX_TAIL_BYTES = 256 << 10
_ERROR_LEVELS = ("error", "critical")
_WARNING_LEVELS = ("warning", *_ERROR_LEVELS)
_WARNS = re.compile(r"\d{4}-\d\d-\d\dT\S+Z (?:WARNING|ERROR|CRITICAL): (?P<why>.*)")
_SAYS_WHY = re.compile(r"(?:\d{4}-\d\d-\d\dT\S+Z (?:Error|ERROR)\b:?\s*|(?:Error|ERROR): )(?P<why>.*)")
"""Log lines begin with a timestamp; other output of a command does not, and other programs begin lines with Error, too."""


def size_of(log: Path) -> int:
    """Returns the size of a log in bytes; 0 if there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_error_line(log: Path, offset: int) -> str:
    """Returns the last error that a process has logged since byte `offset`, else its last line; empty if the log is gone."""
    lines = _end_of(log, offset)
    last = last_words(lines)
    whys = [why for line in lines if (why := _why_of(line)) is not None]
    # A JVM that does not start begins lines with Error, too.
    return whys[-1] if whys and not last.startswith(JVM_ENDED) else last


def last_warning(log: Path, offset: int) -> str:
    """Returns the last warning or error that a process has logged since byte `offset`, no other line of it; empty for none."""
    found = ""
    for line in _end_of(log, offset):
        warns = _WARNS.match(line)
        found = (warns["why"] if warns is not None else _why_of(line, _WARNING_LEVELS) if line.startswith("{") else "") or found
    return found


def _end_of(log: Path, offset: int) -> list[str]:
    """Returns the last lines of a log after byte `offset` that are not empty; none if the log is gone."""
    try:
        with _opened(log) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0 if offset > size else offset, size - _LAST_BYTES))
            said = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in without_progress(said).splitlines() if line.strip()]


def last_lines(log: Path, count: int) -> list[str]:
    """Returns the last lines of a log, up to a number and 256 KiB of them, the newest last; none if there is no log.

    Raises:
        OSError: It cannot be read, or is no file.
    """
    try:
        file = _opened(log)
    except FileNotFoundError:
        return []
    with file:
        first = max(0, os.fstat(file.fileno()).st_size - _MAX_TAIL_BYTES)
        file.seek(first)
        lines = without_progress(file.read(_MAX_TAIL_BYTES).decode(errors="replace")).splitlines()
    # The first one may have lost its beginning.
    return lines[1 if first and len(lines) > 1 else 0 :][-count:] if count > 0 else []


def _opened(log: Path) -> BinaryIO:
    """Opens a log to read it. What stands in its place, such as a FIFO, is not waited for.

    Raises:
        OSError: It cannot be opened, or is no file.
    """
    file = open(os.open(log, os.O_RDONLY | os.O_NONBLOCK), "rb")  # noqa: SIM115  # the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no file")
    return file


def _why_of(line: str, levels: tuple[str, ...] = _ERROR_LEVELS) -> str | None:
    """Returns the error that a line of a log is about, in either format; None if it is about none."""
    if not line.startswith("{"):
        found = _SAYS_WHY.match(line)
        return None if found is None else found["why"]
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("level") not in levels:
        return None
    return ": ".join(str(document[name]) for name in ("event", "error") if document.get(name))
