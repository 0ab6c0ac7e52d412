"""Decides which streams are open: if there are more files than streams, they take turns."""

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.connectors.file.watch import State, state_of

# The number of closed files that are checked per second, which takes about ten milliseconds.
_LOOKED_AT = 5_000
_LOOK_S = 1.0


@dataclass(slots=True)
class _Closed:
    """A temporarily closed stream.

    Attributes:
        path: Its file.
        state: The state of the path at that time.
        at: When it was closed, by the monotonic clock, in seconds.
    """

    path: str
    state: State
    at: float


class Turns:
    """Manages turns. A stream opens with its first turn; a closed stream gets another once its file has changed."""

    def __init__(self, at_most: int, again_seconds: float) -> None:
        """Creates the turns, without streams.

        Args:
            at_most: Maximum number of simultaneous turns.
            again_seconds: After how many seconds an unchanged file gets another turn, because a new query may have to read it.
        """
        self._at_most = at_most
        self._again_seconds = again_seconds
        self._open: dict[str, None] = {}
        self._waiting: dict[str, None] = {}
        self._closed: dict[str, _Closed] = {}
        self._ended: set[str] = set()
        self._to_look_at: deque[str] = deque()
        self._partitions: Sequence[str] = ()
        self._next_look = 0.0
        # Checking files needs a thread; streams are read, and end, on the loop.
        self._lock = threading.Lock()

    @property
    def wanted(self) -> bool:
        """Whether others wait for a turn."""
        return bool(self._waiting)

    def listed(self, partitions: Sequence[str], allowed: int) -> list[str]:
        """Returns the streams whose turn it is, of all that exist."""
        with self._lock:
            if partitions is not self._partitions:
                self._partitions = partitions
                self._compare(partitions)
            self._look_at_closed()
            while self._waiting and len(self._open) < min(self._at_most, allowed):
                partition = next(iter(self._waiting))
                del self._waiting[partition]
                self._open[partition] = None
            return list(self._open)

    def _compare(self, partitions: Sequence[str]) -> None:
        """Removes streams that no longer exist, and adds new ones to the queue."""
        known = set(partitions)
        for gone in [partition for partition in self._closed if partition not in known]:
            del self._closed[gone]
        self._ended &= known
        self._waiting = {partition: None for partition in self._waiting if partition in known}
        for partition in partitions:
            if partition not in self._open and partition not in self._closed and partition not in self._ended:
                self._waiting[partition] = None

    def close(self, partition: str, path: Path, state: State) -> None:
        """Ends the turn of a stream."""
        with self._lock:
            self._open.pop(partition, None)
            self._closed[partition] = _Closed(os.fspath(path), state, time.monotonic())
            self._to_look_at.append(partition)

    def end(self, partition: str) -> None:
        """Notes that a stream has ended."""
        with self._lock:
            self._open.pop(partition, None)
            self._ended.add(partition)

    def renew(self, partition: str) -> None:
        """Notes that an ended stream is gone: a file with its name counts as a new one."""
        with self._lock:
            self._ended.discard(partition)

    def begin_again(self) -> None:
        """Gives all closed streams another turn, because a query has not read them."""
        with self._lock:
            self._waiting.update(dict.fromkeys(self._closed))
            self._closed.clear()
            self._to_look_at.clear()

    def _look_at_closed(self) -> None:
        """Gives another turn to streams that have changed or were closed long ago; checks some of them at each call."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look, long_ago = now + _LOOK_S, now - self._again_seconds
        for _ in range(min(_LOOKED_AT, len(self._to_look_at))):
            partition = self._to_look_at.popleft()
            closed = self._closed.get(partition)
            if closed is None:
                continue
            if closed.at < long_ago or state_of(closed.path) != closed.state:
                del self._closed[partition]
                self._waiting[partition] = None
            else:
                self._to_look_at.append(partition)
