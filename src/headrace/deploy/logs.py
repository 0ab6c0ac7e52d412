"""The logs of supervised processes: kept small, and read for why a process has ended. A log may vanish, and its disk fill up."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from headrace.processes import last_words

_LARGEST_BYTES = 32 << 20
_LEAST_KEPT_BYTES = 1 << 20
_LAST_BYTES = 16 << 10
_LARGEST_TAIL_BYTES = 256 << 10
_SAYS_WHY = re.compile(r"(?:\d{4}-\d\d-\d\dT\S+Z )?(?:Error|ERROR)\b:?\s*(?P<why>.*)")
"""Log lines begin with a timestamp; other output of a command does not."""
T = TypeVar("T")

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Logs:
    """Rotates logs that have grown large."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Creates it.

        Args:
            tell: Called with lines for people.
        """
        self._tell = tell
        self._failed: dict[Path, str] = {}

    def keep_small(self, logs: Iterable[Path]) -> None:
        """Rotates each log that is large. Tells once why one cannot be rotated; the next call tries again."""
        for log in logs:
            try:
                left_out = _rotate(log)
            except OSError as error:
                # Without the numbers in it, which change from call to call.
                why = error.strerror or str(error)
                if self._failed.get(log) != why:
                    self._tell(f"cannot rotate {log}: {why}; this is tried again every second, and the processes run on")
                self._failed[log] = why
            else:
                self._failed.pop(log, None)
                if left_out:
                    self._tell(f"rotated {log} without its first {left_out} bytes, for which the disk has no room")


def _rotate(log: Path) -> int:
    """Copies a large log and truncates it: processes append to it for as long as they live. The two newest pieces are kept.

    If there is no room for all of it, the newest part is kept that leaves half of the room free. Returns the bytes left out.

    Raises:
        OSError: There is no room for a copy worth keeping, or it cannot be written. The older copy is still there.
    """
    size = size_of(log)
    if size <= _LARGEST_BYTES:
        return 0
    disk = os.statvfs(log.parent)
    room = disk.f_bavail * disk.f_frsize
    left_out = 0 if room >= size else size - room // 2
    if size - left_out < _LEAST_KEPT_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    copy, new = log.with_suffix(".1.log"), log.with_suffix(".1.log.new")
    try:
        with log.open("rb") as old, new.open("wb") as kept:
            old.seek(left_out)
            shutil.copyfileobj(old, kept, 1 << 20)
        new.replace(copy)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    os.truncate(log, 0)
    return left_out


def size_of(log: Path) -> int:
    """Returns the size of a log in bytes; 0 if there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_error_line(log: Path, offset: int) -> str:
    """Returns the last error that a process has logged since byte `offset`, else its last line; empty if the log is gone."""
    try:
        with log.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0 if offset > size else offset, size - _LAST_BYTES))
            said = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    whys = [why for line in lines if (why := _why_of(line)) is not None]
    return whys[-1] if whys else last_words(lines)


def last_lines(log: Path, count: int) -> list[str]:
    """Returns the last lines of a log, at most so many and at most 256 KiB of them, the newest last; none if there is no log.

    Raises:
        OSError: It cannot be read, or is no file.
    """
    try:
        # What stands in place of a log, such as a FIFO, must not be waited for.
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return []
    with open(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        first = max(0, found.st_size - _LARGEST_TAIL_BYTES)
        file.seek(first)
        lines = file.read(_LARGEST_TAIL_BYTES).decode(errors="replace").splitlines()
    # The first one may have lost its beginning.
    return lines[1 if first and len(lines) > 1 else 0 :][-count:] if count > 0 else []


def _why_of(line: str) -> str | None:
    """Returns the error that a line of a log is about, in either format; None if it is about none."""
    if not line.startswith("{"):
        found = _SAYS_WHY.match(line)
        return None if found is None else found["why"]
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if document.get("level") not in ("error", "critical"):
        return None
    return ": ".join(str(document[name]) for name in ("event", "error") if document.get(name))


def unless_full(tell: Callable[[T], None]) -> Callable[[T], None]:
    """Returns `tell`, without its errors where the output goes to a full disk: that must not end what it tells about."""

    def told(line: T) -> None:
        try:
            tell(line)
        except OSError as error:
            if error.errno not in _FULL:
                raise

    return told
