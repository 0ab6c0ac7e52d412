"""The bounded hand-off between the reader of a partition and the session's sender."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

from headrace.sdk._errors import InvalidMessage
from headrace.sdk._settings import FrameTarget
from headrace.sdk.wire._message import GONE, Backlog, Batch, Close, Message, Packed

Item = Message | Batch


_NOTHING, _SOME, _FLUSH, _FULL = range(4)
_CAPACITY_IN_FRAMES = 4


class Gather:
    """What a partition has read and its session has not sent yet.

    The reader adds, on its own thread or on the loop, and stops while `full`. The sender takes, on the loop; `changed` is
    called there whenever there is a reason to look: something to send, enough for a whole frame, caught up, ended.
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
        self.bytes = 0
        self.messages = 0
        self._loop = loop
        self._changed = changed
        self._target = target
        self._items: deque[Item] = deque()
        self._level = _NOTHING

    @property
    def enough(self) -> bool:
        """True where a whole frame waits."""
        return self.bytes >= self._target.bytes or self.messages >= self._target.messages

    def add(self, item: Item) -> None:
        """Adds what the source yielded. The caller looks at `full` afterwards.

        Raises:
            InvalidMessage: It is neither a message nor a batch.
        """
        size, count = _weight(item)
        # Once for each message: the lock itself rather than the condition around it, and every attribute once.
        with self._lock:
            self._items.append(item)
            self.bytes = gathered_bytes = self.bytes + size
            self.messages = gathered = self.messages + count
            self.caught_up = False
            if gathered_bytes >= self._target.bytes or gathered >= self._target.messages:
                self.full = self._is_full()
                if self.full:
                    self.room.clear()
                self._raise_to(_FULL)
            elif self._level == _NOTHING:
                self._raise_to(_SOME)

    def report(self, backlog: Backlog | None, *, caught_up: bool) -> None:
        """Notes what the source has left, or that it has nothing now."""
        with self.condition:
            if self.caught_up == caught_up and self.backlog == backlog:
                return
            self.backlog = backlog
            self.caught_up = caught_up
            self._raise_to(_FLUSH, again=True)

    def end(self, last: Close | None = None) -> None:
        """Notes that the source has ended, as it said `last`: for ever, for now (`CLOSE`), or never to come back (`GONE`)."""
        with self.condition:
            self.ended, self.gone = True, last is GONE
            self.for_now = last is not None and not self.gone
            self._raise_to(_FULL, again=True)

    def take(self) -> list[Item]:
        """Takes whole items for about one frame, at least one where there is any."""
        with self.condition:
            if not self.enough:
                items = list(self._items)
                self._items.clear()
                self.bytes = self.messages = 0
            else:
                items = self._take_some()
            self._level = _FULL if self.enough else _SOME if self._items else _NOTHING
            if self.full and not self._is_full():
                self.full = False
                self.room.set()
                self.condition.notify_all()
        return items

    def _take_some(self) -> list[Item]:
        """Takes items up to the target, not beyond it."""
        size = count = taken = 0
        for item in self._items:
            item_size, item_count = _weight(item)
            if taken and (size + item_size > self._target.bytes or count + item_count > self._target.messages):
                break
            size, count, taken = size + item_size, count + item_count, taken + 1
        items = [self._items.popleft() for _ in range(taken)]
        self.bytes -= size
        self.messages -= count
        return items

    def clear(self) -> None:
        """Drops everything that was gathered."""
        with self.condition:
            self._items.clear()
            self.bytes = self.messages = 0
            self.full = False
            self.room.set()
            self.condition.notify_all()

    def _is_full(self) -> bool:
        """True where the reader must wait; it goes on once half is taken, so as not to change hands for every item."""
        share = _CAPACITY_IN_FRAMES // 2 if self.full else _CAPACITY_IN_FRAMES
        return self.bytes >= share * self._target.bytes or self.messages >= share * self._target.messages

    def _raise_to(self, level: int, *, again: bool = False) -> None:
        """Wakes the sender, once for each level."""
        if level > self._level or again:
            self._level = max(level, self._level)
            # A reader that its owner gave up at shutdown may outlive the loop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed)


def _weight(item: Item) -> tuple[int, int]:
    """The bytes and messages of an item."""
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
