"""A partition that is being read: fetched records wait here until they are taken."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from kafka import TopicPartition

from headrace.connectors.kafka._stretches import Stretch
from headrace.sdk import Backlog

_QUEUE_BYTES = 1 << 20
_RECORD_BYTES = 64
"""The approximate overhead of a record, in bytes."""


class Reading:
    """One call of `read`, from its beginning to its end. Everything happens on the event loop.

    Attributes:
        partition: The partition.
        start: The offset to begin at; None for the first available one.
        cursor: Distinguishes the topic from others of the same name.
        next_offset: The offset after the records that were taken; None before that is known.
        end: The offset after the last readable record; None before that is known.
        failure: The error that ended it, if any.
        suspended: Whether fetching is suspended.
    """

    def __init__(
        self, partition: TopicPartition, start: int | None, cursor: bytes | None, *, has_room: Callable[[], None]
    ) -> None:
        """Creates an empty reading. `has_room` is called when fetching may resume."""
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
        """Whether to fetch it at all."""
        return self.failure is None and not self.suspended

    @property
    def full(self) -> bool:
        """Whether enough is waiting to be taken that fetching should pause."""
        return self._queued_bytes >= _QUEUE_BYTES

    @property
    def fetched_to(self) -> int | None:
        """The offset after the fetched records, taken or not."""
        return self._queue[-1].next_offset if self._queue else self.next_offset

    @property
    def caught_up(self) -> bool:
        """Whether all readable records were taken."""
        return self.end is not None and self.next_offset is not None and self.next_offset >= self.end

    @property
    def backlog(self) -> Backlog | None:
        """What can be read and was not taken."""
        if self.end is None or self.next_offset is None:
            return None
        return Backlog(messages=max(0, self.end - self.next_offset))

    def put(self, stretches: Sequence[Stretch]) -> None:
        """Adds fetched records."""
        self._queue.extend(stretches)
        self._queued_bytes += sum(map(_weight, stretches))
        self._news.set()

    def take(self) -> Stretch | None:
        """Takes the next fetched stretch."""
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
        """Returns the offset to commit for a message: after it, and after the markers that follow it if no message does."""
        if sequence == self._after_last_record and self.next_offset is not None:
            return self.next_offset
        return sequence

    def fail(self, error: Exception) -> None:
        """Ends it with an error, once the fetched records are taken."""
        self.failure = self.failure or error
        self._news.set()

    def begins_anew(self) -> bool:
        """Restarts at the first available record if it never had an offset; returns whether it does."""
        if self.start is not None or self._queue or self._after_last_record is not None:
            return False
        self.next_offset = None
        return True

    def reaches(self, position: int | None, end: int) -> None:
        """Notes its offset, if that was not known, and the end of the readable records."""
        if self.next_offset is None:
            self.next_offset = position
        if end != self.end:
            self.end = end
            self._news.set()

    async def wait(self, seconds: float) -> bool:
        """Waits until something has arrived or changed since `take` had nothing; returns False after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        return self._news.is_set()


def _weight(stretch: Stretch) -> int:
    return stretch.records.size + _RECORD_BYTES * len(stretch.records)
