"""The bounded buffer between the reader of a partition and the session's sender."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

from headrace.sdk._errors import InvalidMessage
from headrace.sdk._settings import FrameTarget
from headrace.sdk.wire._message import GONE, Backlog, Batch, Close, Message, Packed

Item = Message | Batch
_Run = tuple[list[Item], int, int]
"""Items for one frame, their size in bytes, and the number of their messages."""

_NOTHING, _SOME, _FLUSH, _FULL = range(4)
_CAPACITY_IN_FRAMES = 4


class Gather:
    """Messages of a partition that were read and not yet sent.

    The reader adds items, on its thread or on the event loop, and pauses while `full` is set. The sender takes them on the event
    loop. `changed` is called there when there is something to send, enough for a whole frame, or when the source has caught up
    or ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None], target: FrameTarget) -> None:
        """Starts empty."""
        self._lock = threading.Lock()
        self.condition = threading.Condition(self._lock)
        self.full = False
        self.room = asyncio.Event()
        self.ended = False
        self.for_now = self.gone = False
        self.caught_up = False
        self.backlog: Backlog | None = None
        self._loop = loop
        self._changed = changed
        self._target_bytes, self._target_messages = target.bytes, target.messages
        # What was added goes to the last run, until it is as large as a frame.
        self._runs: deque[_Run] = deque()
        self._last: list[Item] = []
        self._last_bytes = self._last_messages = 0
        self._runs_bytes = self._runs_messages = 0
        self._level = _NOTHING

    @property
    def bytes(self) -> int:
        """The size of the keys and values, in bytes."""
        return self._runs_bytes + self._last_bytes

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self._runs_messages + self._last_messages

    @property
    def enough(self) -> bool:
        """Whether there is enough for a whole frame."""
        return bool(self._runs)

    def add(self, item: Item) -> None:
        """Adds an item that the source yielded. The caller must check `full` afterwards.

        Raises:
            InvalidMessage: The item is neither a message nor a batch, or a key or value is not bytes.
        """
        # Runs for each message: the commonest kind is weighed here, and the lock is used without its condition.
        if type(item) is Message and item.key is None and type(item.value) is bytes:
            size, count = len(item.value), 1
        else:
            size, count = _weight(item)
        with self._lock:
            self.caught_up = False
            last_bytes, last_messages = self._last_bytes + size, self._last_messages + count
            if last_bytes < self._target_bytes and last_messages < self._target_messages:
                self._last.append(item)
                self._last_bytes, self._last_messages = last_bytes, last_messages
                if self._level == _NOTHING:
                    self._raise_to(_SOME)
            else:
                self._complete(item, size, count)

    def _complete(self, item: Item, size: int, count: int) -> None:
        """Adds the item with which the last run is complete, or exceeds a frame: it then begins the next one."""
        if self._last and (self._last_bytes + size > self._target_bytes or self._last_messages + count > self._target_messages):
            self._end_run()
        self._last.append(item)
        self._last_bytes, self._last_messages = self._last_bytes + size, self._last_messages + count
        if self._last_bytes >= self._target_bytes or self._last_messages >= self._target_messages:
            self._end_run()
        self.full = self._is_full()
        if self.full:
            self.room.clear()
        self._raise_to(_FULL)

    def _end_run(self) -> None:
        self._runs.append((self._last, self._last_bytes, self._last_messages))
        self._runs_bytes += self._last_bytes
        self._runs_messages += self._last_messages
        self._last, self._last_bytes, self._last_messages = [], 0, 0

    def report(self, backlog: Backlog | None, *, caught_up: bool) -> None:
        """Notes the source's backlog, and whether the source has caught up."""
        with self.condition:
            if self.caught_up == caught_up and self.backlog == backlog:
                return
            self.backlog = backlog
            self.caught_up = caught_up
            self._raise_to(_FLUSH, again=True)

    def end(self, last: Close | None = None) -> None:
        """Notes that the source has ended; `last` is None (for good), `CLOSE` (temporarily) or `GONE` (permanently removed)."""
        with self.condition:
            self.ended, self.gone = True, last is GONE
            self.for_now = last is not None and not self.gone
            self._raise_to(_FULL, again=True)

    def take(self) -> list[Item]:
        """Removes and returns items for about one frame, and at least one if there is any."""
        with self.condition:
            if not self._runs:
                self._end_run()
            items, size, count = self._runs.popleft()
            self._runs_bytes -= size
            self._runs_messages -= count
            self._level = _FULL if self._runs else _SOME if self._last else _NOTHING
            if self.full and not self._is_full():
                self.full = False
                self.room.set()
                self.condition.notify_all()
        return items

    def clear(self) -> None:
        """Drops everything that was gathered."""
        with self.condition:
            self._end_run()
            self._runs.clear()
            self._runs_bytes = self._runs_messages = 0
            self.full = False
            self.room.set()
            self.condition.notify_all()

    def _is_full(self) -> bool:
        """Returns whether the reader must wait. It continues once half is taken, to avoid a thread switch for every item."""
        share = _CAPACITY_IN_FRAMES // 2 if self.full else _CAPACITY_IN_FRAMES
        return self.bytes >= share * self._target_bytes or self.messages >= share * self._target_messages

    def _raise_to(self, level: int, *, again: bool = False) -> None:
        """Wakes the sender when the fill level rises; with `again`, always."""
        if level > self._level or again:
            self._level = max(level, self._level)
            # A reader that was abandoned at shutdown may outlive the loop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed)


def _weight(item: Item) -> tuple[int, int]:
    """Returns the size of an item: the bytes of its keys and values, and the number of messages."""
    try:
        if isinstance(item, Message):
            value, key = item.value, item.key
            return (len(value) if value else 0) + (len(key) if key else 0), 1
        if not isinstance(item, Batch):
            raise InvalidMessage(f"read() must yield Message, Batch or None, not {type(item).__name__}")
        values = item.values
        if isinstance(values, Packed):
            return len(values.data), len(values.lengths)
        if None in values:
            return sum(len(value) for value in values if value is not None), len(values)
        return sum(map(len, values)), len(values)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidMessage(f"keys and values must be bytes or None: {error}") from error
