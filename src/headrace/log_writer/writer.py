"""Reads the pipes of processes, and writes what they print into their logs, or to standard error."""

import os
import selectors
import time
from pathlib import Path
from typing import Any

from headrace.log_writer.file import LogFile
from headrace.log_writer.lines import Lines

_READ_BYTES = 64 << 10
_MOST_READ_BYTES = 4 << 20
"""How much is read of one pipe before a question is answered: a process that prints without end must not delay it for ever."""
_LOOK_EVERY_S = 0.5
_MOST_FAULTS = 200


class Writer:
    """Reads pipes until each has reached its end. It never waits for the disk to have room."""

    def __init__(self, largest_bytes: int, lines: Lines | None = None) -> None:
        """Reads nothing yet.

        Args:
            largest_bytes: When a log is renamed.
            lines: Where lines go besides; None for nowhere.
        """
        self._largest_bytes = largest_bytes
        self._lines = lines
        self._files: dict[str, LogFile] = {}
        self._pipes = selectors.EpollSelector()
        self._looked_at = float("-inf")

    def fileno(self) -> int:
        """The descriptor that can be read once a pipe can."""
        return self._pipes.fileno()

    @property
    def waits(self) -> bool:
        """Whether something is to be tried again."""
        return any(file.waits for file in self._files.values())

    def waits_for(self, name: str) -> bool:
        """Whether something of the log of a process is to be tried again."""
        return name in self._files and self._files[name].waits

    @property
    def has_pipes(self) -> bool:
        """Whether a pipe has not reached its end."""
        return bool(self._pipes.get_map())

    def add(self, name: str, path: Path, pipe: int) -> None:
        """Reads one more pipe.

        Args:
            name: The process that writes to it.
            path: Its log.
            pipe: A descriptor that does not block; the writer closes it.
        """
        known = self._files.get(name)
        if known is None or known.path != path:
            self._files[name] = file = LogFile(path, self._largest_bytes)
            file.open()
        self._pipes.register(pipe, selectors.EVENT_READ, name)

    def leave(self, name: str) -> None:
        """Forgets a process, after its last words."""
        for key in list(self._pipes.get_map().values()):
            if key.data == name:
                self._read(key, _MOST_READ_BYTES)
                self._end(key)
        file = self._files.pop(name, None)
        if file is not None:
            file.close()

    def step(self) -> None:
        """Writes what has arrived."""
        for key, _ in self._pipes.select(0) if self.has_pipes else ():
            self._read(key, _READ_BYTES)
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            for file in self._files.values():
                if file.waits:
                    file.flush()

    def catch_up(self) -> None:
        """Writes all that processes have printed until now."""
        for key in list(self._pipes.get_map().values()):
            self._read(key, _MOST_READ_BYTES)

    def state(self) -> dict[str, Any]:
        """Returns what is wrong, as plain data: the fault of each log that has one, and how many bytes each has lost."""
        faults = {name: file.fault for name, file in self._files.items() if file.fault is not None}
        lost = {name: file.lost_bytes for name, file in self._files.items() if file.lost_bytes}
        output = {} if self._lines is None or self._lines.fault is None else {"": self._lines.fault}
        return {"faults": dict([*output.items(), *faults.items()][:_MOST_FAULTS]), "lost": dict([*lost.items()][:_MOST_FAULTS])}

    def close(self) -> None:
        """Writes what is left, and closes all."""
        for key in list(self._pipes.get_map().values()):
            self._read(key, _MOST_READ_BYTES)
            self._end(key)
        for file in self._files.values():
            file.close()
        self._pipes.close()

    def _read(self, key: selectors.SelectorKey, most: int) -> None:
        """Reads what is in a pipe, at most so much."""
        while most > 0:
            try:
                output = os.read(key.fd, _READ_BYTES)
            except BlockingIOError:
                return
            if not output:
                self._end(key)
                return
            most -= len(output)
            self._files[key.data].write(output)
            if self._lines is not None:
                self._lines.write(key.data, output)

    def _end(self, key: selectors.SelectorKey) -> None:
        if key.fd in self._pipes.get_map():
            self._pipes.unregister(key.fd)
            os.close(key.fd)
            if self._lines is not None:
                self._lines.end(key.data)
