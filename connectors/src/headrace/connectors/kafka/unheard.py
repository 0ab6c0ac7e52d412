"""Partitions of which a client has learned nothing since it was asked for them.

kafka-python looks up where a partition begins in a task of its own. If an answer is lost on the way, or the task fails, the
consumer polls on, delivers nothing, and raises nothing. Another consumer asks again.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from kafka import TopicPartition

PATIENCE_S = 20.0
"""For how long a consumer may learn nothing of a partition, in seconds, before another one takes its place."""
MAX_PATIENCE_S = 320.0
"""The same after several consumers have learned nothing: the broker of the partition is down, or its records arrive slowly."""


class Unheard:
    """The partitions of which nothing is known yet, and since when."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Creates an empty list; `now` returns the time in seconds."""
        self._now = now
        self._since: dict[TopicPartition, float] = {}
        self._began_at = 0.0
        self._patience_s = PATIENCE_S

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions."""
        return self._since.keys()

    def expect(self, partition: TopicPartition) -> None:
        """Adds a partition, unless it is there."""
        self._since.setdefault(partition, self._now())

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drops all others, which nobody wants."""
        self._since = {partition: since for partition, since in self._since.items() if partition in partitions}

    def hear(self, partitions: Iterable[TopicPartition]) -> None:
        """Drops partitions of which something is known now."""
        for partition in partitions:
            self._since.pop(partition, None)
        if not self._since:
            self._patience_s = PATIENCE_S

    def begin(self) -> None:
        """Notes that a consumer has begun."""
        self._began_at = self._now()

    def silent(self) -> Sequence[TopicPartition]:
        """Returns the partitions of which nothing was learned for `PATIENCE_S`, by any consumer."""
        return tuple(partition for partition, since in self._since.items() if self._now() - since >= PATIENCE_S)

    def ends_patience(self) -> bool:
        """Returns whether another consumer should take the place of this one. The next one has twice as long."""
        if not self._since or self._now() - max(self._began_at, min(self._since.values())) < self._patience_s:
            return False
        self._patience_s = min(2 * self._patience_s, MAX_PATIENCE_S)
        return True
