"""A partition that is being read: fetched records wait here until they are taken."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from kafka import TopicPartition

from headrace.connectors.kafka.fetcher import Ends
from headrace.connectors.kafka.stretches import Stretch
from headrace.sdk import Backlog

QUEUE_BYTES = 1 << 20
"""How many bytes of fetched records wait in a queue before fetching rests, at least."""
_RECORD_BYTES = 64
"""The approximate overhead of a record, in bytes."""


class Reading:
    """One call of `read`, from its beginning to its end. Everything happens on the event loop.

    Attributes:
        partition: The partition.
        start: The offset to begin at; None for the first available one.
        cursor: Distinguishes the topic from others of the same name.
        next_offset: The offset after the records that were taken; None before that is known.
        ends: The end of the partition; None before that is known.
        acknowledged: The sequence that was acknowledged last; None before that.
        leader_epoch: The leader epoch of the last fetched batch; -1 if it is not known.
        queue_bytes: How many bytes of fetched records may wait before fetching rests.
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
        self.ends: Ends | None = None
        self.acknowledged: int | None = None
        self.leader_epoch = -1
        self.queue_bytes = QUEUE_BYTES
        self.failure: Exception | None = None
        self.suspended = False
        self._has_room = has_room
        self._queue: deque[Stretch] = deque()
        self._queued_bytes = 0
        self._rests = False
        self._after_last_record: int | None = None
        self._news = asyncio.Event()

    @property
    def wanted(self) -> bool:
        """Whether to fetch it at all."""
        return self.failure is None and not self.suspended

    @property
    def rests(self) -> bool:
        """Whether enough is waiting to be taken: from a full queue until half of it is taken.

        Whatever is on its way when fetching rests is fetched twice, so it should not rest often.
        """
        return self._rests

    @property
    def fetched_to(self) -> int | None:
        """The offset after the fetched records, taken or not."""
        return self._queue[-1].next_offset if self._queue else self.next_offset

    @property
    def caught_up(self) -> bool:
        """Whether all readable records were taken."""
        return self.ends is not None and self.next_offset is not None and self.next_offset >= self.ends.readable

    @property
    def held_at(self) -> int | None:
        """The offset at which an open transaction holds the records that are left; None if nothing is held."""
        return self.ends.readable if self.ends is not None and self.caught_up and self.ends.readable < self.ends.log else None

    @property
    def backlog(self) -> Backlog | None:
        """The records that were not taken, and the last sequence that one may have, up to the end of the log."""
        if self.ends is None or self.next_offset is None:
            return None
        return Backlog(messages=max(0, self.ends.log - self.next_offset), latest_sequence=self.ends.log)

    def put(self, stretches: Sequence[Stretch]) -> None:
        """Adds fetched records."""
        self._queue.extend(stretches)
        self._queued_bytes += sum(map(_weight, stretches))
        self._rests = self._rests or self._queued_bytes >= self.queue_bytes
        self.leader_epoch = stretches[-1].leader_epoch
        self._news.set()

    def take(self) -> Stretch | None:
        """Takes the next fetched stretch."""
        if not self._queue:
            self._news.clear()
            return None
        stretch = self._queue.popleft()
        self._queued_bytes -= _weight(stretch)
        self.next_offset = stretch.next_offset
        if stretch.records:
            self._after_last_record = stretch.records.offsets[-1] + 1
        if self._rests and self._queued_bytes <= self.queue_bytes // 2:
            self._rests = False
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

    def reaches(self, position: int | None, ends: Ends) -> None:
        """Notes its offset, if that was not known, and the end of the partition."""
        if self.next_offset is None:
            self.next_offset = position
        if ends != self.ends:
            self.ends = ends
            self._news.set()

    async def wait(self, seconds: float) -> bool:
        """Waits until something has arrived or changed since `take` had nothing; returns False after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        return self._news.is_set()


def _weight(stretch: Stretch) -> int:
    return stretch.records.size + _RECORD_BYTES * len(stretch.records)
