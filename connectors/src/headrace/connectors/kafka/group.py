"""Commits the progress of the checkpoint to a consumer group, for tools that show lag."""

import asyncio
import logging

from kafka import TopicPartition

from headrace.connectors.kafka.calls import Calls
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.retry import MAX_BACKOFF_S, ThrottledLog
from headrace.contract.backoff import Backoff
from headrace.sdk import HeadraceError

log = logging.getLogger(__name__)

_PACE_S = 1.0


class GroupOffsets:
    """Commits offsets to a group, about once a second.

    A failure is logged and retried later: nothing depends on these offsets.
    """

    def __init__(self, group: str, cluster: Cluster, questions: Calls) -> None:
        """Creates the object, which commits nothing yet."""
        self._group = group
        self._cluster = cluster
        self._questions = questions
        self._log = ThrottledLog(log)
        self._offsets: dict[TopicPartition, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def note(self, partition: TopicPartition, offset: int) -> None:
        """Schedules an offset to be committed: the offset of the next record."""
        self._offsets[partition] = offset
        if self._task is None:
            self._hurry = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="headrace kafka group")

    async def flush(self, seconds: float) -> None:
        """Waits until everything is committed, for a limited time."""
        if self._task is not None:
            self._hurry.set()
            await asyncio.wait({self._task}, timeout=seconds)

    async def _run(self) -> None:
        """Commits until nothing is left."""
        backoff = Backoff(_PACE_S, MAX_BACKOFF_S)
        try:
            while self._offsets:
                offsets, self._offsets = self._offsets, {}
                pause = _PACE_S
                try:
                    await self._questions.call(self._cluster.commit, self._group, offsets)
                    backoff.reset()
                    self._log.over(f"committing offsets of group {self._group} again")
                except Exception as error:  # also errors that kafka-python does not document: the offsets stay due
                    self._offsets = {**offsets, **self._offsets}
                    self._log.report(f"{error if isinstance(error, HeadraceError) else repr(error)}; retrying")
                    pause = backoff.next()
                    self._hurry.clear()
                await self._sleep(pause)
        finally:
            self._task = None

    async def _sleep(self, seconds: float) -> None:
        """Waits, unless `flush` is waiting."""
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass
