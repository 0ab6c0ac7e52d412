"""Logs that do not exist, and files that may have been rotated from them before anybody looked.

At a start, `app.log.1` may be what `app.log` was when it was last read, or a log of its own. Only a position tells. So a stream
is opened for the absent log too, and the file waits until that stream is read.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class AbsentLog:
    """A log that does not exist.

    Attributes:
        path: Its path.
        waiting: The partitions of files that may have been rotated from it.
    """

    path: str
    waiting: set[str] = field(default_factory=set)


class AbsentLogs:
    """The absent logs of a source, until it is known whether they were read before."""

    def __init__(self) -> None:
        """Creates it, without logs."""
        self._logs: dict[str, AbsentLog] = {}
        self._names: set[str] = set()
        self._rotated: set[str] = set()
        self._changed = asyncio.Event()

    def ask(self, partition: str, path: str, waiting: str) -> None:
        """Asks whether a log was read before, unless that is known.

        Args:
            partition: The partition of the log.
            path: Its path.
            waiting: The partition of a file that may have been rotated from it.
        """
        if partition not in self._names:
            self._logs.setdefault(partition, AbsentLog(path)).waiting.add(waiting)

    def listed(self) -> list[str]:
        """Returns the partitions of the logs."""
        return list(self._logs)

    def log(self, partition: str) -> AbsentLog | None:
        """Returns the absent log of a partition; None if the partition is a file."""
        return self._logs.get(partition)

    def answer(self, partition: str, *, was_read: bool) -> None:
        """Notes whether a log was read before: if so, the files that wait for it belong to it."""
        log = self._logs.pop(partition)
        self._names.add(partition)
        if was_read:
            self._rotated |= log.waiting
        self._changed.set()

    async def is_own(self, partition: str, seconds: float) -> bool:
        """Waits until it is known whether a file is a log of its own, for a limited time; then it is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(partition in log.waiting for log in list(self._logs.values())):
                    self._changed.clear()
                    await self._changed.wait()
        if partition in self._rotated:
            self._rotated.discard(partition)
            return False
        self.begin(partition)
        return True

    def begin(self, partition: str) -> None:
        """Notes that a file is read as a log of its own."""
        for log in list(self._logs.values()):
            log.waiting.discard(partition)
