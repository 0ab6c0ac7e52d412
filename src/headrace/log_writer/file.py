"""A log file that is found again after somebody has renamed, removed or truncated it, and that keeps itself small."""

import contextlib
import errno
import json
import os
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

MAX_WAITING_BYTES = 4 << 20
"""How much waits in memory while the file cannot be written; what comes after that is lost, and counted."""
RETRY_EVERY_S = 0.5
_MAX_WRITTEN_BYTES = 256 << 10


class LogFile:
    """Appends lines to a file, each whole in one file. No method raises an error of the file, or waits for room.

    One thread may take output while another one writes: only `open`, `flush` and `close` wait for the disk.

    Attributes:
        path: The file.
        lost_bytes: How many bytes of output had no room, neither in the file nor in memory. A line in the file tells how many are
            missing, in their place.
    """

    def __init__(self, path: Path, largest_bytes: int, now: Callable[[], float] = time.monotonic) -> None:
        """Opens nothing yet.

        Args:
            path: The file.
            largest_bytes: A larger file is renamed to `NAME.1.log`, in the place of an older one.
            now: A monotonic clock, in seconds.
        """
        self.path = path
        self.lost_bytes = 0
        self._largest_bytes = largest_bytes
        self._now = now
        self._descriptor: int | None = None
        self._is_new = True
        """Whether nobody has tried to open it yet."""
        self._lock = threading.Lock()
        """Guards what `take` and the thread of the disk have in common; nobody holds it while the disk works."""
        self._waiting = bytearray()
        self._missing_bytes = 0
        """How many bytes were lost after what waits, and are not told in the file yet."""
        self._is_json = False
        """Whether the last line that was taken may be a JSON object."""
        self._faults: dict[str, str] = {}
        self._retry_at: dict[str, float] = {}
        self._since_look = 0
        self._is_full = False
        self._begins_line = True
        """Whether the next byte to write begins a line."""
        self._took_part = False
        """Whether the last line that was taken has no end yet."""
        self._skips = False
        """Whether the rest of a line is dropped, whose beginning had no room."""

    @property
    def fault(self) -> str | None:
        """Why lines do not reach the file, or why it is not renamed; None if all is well."""
        with self._lock:
            return "; ".join(f"cannot {what}: {why}" for what, why in self._faults.items()) or None

    @property
    def waits(self) -> bool:
        """Whether something is to be tried again."""
        return bool(self._waiting or self._missing_bytes or self._faults or self._is_new)

    def open(self) -> None:
        """Opens the file, so that it is there, and a fault of it known, before anything is written."""
        self._open()

    def take(self, output: bytes) -> None:
        """Keeps output until it is written, as far as there is room: a line that begins without room is dropped whole.

        Output may end in the middle of a line. Every line ends in the file in which it begins.
        """
        with self._lock:
            self._take(output)

    def flush(self) -> None:
        """Writes what waits, unless that has failed a moment ago."""
        if self._may("write it") and (self._descriptor is not None or self._may("open it")):
            self._write_waiting()

    def close(self) -> None:
        """Tries once more to write what waits, and closes the file."""
        self._write_waiting()
        with self._lock:
            self.lost_bytes += len(self._waiting)
            self._waiting.clear()
            self._missing_bytes = 0
        self._leave()

    def _take(self, output: bytes) -> None:
        if self._skips:
            end = output.find(b"\n") + 1
            self._lose(end or len(output))
            self._skips, output = not end, output[end:] if end else b""
        if not output:
            return
        if not self._took_part:
            self._is_json = output.startswith(b"{")
        # The lost part has ended with a line.
        missing = self._told_missing()
        room = MAX_WAITING_BYTES - len(self._waiting) - len(missing)
        if len(output) <= room:
            kept = output
        else:
            kept = output[: output.rfind(b"\n", 0, max(0, room)) + 1]
            self._skips = not output.endswith(b"\n")
        if kept:
            self._put(missing)
            self._took_part = not kept.endswith(b"\n")
        lost = len(output) - len(kept)
        if lost and not kept and self._took_part:
            # The line that lost its end ends here, so that the next one begins a line.
            kept = b"\n"
            lost -= output.startswith(kept)
            self._took_part = False
        self._waiting += kept
        self._lose(lost)

    def _lose(self, size: int) -> None:
        self.lost_bytes += size
        self._missing_bytes += size

    def _told_missing(self) -> bytes:
        """The line that tells how much is missing in this place; empty if nothing is."""
        return told_missing(self._missing_bytes, as_json=self._is_json) if self._missing_bytes else b""

    def _put(self, missing: bytes) -> None:
        if missing:
            self._waiting += missing
            self._missing_bytes = 0

    def _next_part(self) -> bytes:
        """Returns what to write next; empty if nothing waits."""
        with self._lock:
            if not self._waiting:
                self._put(self._told_missing())
            end = len(self._waiting) if self._begins_line else self._waiting.find(b"\n") + 1 or len(self._waiting)
            return bytes(self._waiting[: min(end, _MAX_WRITTEN_BYTES)])

    def _write_waiting(self) -> None:
        if not self.waits:
            return
        try:
            while True:
                if self._begins_line or self._must_look():
                    self._look()
                part = self._next_part()
                if not part or self._descriptor is None:
                    return
                written = os.write(self._descriptor, part)
                self._begins_line = part[written - 1] == ord("\n")
                # Only a line that is itself too long may be cut.
                last = part.rfind(b"\n", 0, written)
                self._since_look = written - last - 1 if last >= 0 else self._since_look + written
                with self._lock:
                    del self._waiting[:written]
                self._succeeded("write it")
        except OSError as error:
            self._is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self._failed("write it", error)

    def _must_look(self) -> bool:
        """Whether to look in the middle of a line: a removed file keeps its room, or it cannot be written."""
        if self._descriptor is None or self._since_look > self._largest_bytes:
            return True
        return "write it" in self._faults and (not self._is_full or not os.fstat(self._descriptor).st_nlink)

    def _look(self) -> None:
        """Opens the file if it is not the one that is open, and renames it if it is large. A file that is open stays in use."""
        self._since_look = 0
        try:
            there: os.stat_result | None = os.stat(self.path)
        except OSError:
            # Opening it tells why.
            there = None
        if self._descriptor is None or there is None or not os.path.samestat(there, os.fstat(self._descriptor)):
            if self._may("open it"):
                self._open()
            return
        self._succeeded("open it")
        if not stat.S_ISREG(there.st_mode) or there.st_size <= self._largest_bytes:
            self._succeeded("rename it")
        elif self._may("rename it"):
            try:
                self.path.replace(self.path.with_suffix(".1.log"))
            except OSError as error:
                self._failed("rename it", error)
            else:
                self._succeeded("rename it")
                self._open()

    def _open(self) -> None:
        try:
            descriptor = opened(self.path)
        except OSError as error:
            self._failed("open it", error)
            return
        finally:
            self._is_new = False
        self._succeeded("open it")
        self._leave()
        self._descriptor = descriptor

    def _leave(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError as error:
                # It is closed nevertheless: another file may have its number by now.
                self._failed("write it", error)

    def _failed(self, what: str, error: OSError) -> None:
        self._retry_at[what] = self._now() + RETRY_EVERY_S
        with self._lock:
            self._faults[what] = error.strerror or str(error)

    def _succeeded(self, what: str) -> None:
        self._retry_at.pop(what, None)
        with self._lock:
            self._faults.pop(what, None)

    def _may(self, what: str) -> bool:
        """Whether something has not failed a moment ago."""
        return self._now() >= self._retry_at.get(what, float("-inf"))


def told_missing(size: int, *, as_json: bool) -> bytes:
    """Returns the line of a log that stands for output that is missing.

    Args:
        size: How many bytes are missing.
        as_json: Whether the lines beside it are JSON objects.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    event = f"{size:,} bytes of output are missing here, for which there was no room"
    if as_json:
        document = {"timestamp": now, "level": "warning", "logger": "headrace.log_writer", "event": event}
        return json.dumps(document).encode() + b"\n"
    return f"{now} WARNING: {event}\n".encode()


def opened(path: Path) -> int:
    """Opens a log to append to it, and returns its descriptor. Its folder is created if it is gone.

    Raises:
        OSError: It cannot be opened, or something else is in its place, such as a FIFO, which would make it wait for a reader.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode):
            raise OSError(errno.EINVAL, "it is no file")
    except OSError:
        close(descriptor)
        raise
    return descriptor


def close(descriptor: int) -> None:
    """Closes a file. The system closes it even where it reports an error."""
    with contextlib.suppress(OSError):
        os.close(descriptor)
