"""Reads the pipes of processes, and writes what they print into their logs, or to standard error."""

import os
import selectors
import time
from pathlib import Path
from typing import Any

from headrace.log_writer.disk import Disk
from headrace.log_writer.file import LogFile
from headrace.log_writer.lines import Lines

_READ_BYTES = 64 << 10
_MAX_READ_BYTES = 4 << 20
"""How much is read of one pipe before a question is answered: a process that prints without end must not delay it for ever."""
_LOOK_EVERY_S = 0.5
_BLOCKED_FOR_S = 0.1
"""How long it waits for the reader of standard error before it answers questions."""
_MAX_FAULTS = 200
NO_ANSWER = "cannot write it: its disk does not answer"
NO_READER = "cannot write to standard error: nobody reads it, and processes that print more than their pipes hold wait"


class Writer:
    """Reads pipes until each has reached its end.

    It waits for a disk for a moment only, so that what it has read and not written is little. While the disk hangs, it reads on
    into memory. While nobody reads standard error, it reads no pipe.
    """

    def __init__(
        self, largest_bytes: int, lines: Lines | None = None, disk: Disk | None = None, reader: Disk | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            largest_bytes: When a log is renamed.
            lines: Where lines go besides; None for nowhere.
            disk: What writes files; None for a thread of its own.
            reader: What writes lines; None for a thread of its own.
        """
        self._largest_bytes = largest_bytes
        self._lines = lines
        self._disk = disk or Disk()
        self._reader = reader or Disk()
        self._files: dict[str, LogFile] = {}
        self._unshown: set[str] = set()
        self._pipes = selectors.EpollSelector()
        self._looked_at = float("-inf")

    def fileno(self) -> int:
        """The descriptor that can be read once a pipe can."""
        return self._pipes.fileno()

    @property
    def waits(self) -> bool:
        """Whether something is to be tried again."""
        return self._disk.is_late or self._reader.is_late or any(file.waits for file in self._files.values())

    def waits_for(self, name: str) -> bool:
        """Whether something of the log of a process is not written yet, or is to be tried again."""
        return self._disk.is_late or self._reader.is_late or (name in self._files and self._files[name].waits)

    @property
    def has_pipes(self) -> bool:
        """Whether a pipe has not reached its end."""
        return bool(self._pipes.get_map())

    def add(self, name: str, path: Path, pipe: int, *, shows: bool = True) -> None:
        """Reads one more pipe.

        Args:
            name: The process that writes to it.
            path: Its log.
            pipe: A descriptor that does not block; the writer closes it.
            shows: Whether its lines go to standard error too, where lines do.
        """
        known = self._files.get(name)
        if known is None or known.path != path:
            self._files[name] = file = LogFile(path, self._largest_bytes)
            self._disk.do(file.open)
            self._disk.catch_up()
        (self._unshown.discard if shows else self._unshown.add)(name)
        self._pipes.register(pipe, selectors.EVENT_READ, name)

    def leave(self, name: str) -> None:
        """Forgets a process, after its last words."""
        for key in self._keys(name):
            self._read_all(key)
        self.let_go(name)

    def let_go(self, name: str) -> None:
        """Forgets a process, and leaves what is in its pipe to another reader."""
        for key in self._keys(name):
            self._end(key)
        file = self._files.pop(name, None)
        if file is not None:
            self._disk.do(file.close)
            self._disk.catch_up()

    def step(self) -> None:
        """Writes what has arrived."""
        if not self._reader.catch_up(_BLOCKED_FOR_S):
            return
        self._disk.catch_up()
        for key, _ in self._pipes.select(0) if self.has_pipes else ():
            self._read(key)
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            for file in self._files.values():
                if file.waits:
                    self._disk.do(file.flush)
            self._disk.catch_up()

    def catch_up(self) -> None:
        """Writes all that processes have printed until now, unless the disk or a reader keeps it waiting."""
        for key in list(self._pipes.get_map().values()):
            most = _MAX_READ_BYTES
            while most > 0 and not self._reader.is_late and (read := self._read(key)):
                most -= read

    def state(self) -> dict[str, Any]:
        """Returns what is wrong, as plain data: the fault of each log that has one, and how many bytes each has lost."""
        hangs = NO_ANSWER if self._disk.hangs else None
        known = {name: file.fault or (hangs if file.waits else None) for name, file in self._files.items()}
        faults = {name: fault for name, fault in known.items() if fault is not None}
        lost = {name: file.lost_bytes for name, file in self._files.items() if file.lost_bytes}
        shown = NO_READER if self._reader.hangs else self._lines.fault if self._lines is not None else None
        output = {} if shown is None else {"": shown}
        return {"faults": dict([*output.items(), *faults.items()][:_MAX_FAULTS]), "lost": dict([*lost.items()][:_MAX_FAULTS])}

    def close(self, within_s: float | None = None) -> bool:
        """Writes what is left, and closes all.

        Args:
            within_s: How long to wait for the disk at most, in seconds; None for as long as it takes.

        Returns:
            Whether the disk has answered in time.
        """
        for key in list(self._pipes.get_map().values()):
            self._read_all(key)
            self._end(key)
        for file in self._files.values():
            self._disk.do(file.close)
        self._pipes.close()
        has_written = self._disk.close(within_s)
        return self._reader.close(within_s) and has_written

    def _keys(self, name: str) -> list[selectors.SelectorKey]:
        return [key for key in self._pipes.get_map().values() if key.data == name]

    def _read_all(self, key: selectors.SelectorKey) -> None:
        """Reads what is in a pipe of a process that prints no more."""
        most = _MAX_READ_BYTES
        while most > 0 and (read := self._read(key)):
            most -= read

    def _read(self, key: selectors.SelectorKey) -> int:
        """Reads a part of what is in a pipe, and waits for a moment until it is written; returns how many bytes it had."""
        try:
            output = os.read(key.fd, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not output:
            self._end(key)
            return 0
        file = self._files[key.data]
        file.take(output)
        self._disk.do(file.flush)
        if self._lines is not None and key.data not in self._unshown:
            self._lines.take(key.data, output)
            self._reader.do(self._lines.flush)
            self._reader.catch_up()
        self._disk.catch_up()
        return len(output)

    def _end(self, key: selectors.SelectorKey) -> None:
        if key.fd in self._pipes.get_map():
            self._pipes.unregister(key.fd)
            os.close(key.fd)
            if self._lines is not None and key.data not in self._unshown:
                self._lines.end(key.data)
                self._reader.do(self._lines.flush)
