"""A partition that is read: what was fetched of it waits here until it is taken."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from kafka import TopicPartition

from headrace.connectors.kafka._stretches import Stretch
from headrace.sdk import Backlog

_QUEUE_BYTES = 1 << 20
_RECORD_BYTES = 64
"""What a record costs besides its bytes, roughly."""


class Reading:
    """One call of `read`, from its beginning to its end. Everything happens on the event loop.

    Attributes:
        partition: The partition.
        start: The offset to begin at; None for the first one there is.
        cursor: What tells the topic from others of its name.
        next_offset: The offset after what was taken; None before that is known.
        end: The offset after what can be read now; None before that is known.
        failure: Why nothing more comes.
        suspended: Whether nothing is to be fetched for now.
    """

    def __init__(
        self, partition: TopicPartition, start: int | None, cursor: bytes | None, *, has_room: Callable[[], None]
    ) -> None:
        """Begins empty. `has_room` is called when something may be fetched again."""
        self.partition = partition
        self.start = start
        self.cursor = cursor
        self.next_offset = start
        self.end: int | None = None
        self.failure: Exception | None = None
        self.suspended = False
        self._has_room = has_room
        self._queue: deque[Stretch] = deque()
        self._queued_bytes = 0
        self._after_last_record: int | None = None
        self._news = asyncio.Event()

    @property
    def wanted(self) -> bool:
        """Whether it is to be fetched at all."""
        return self.failure is None and not self.suspended

    @property
    def full(self) -> bool:
        """Whether so much waits to be taken that no more is to be fetched."""
        return self._queued_bytes >= _QUEUE_BYTES

    @property
    def fetched_to(self) -> int | None:
        """The offset after what was fetched, taken or not."""
        return self._queue[-1].next_offset if self._queue else self.next_offset

    @property
    def caught_up(self) -> bool:
        """Whether everything that can be read now was taken."""
        return self.end is not None and self.next_offset is not None and self.next_offset >= self.end

    @property
    def backlog(self) -> Backlog | None:
        """How much can be read that was not taken."""
        if self.end is None or self.next_offset is None:
            return None
        return Backlog(messages=max(0, self.end - self.next_offset))

    def put(self, stretches: Sequence[Stretch]) -> None:
        """Adds what was fetched."""
        self._queue.extend(stretches)
        self._queued_bytes += sum(map(_weight, stretches))
        self._news.set()

    def take(self) -> Stretch | None:
        """The next of what was fetched."""
        if not self._queue:
            self._news.clear()
            return None
        was_full = self.full
        stretch = self._queue.popleft()
        self._queued_bytes -= _weight(stretch)
        self.next_offset = stretch.next_offset
        if stretch.records:
            self._after_last_record = stretch.records.offsets[-1] + 1
        if was_full and not self.full:
            self._has_room()
        return stretch

    def committed(self, sequence: int) -> int:
        """The offset to commit for a message: after it, and after the markers that follow it where no message does."""
        if sequence == self._after_last_record and self.next_offset is not None:
            return self.next_offset
        return sequence

    def fail(self, error: Exception) -> None:
        """Ends it, once what was fetched is taken."""
        self.failure = self.failure or error
        self._news.set()

    def begins_anew(self) -> bool:
        """Begins where there is something, if it never had an offset of its own; False otherwise."""
        if self.start is not None or self._queue or self._after_last_record is not None:
            return False
        self.next_offset = None
        return True

    def reaches(self, position: int | None, end: int) -> None:
        """Notes where it stands, where that was not known, and what can be read."""
        if self.next_offset is None:
            self.next_offset = position
        if end != self.end:
            self.end = end
            self._news.set()

    async def wait(self, seconds: float) -> bool:
        """Waits until something has come, or has changed, since `take` had nothing; False where that takes longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        return self._news.is_set()


def _weight(stretch: Stretch) -> int:
    return stretch.records.size + _RECORD_BYTES * len(stretch.records)
