"""Distributes fetched records to the readings of partitions, and handles errors.

There is one consumer rather than one for each partition: one request to a broker fetches all of its partitions, and a thousand
partitions do not need a thousand threads. The consumer has its own thread; everything here happens on the event loop.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kafka import TopicPartition

from headrace.connectors.kafka._errors import KafkaAway, translate
from headrace.connectors.kafka._parameters import KafkaParameters
from headrace.connectors.kafka.calls import Calls
from headrace.connectors.kafka.cluster import Bounds, Cluster
from headrace.connectors.kafka.fetcher import Fetcher, OutOfRange, Truncated, Wanted
from headrace.connectors.kafka.librdkafka_fetcher import LibrdkafkaFetcher
from headrace.connectors.kafka.python_fetcher import PythonFetcher
from headrace.connectors.kafka.reading import QUEUE_BYTES, Reading
from headrace.connectors.kafka.unheard import PATIENCE_S
from headrace.connectors.retry import FIRST_S, MAX_BACKOFF_S, ThrottledLog
from headrace.connectors.waiting import Reporting
from headrace.contract.backoff import Backoff
from headrace.sdk import PositionLost

log = logging.getLogger(__name__)

_AGAIN_S = 0.1
_APART_S = 0.002
"""How far apart fetches begin, at least: each costs as much as hundreds of records, here and in all processes behind it."""
_ALL_QUEUES_BYTES = 64 << 20
_MAX_QUEUE_BYTES = 2 << 20


class Fetching:
    """The readings, and the consumer, which exists as long as there is a reading."""

    def __init__(self, parameters: KafkaParameters, cluster: Cluster, questions: Calls, connector: Reporting) -> None:
        """Creates the object, which starts fetching with the first reading.

        Args:
            parameters: What to fetch, and how.
            cluster: For requests about missing offsets.
            questions: The thread for these requests.
            connector: The source, which reports that it waits while nothing can be fetched.
        """
        self._parameters = parameters
        self._cluster = cluster
        self._questions = questions
        self._calls = Calls("headrace kafka consumer")
        self._log = ThrottledLog(log, connector, "records")
        self._readings: dict[TopicPartition, Reading] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def readings(self) -> Sequence[Reading]:
        """The current readings."""
        return list(self._readings.values())

    def reading(self, partition: TopicPartition) -> Reading | None:
        """Returns the reading of a partition; None if it is not being read."""
        return self._readings.get(partition)

    @asynccontextmanager
    async def read(self, partition: TopicPartition, start: int | None, cursor: bytes | None) -> AsyncIterator[Reading]:
        """Starts reading a partition that is not being read; takes the arguments of `Reading`."""
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
        """Re-evaluates what to fetch."""
        self._changed.set()

    def close(self) -> None:
        """Ends the thread."""
        self._calls.close()

    async def _run(self) -> None:
        """Fetches as long as anything is read."""
        fetcher = _fetcher(self._parameters)
        backoff = Backoff(FIRST_S, MAX_BACKOFF_S)
        try:
            while self._readings:
                self._changed.clear()
                readings = [reading for reading in self._readings.values() if reading.wanted]
                for reading in readings:
                    reading.queue_bytes = min(_MAX_QUEUE_BYTES, max(QUEUE_BYTES, _ALL_QUEUES_BYTES // len(readings)))
                hungry = [reading for reading in readings if not reading.rests]
                if not hungry:
                    await self._changed.wait()
                    continue
                begun = time.monotonic()
                try:
                    silent = await self._fetch(fetcher, hungry, hurry=len(hungry) < len(readings))
                    backoff.reset()
                    if silent:
                        self._log.report(_silence(silent))
                    else:
                        self._log.over("fetching records again")
                    await asyncio.sleep(begun + _APART_S - time.monotonic())
                except Exception as error:
                    problem = translate(error, self._parameters)
                    if isinstance(problem, KafkaAway):
                        self._log.report(f"{problem}; retrying")
                        await asyncio.sleep(backoff.next())
                    else:
                        for reading in readings:
                            reading.fail(problem)
        finally:
            self._task = None
            await self._calls.call(fetcher.close)

    async def _fetch(self, fetcher: Fetcher, readings: Sequence[Reading], *, hurry: bool) -> Sequence[TopicPartition]:
        """Fetches once, and passes the results to the readings that have not ended in the meantime.

        Returns:
            The partitions of which the client has learned nothing for long.
        """
        try:
            fetched = await self._calls.call(fetcher.fetch, [_demand(reading) for reading in readings], hurry=hurry)
        except OutOfRange as error:
            for partition, offset in error.offsets.items():
                await self._out_of_range(partition, offset)
                await self._calls.call(fetcher.forget, partition)
            await asyncio.sleep(_AGAIN_S)
            return ()
        except Truncated as error:
            for partition in error.partitions:
                self._truncated(partition)
            return ()
        for reading in readings:
            partition = reading.partition
            if self._readings.get(partition) is not reading:
                continue
            if stretches := fetched.stretches.get(partition):
                reading.put(stretches)
            if (ends := fetched.ends.get(partition)) is not None:
                reading.reaches(fetched.positions.get(partition), ends)
        return fetched.silent

    async def _out_of_range(self, partition: TopicPartition, offset: int) -> None:
        """Handles a requested offset that a partition does not have.

        Raises:
            KafkaAway: The bounds of the partition cannot be requested.
        """
        bounds = await self._questions.call(self._cluster.bounds, partition.topic, partition.partition)
        reading = self._readings.get(partition)
        if reading is None or reading.fetched_to != offset or bounds.first <= offset <= bounds.end:
            return  # the reading has ended, or the broker did not have everything yet
        if not reading.begins_anew():
            reading.fail(_loss(partition, offset, bounds))

    def _truncated(self, partition: TopicPartition) -> None:
        """Handles a log that has lost records that were read, and may have other records in their place."""
        if reading := self._readings.get(partition):
            reading.fail(
                PositionLost(f"{_label(partition)} lost records that were already read: a broker without them became leader")
            )


def _fetcher(parameters: KafkaParameters) -> Fetcher:
    return LibrdkafkaFetcher(parameters) if parameters.client == "librdkafka" else PythonFetcher(parameters)


def _demand(reading: Reading) -> Wanted:
    return Wanted(reading.partition, reading, reading.fetched_to, reading.leader_epoch)


def _loss(partition: TopicPartition, offset: int, bounds: Bounds) -> PositionLost:
    """Describes what is lost."""
    if offset < bounds.first:
        text = f"offsets {offset} to {bounds.first - 1} of {_label(partition)} were deleted, by retention or by request"
    else:
        text = f"{_label(partition)} ends before offset {bounds.end}, and everything before {offset} was read: it lost records"
    return PositionLost(text, earliest=bounds.first + 1)


def _silence(partitions: Sequence[TopicPartition]) -> str:
    more = f", and of {len(partitions) - 1} more" if len(partitions) > 1 else ""
    text = f"no broker has answered for {PATIENCE_S:g} s where {_label(partitions[0])} begins and ends{more}"
    return f"{text}: look whether its leader runs; connecting anew; retrying"


def _label(partition: TopicPartition) -> str:
    return f"partition {partition.partition} of topic {partition.topic}"
