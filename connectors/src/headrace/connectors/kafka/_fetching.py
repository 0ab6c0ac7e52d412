"""Hands out what is fetched of all partitions that are read, and deals with what goes wrong.

There is one consumer rather than one for each partition: a broker is asked for all of its partitions at once, and a thousand
partitions take no thousand threads. The consumer has a thread of its own; everything here happens on the event loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kafka import TopicPartition
from kafka import errors as kafka_errors

from headrace.connectors.kafka._calls import Calls
from headrace.connectors.kafka._cluster import Bounds, Cluster
from headrace.connectors.kafka._errors import KafkaAway, told
from headrace.connectors.kafka._fetcher import Fetcher, Wanted
from headrace.connectors.kafka._parameters import KafkaParameters
from headrace.connectors.kafka._patience import Backoff, Complaint
from headrace.connectors.kafka._reading import Reading
from headrace.sdk import PositionLost

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.1


class Fetching:
    """The readings, and the consumer that exists as long as there is one."""

    def __init__(self, parameters: KafkaParameters, cluster: Cluster, questions: Calls) -> None:
        """Begins with the first reading.

        Args:
            parameters: What to fetch, and how.
            cluster: What to ask about offsets that are not there.
            questions: The thread that asks it.
        """
        self._parameters = parameters
        self._cluster = cluster
        self._questions = questions
        self._calls = Calls("headrace kafka consumer")
        self._complaint = Complaint(log)
        self._readings: dict[TopicPartition, Reading] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def readings(self) -> Sequence[Reading]:
        """What is read now."""
        return list(self._readings.values())

    def reading(self, partition: TopicPartition) -> Reading | None:
        """The reading of a partition; None where it is not read now."""
        return self._readings.get(partition)

    @asynccontextmanager
    async def read(self, partition: TopicPartition, start: int | None, cursor: bytes | None) -> AsyncIterator[Reading]:
        """Reads a partition, which nobody else reads now; the arguments are those of `Reading`."""
        reading = Reading(partition, start, cursor, has_room=self.look)
        self._readings[partition] = reading
        if self._task is None:
            self._changed = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="headrace kafka")
        task = self._task
        self.look()
        try:
            yield reading
        finally:
            if self._readings.get(partition) is reading:
                del self._readings[partition]
            self.look()
            if not self._readings:
                await asyncio.wait({task})

    def look(self) -> None:
        """Looks again at what is to be fetched."""
        self._changed.set()

    def close(self) -> None:
        """Ends the thread."""
        self._calls.close()

    async def _run(self) -> None:
        """Fetches as long as anything is read."""
        fetcher = Fetcher(self._parameters)
        backoff = Backoff()
        try:
            while self._readings:
                self._changed.clear()
                readings = [reading for reading in self._readings.values() if reading.wanted]
                if all(reading.full for reading in readings):
                    await self._changed.wait()
                    continue
                try:
                    await self._fetch(fetcher, readings)
                    backoff.reset()
                    self._complaint.over("records are fetched again")
                except Exception as error:
                    problem = told(error, self._parameters)
                    if isinstance(problem, KafkaAway):
                        self._complaint.say(f"{problem}; trying again")
                        await asyncio.sleep(backoff.next())
                    else:
                        for reading in readings:
                            reading.fail(problem)
        finally:
            self._task = None
            await self._calls.call(fetcher.close)

    async def _fetch(self, fetcher: Fetcher, readings: Sequence[Reading]) -> None:
        """Fetches once, and gives each reading what is its own, unless it has ended meanwhile."""
        try:
            fetched = await self._calls.call(fetcher.fetch, [_wanted(reading) for reading in readings])
        except kafka_errors.OffsetOutOfRangeError as error:
            for partition, offset in error.args[0].items():
                await self._out_of_range(partition, offset)
                await self._calls.call(fetcher.forget, partition)
            await asyncio.sleep(_AGAIN_SECONDS)
            return
        except kafka_errors.LogTruncationError as error:
            for partition in error.divergent_offsets:
                self._truncated(partition)
            return
        for reading in readings:
            partition = reading.partition
            if self._readings.get(partition) is not reading:
                continue
            if stretches := fetched.stretches.get(partition):
                reading.put(stretches)
            if (end := fetched.ends.get(partition)) is not None:
                reading.reaches(fetched.positions.get(partition), end)

    async def _out_of_range(self, partition: TopicPartition, offset: int) -> None:
        """A partition has not got an offset that was asked for.

        Raises:
            KafkaAway: It cannot be asked what it has.
        """
        bounds = await self._questions.call(self._cluster.bounds, partition.topic, partition.partition)
        reading = self._readings.get(partition)
        if reading is None or reading.fetched_to != offset or bounds.first <= offset <= bounds.end:
            return  # a reading that is over, or a broker that had not got everything yet
        if not reading.begins_anew():
            reading.fail(_lost(partition, offset, bounds))

    def _truncated(self, partition: TopicPartition) -> None:
        """A partition's log has lost records that were read, and may have got others in their place."""
        if reading := self._readings.get(partition):
            reading.fail(
                PositionLost(f"{_named(partition)} lost records that were read: a broker that had not got them took over")
            )


def _wanted(reading: Reading) -> Wanted:
    return Wanted(reading.partition, reading, reading.fetched_to, reading.full)


def _lost(partition: TopicPartition, offset: int, bounds: Bounds) -> PositionLost:
    """What is lost, by name."""
    if offset < bounds.first:
        text = f"offsets {offset} to {bounds.first - 1} of {_named(partition)} are gone: its retention has deleted them"
    else:
        text = f"{_named(partition)} ends before offset {bounds.end}, and everything before {offset} was read: it lost records"
    return PositionLost(text, earliest=bounds.first + 1)


def _named(partition: TopicPartition) -> str:
    return f"partition {partition.partition} of topic {partition.topic}"
