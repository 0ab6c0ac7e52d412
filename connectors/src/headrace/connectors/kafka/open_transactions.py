"""Names the open transactions behind which records of partitions wait."""

import logging
import time
from dataclasses import dataclass, field

from kafka import TopicPartition

from headrace.connectors.kafka.calls import Calls
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.kafka.reading import Reading
from headrace.connectors.retry import ThrottledLog
from headrace.connectors.waiting import Reporting
from headrace.sdk import HeadraceError

log = logging.getLogger(__name__)

_HELD_S = 5.0
"""How long a partition must be held before that is reported, in seconds: each transaction holds it for a moment."""
_AGAIN_S = 30.0


@dataclass(slots=True)
class _Hold:
    """A partition that is held.

    Attributes:
        offset: The offset from which on records wait.
        look_at: When to look who holds it, in seconds of the monotonic clock.
        log: Reports it.
    """

    offset: int
    log: ThrottledLog
    look_at: float = field(default_factory=lambda: time.monotonic() + _HELD_S)


class OpenTransactions:
    """The partitions that are held. Everything happens on the event loop."""

    def __init__(self, cluster: Cluster, questions: Calls, connector: Reporting) -> None:
        """Creates the object. `connector` reports that it waits, and for whom."""
        self._cluster = cluster
        self._questions = questions
        self._connector = connector
        self._holds: dict[TopicPartition, _Hold] = {}

    async def look(self, reading: Reading) -> None:
        """Looks whether a partition is held, and reports by whom once that has lasted."""
        offset = reading.held_at
        hold = self._holds.get(reading.partition)
        if hold is not None and hold.offset != offset:
            self.forget(reading.partition)
            hold = None
        if offset is None:
            return
        if hold is None:
            name = f"{reading.partition.topic}-{reading.partition.partition}"
            hold = self._holds[reading.partition] = _Hold(offset, ThrottledLog(log, self._connector, name))
        if time.monotonic() >= hold.look_at:
            hold.look_at = time.monotonic() + _AGAIN_S
            hold.log.report(await self._problem(reading.partition, offset))

    def forget(self, partition: TopicPartition) -> None:
        """Notes that a partition is no longer held, or no longer read."""
        hold = self._holds.pop(partition, None)
        if hold is not None:
            hold.log.over(f"partition {partition.partition} of topic {partition.topic} is no longer held at {hold.offset}")

    async def _problem(self, partition: TopicPartition, offset: int) -> str:
        """Describes what waits for whom."""
        what = f"records of partition {partition.partition} of topic {partition.topic} from offset {offset} on wait"
        try:
            holder = await self._questions.call(self._cluster.open_transaction, *partition)
        except HeadraceError as error:
            return f"{what} for an open transaction, and it cannot be determined whose: {error}"
        if holder is None:
            return f"{what} for a transaction that is ending"
        whose = (
            "a transactional id that this client may not see" if holder.writer is None else f"transactional id {holder.writer}"
        )
        return (
            f"{what} for the open transaction of {whose} (producer {holder.producer}), which began at offset {holder.first}: "
            "they can be read once it is committed, aborted, or older than its timeout"
        )
