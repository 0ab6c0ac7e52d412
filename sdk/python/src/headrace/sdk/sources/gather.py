"""The bounded buffer between the reader of a partition and the session's sender."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from headrace.sdk._errors import InvalidMessage
from headrace.sdk._settings import FrameTarget
from headrace.sdk.wire import FIELDS, GONE, Backlog, Batch, Close, Message, Messages, Packed, fields_of, lone_cursor

Item = Messages | Batch
_Run = tuple[list[Item], int, int]
"""Items for one frame, their size in bytes, and the number of their messages."""

_NOTHING, _SOME, _FLUSH, _FULL = range(4)
_CAPACITY_IN_FRAMES = 4
_MIN_CAPACITY_MESSAGES = 4_096
"""How many messages wait at least, also where a frame has few: many small frames share a message to the gateway."""
ADDED, ENDED = object(), object()
"""What `add_plain` returns if it has added all that it took, and if there is nothing left to take."""


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
        self.attention = False
        """Whether the reader has something else to do than to add."""
        self.room = asyncio.Event()
        self.ended = False
        self.for_now = self.gone = False
        self.caught_up = False
        self.backlog: Backlog | None = None
        self.cursor: bytes | None = None
        """A cursor that has moved since the last message that was taken; only while nothing is gathered."""
        self.backlog_untold = False
        """Whether the source has reported its backlog since the sender last took it."""
        self._loop = loop
        self._changed = changed
        self._target_bytes, self._target_messages = target.bytes, target.messages
        self._capacity_bytes = _CAPACITY_IN_FRAMES * target.bytes
        self._capacity_messages = max(_CAPACITY_IN_FRAMES * target.messages, _MIN_CAPACITY_MESSAGES)
        # Complete runs, each as large as a frame.
        self._runs: deque[_Run] = deque()
        self._runs_bytes = self._runs_messages = 0
        # What was added goes to the last run: messages to its fields, until a batch follows. Without the lock, the reader only
        # appends to the fields, at once for each message, and the sender never replaces the list.
        self._last: list[Item] = []
        self._last_messages = 0
        self._fields: list[Any] = []
        self._max_fields = FIELDS * (target.messages - 1)
        # The size of the last run, which only the reader keeps: it is too large after the sender has taken messages from the run.
        self._last_bytes = 0
        self._level = _NOTHING
        self._woken = 0
        """How often the reader has woken the sender, or ended a run."""

    @property
    def bytes(self) -> int:
        """The size of the keys and values, in bytes. Takes as long as there are messages."""
        return self._runs_bytes + self._measured_last()

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self._runs_messages + self._last_messages + len(self._fields) // FIELDS

    def progress(self) -> object:
        """Returns what differs, nearly always, once the reader has added something."""
        return self._woken, self._last_bytes, len(self._fields)

    @property
    def enough(self) -> bool:
        """Whether there is enough for a whole frame."""
        return bool(self._runs)

    def add(self, item: Message | Batch) -> bool:
        """Adds an item that the source yielded. Returns whether the caller must check `full`, since the sender was woken.

        Raises:
            InvalidMessage: The item is neither a message nor a batch, or a key or value is not bytes.
        """
        # Runs for each message, so the commonest kind is added without the lock and without a call, such as `fields_of`.
        if type(item) is Message and type(item.value) is bytes and (item.key is None or type(item.key) is bytes):
            key, value, fields = item.key, item.value, self._fields
            size = self._last_bytes + len(value) + (0 if key is None else len(key))
            if size < self._target_bytes and len(fields) < self._max_fields:
                self._last_bytes = size
                is_plain = (
                    item.event_time is None
                    and item.message_id is None
                    and item.headers is None
                    and item.cursor is None
                    and item.token is None
                )
                fields += (value, key, item.sequence, None if is_plain else item)
                # The level is read after the message was added, and the sender lowers it before it takes messages: either the
                # sender takes this one, or it is woken.
                if self._level and not self.caught_up:
                    return False
                self._wake()
                return True
        self._add(item)
        return True

    def add_plain(self, items: Iterator[Any]) -> Any:
        """Adds messages of an iterator as long as they have neither further attributes nor an effect on anything else.

        Does what `add` does for each message, in one call for many of them.

        Returns:
            The first item that is not added, or `ENDED`; `ADDED` if the sender was woken, or the reader needs attention.
        """
        fields, max_fields, target_bytes = self._fields, self._max_fields, self._target_bytes
        for item in items:
            if type(item) is not Message:
                return item
            value, key = item.value, item.key
            if type(value) is not bytes:
                return item
            size = self._last_bytes + len(value)
            if key is not None:
                if type(key) is not bytes:
                    return item
                size += len(key)
            if size >= target_bytes or len(fields) >= max_fields:
                return item
            if not (
                item.event_time is None
                and item.message_id is None
                and item.headers is None
                and item.cursor is None
                and item.token is None
            ):
                return item
            self._last_bytes = size
            fields += (value, key, item.sequence, None)
            if not self._level or self.caught_up:
                self._wake()
                return ADDED
            if self.attention:
                return ADDED
        return ENDED

    def _wake(self) -> None:
        """Wakes the sender for the first message after it has taken everything, or after the source had caught up."""
        with self._lock:
            self._woken += 1
            self.caught_up = False
            if self.messages - self._runs_messages == 1:
                self._last_bytes = self._measured_last()
            if self._level == _NOTHING:
                self._raise_to(_SOME)

    def _add(self, item: Message | Batch) -> None:
        """Adds any item, perhaps one that completes the last run, or exceeds a frame: it then begins the next one."""
        self._woken += 1
        if isinstance(item, Batch) and lone_cursor(item) is not None:
            self._move_cursor(item)
            return
        size, count = _weight(item)
        with self._lock:
            self.caught_up = False
            if not self._last and not self._fields:
                self._last_bytes = 0
            last_bytes, last_messages = self._last_bytes, self._last_messages + len(self._fields) // FIELDS
            if last_messages and (last_bytes + size > self._target_bytes or last_messages + count > self._target_messages):
                self._end_run()
            if isinstance(item, Batch):
                self._seal_fields()
                self._last.append(item)
                self._last_messages += count
            else:
                self._fields += fields_of(item)
            self._last_bytes += size
            last_messages = self._last_messages + len(self._fields) // FIELDS
            if self._last_bytes >= self._target_bytes or last_messages >= self._target_messages:
                self._end_run()
            self.full = self._is_full()
            if self.full:
                self.room.clear()
            self._raise_to(_FULL if self._runs else _SOME)

    def _move_cursor(self, item: Batch) -> None:
        """Adds a cursor without messages to what was gathered before it, or keeps it if that is nothing.

        It replaces one of the same place: a source may move its cursor often while there is no credit.
        """
        with self._lock:
            if self.messages > self._runs_messages:
                self._seal_fields()
                _put_last(self._last, item)
            elif self._runs:
                _put_last(self._runs[-1][0], item)
            else:
                self.cursor = item.cursor
                self._raise_to(_SOME, again=True)

    def _measured_last(self) -> int:
        """Returns the size of the last run, in bytes."""
        last = [*self._last, Messages(self._fields[:])]
        return sum(_weight(one)[0] for item in last for one in (item if isinstance(item, Messages) else [item]))

    def _seal_fields(self) -> None:
        """Ends a row of messages in the last run. On the reader's thread, or while the reader adds nothing."""
        if self._fields:
            self._last.append(Messages(self._fields))
            self._last_messages += len(self._fields) // FIELDS
            self._fields = []

    def _end_run(self) -> None:
        """Ends the last run. On the reader's thread, or while the reader adds nothing."""
        self._seal_fields()
        if self._last:
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
            self.backlog_untold = True
            self.caught_up = caught_up
            self._raise_to(_FLUSH, again=True)

    def end(self, last: Close | None = None) -> None:
        """Notes that the source has ended; `last` is None (permanently), `CLOSE` (temporarily) or `GONE` (removed)."""
        with self.condition:
            self.ended, self.gone = True, last is GONE
            self.for_now = last is not None and not self.gone
            self._raise_to(_FULL, again=True)

    def take(self) -> list[Item]:
        """Removes and returns items for about one frame, and at least one if there is any."""
        with self.condition:
            if not self._runs:
                items = self._take_last()
                self.cursor = None if items else self.cursor
                return items
            self.cursor = None
            items, size, count = self._runs.popleft()
            self._runs_bytes -= size
            self._runs_messages -= count
            # Lowered first, as `add` requires.
            self._level = _NOTHING
            if self._runs or self.messages:
                self._level = _FULL if self._runs else _SOME
            if self.full and not self._is_full():
                self.full = False
                self.room.set()
                self.condition.notify_all()
        return items

    def _take_last(self) -> list[Item]:
        """Takes the last run, to which the reader may be adding messages."""
        self._level = _NOTHING
        items, self._last, self._last_messages = self._last, [], 0
        fields = self._fields[:]
        del self._fields[: len(fields)]
        return [*items, Messages(fields)] if fields else items

    def clear(self) -> None:
        """Drops everything that was gathered."""
        with self.condition:
            self._take_last()
            self.cursor = None
            self._runs.clear()
            self._runs_bytes = self._runs_messages = 0
            self.full = False
            self.room.set()
            self.condition.notify_all()

    def _is_full(self) -> bool:
        """Returns whether the reader must wait. It continues once half is taken, to avoid a thread switch for every item."""
        share = 0.5 if self.full else 1.0
        return self._runs_bytes >= share * self._capacity_bytes or self._runs_messages >= share * self._capacity_messages

    def _raise_to(self, level: int, *, again: bool = False) -> None:
        """Wakes the sender when the fill level rises; with `again`, always."""
        if level > self._level or again:
            self._level = max(level, self._level)
            # A reader that was abandoned at shutdown may outlive the loop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed)


def _put_last(items: list[Item], cursor: Batch) -> None:
    """Adds a cursor without messages, or replaces one that is last."""
    if items and isinstance(items[-1], Batch) and lone_cursor(items[-1]) is not None:
        items[-1] = cursor
    else:
        items.append(cursor)


def _weight(item: Message | Batch) -> tuple[int, int]:
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
