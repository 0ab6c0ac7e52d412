"""Tells a consumer group how far the checkpoint has come, for tools that show lag."""

import asyncio
import logging

from kafka import TopicPartition

from headrace.connectors.kafka._calls import Calls
from headrace.connectors.kafka._cluster import Cluster
from headrace.connectors.kafka._patience import Backoff, Complaint
from headrace.sdk import HeadraceError

log = logging.getLogger(__name__)

_PACE_SECONDS = 1.0


class GroupOffsets:
    """Commits offsets to a group, about once a second. A failure is logged and mended later: nothing depends on them."""

    def __init__(self, group: str, cluster: Cluster, questions: Calls) -> None:
        """Commits nothing yet."""
        self._group = group
        self._cluster = cluster
        self._questions = questions
        self._complaint = Complaint(log)
        self._offsets: dict[TopicPartition, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def note(self, partition: TopicPartition, offset: int) -> None:
        """Has an offset committed soon: that of the record which comes next."""
        self._offsets[partition] = offset
        if self._task is None:
            self._hurry = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="headrace kafka group")

    async def flush(self, seconds: float) -> None:
        """Waits until everything is committed, but no longer than this."""
        if self._task is not None:
            self._hurry.set()
            await asyncio.wait({self._task}, timeout=seconds)

    async def _run(self) -> None:
        """Commits until nothing is left."""
        backoff = Backoff(first=_PACE_SECONDS)
        try:
            while self._offsets:
                offsets, self._offsets = self._offsets, {}
                pause = _PACE_SECONDS
                try:
                    await self._questions.call(self._cluster.commit, self._group, offsets)
                    backoff.reset()
                    self._complaint.over(f"offsets of group {self._group} are committed again")
                except HeadraceError as error:
                    self._offsets = {**offsets, **self._offsets}
                    self._complaint.say(f"{error}; trying again")
                    pause = backoff.next()
                    self._hurry.clear()
                await self._sleep(pause)
        finally:
            self._task = None

    async def _sleep(self, seconds: float) -> None:
        """Waits, unless somebody waits for the rest."""
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass
