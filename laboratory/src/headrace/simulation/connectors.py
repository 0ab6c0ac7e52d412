"""The connectors of a schedule, on the real SDK: sources of logs, queues and feeds, and sinks of all three modes."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import (
    CLOSE,
    GONE,
    AsyncIdempotentSink,
    AsyncSink,
    AsyncSource,
    AsyncTwoPhaseSink,
    Backlog,
    Batch,
    Close,
    Message,
    Part,
    Position,
    PositionLost,
    Recovered,
    Rows,
    SourceKind,
    Transaction,
)
from headrace.simulation.loop import Process
from headrace.simulation.oracle import Oracle
from headrace.simulation.record import Record
from headrace.simulation.systems import READY, SETTLED, Feed, Log, Queue, Storage

if TYPE_CHECKING:
    Item = Message | Batch | Close | None

REST_S = 5.0
"""How long an idle source waits once faults have stopped and everything is done, in seconds."""
PLANNED = ", as planned"
"""Ends the text of errors that a fault has caused."""
LATE_S = 1.0
"""How long a broker takes at most to notice that a consumer is gone, in seconds."""


class _Source(AsyncSource):
    """What all kinds of sources have in common."""

    def __init__(self, record: Record, oracle: Oracle, name: str, source: random.Random) -> None:
        self._record = record
        self._oracle = oracle
        self._random = source
        self.name = name
        self._idle_s = source.choice([0.05, 0.2, 0.5])

    @property
    def idle_seconds(self) -> float:  # type: ignore[override]
        """How long to wait after `read` yielded None."""
        return REST_S if self._oracle.is_done else self._idle_s


class LogSource(_Source):
    """Reads a log."""

    kind = SourceKind.REPLAYABLE

    def __init__(self, record: Record, oracle: Oracle, log: Log, source: random.Random, moved_cursors: float) -> None:
        super().__init__(record, oracle, log.name, source)
        self._log = log
        self._moved_cursors = moved_cursors
        self._moving = random.Random(log.name)
        self._slow_s = source.choice([0.0, 0.0, 0.01, 0.2])
        self._uses_cursor = source.random() < 0.5
        self._tells_backlog = source.random() < 0.5

    async def partitions(self) -> Sequence[str]:
        """All partitions, also removed ones, so that each session reports that they are gone."""
        await asyncio.sleep(self._random.random() * 0.01)
        return list(self._log.messages)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator["Item"]:
        """Yields what follows a position; with cursors, sometimes a few messages before it."""
        log, entries = self._log, self._log.messages[partition]
        if log.is_empty(partition):
            yield GONE
            return
        after = self._begin_after(partition, position)
        index = 0
        while index < len(entries) and entries[index].sequence <= after:
            index += 1
        while True:
            if self._record.fails("source"):
                raise RuntimeError(f"source failed{PLANNED}")
            if index < len(entries):
                entry = entries[index]
                index += 1
                yield Message(entry.value, sequence=entry.sequence, cursor=self._cursor(partition, index))
                if self._slow_s and self._random.random() < 0.3:
                    await asyncio.sleep(self._random.random() * self._slow_s)
            elif partition in log.gone:
                # Until all of it is acknowledged, a later session may have to offer its messages again.
                if log.is_empty(partition):
                    yield GONE
                    return
                yield None
            elif partition in log.ended:
                return
            elif partition in log.closing:
                log.closing.discard(partition)
                yield CLOSE
                return
            else:
                # None once all is done: at the last look, a micro-batch for it would be under way.
                if index and not self._oracle.is_done and self._moving.random() < self._moved_cursors:
                    yield Batch([], cursor=str(entries[index - 1].sequence).encode())
                yield None

    def _begin_after(self, partition: str, position: Position | None) -> int:
        """Returns the sequence after which to read.

        Raises:
            PositionLost: What follows the position was pruned.
        """
        pruned = self._log.pruned[partition]
        if position is None or position.sequence < pruned:
            if pruned < 0:
                return -1
            self._record.said.add(f"pruned up to {pruned}")
            earliest = next((e.sequence for e in self._log.messages[partition] if e.sequence > pruned), None)
            self._record.note("asked-for-pruned", f"{self.name}/{partition}: after {position}, pruned up to {pruned}")
            raise PositionLost(f"pruned up to {pruned}", earliest=earliest)
        after = position.sequence
        if position.cursor is not None and self._uses_cursor:
            after = int(position.cursor)
        return max(after, pruned)

    def _cursor(self, partition: str, index: int) -> bytes | None:
        """Returns a cursor for the message before an index: often none, sometimes the cursor of an earlier message."""
        if not self._uses_cursor or self._random.random() < 0.5:
            return None
        back = self._random.randrange(0, 3) if self._random.random() < 0.3 else 0
        return str(self._log.messages[partition][max(0, index - 1 - back)].sequence).encode()

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Prunes what is acknowledged, if the log does."""
        log = self._log
        await asyncio.sleep(self._random.random() * 0.005)
        self._oracle.acknowledged(log, partition, position.sequence)
        log.acknowledged[partition] = max(log.acknowledged[partition], position.sequence)
        if log.prunes:
            log.pruned[partition] = max(log.pruned[partition], position.sequence)
        await self._record.point("source acknowledged")

    async def backlog(self, partition: str) -> Backlog | None:
        """The last sequence, if this source tells it."""
        return Backlog(latest_sequence=max(0, self._log.last(partition))) if self._tells_backlog else None


class QueueSource(_Source):
    """Consumes a queue."""

    kind = SourceKind.REDELIVERING

    def __init__(self, record: Record, oracle: Oracle, queue: Queue, source: random.Random, process: Process) -> None:
        super().__init__(record, oracle, queue.name, source)
        self._queue = queue
        self._process = process
        self._prefetch = source.choice([1, 3, 20, 1000])
        self._live: dict[int, str] = {}

    async def partitions(self) -> Sequence[str]:
        """All partitions."""
        return list(self._queue.messages)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator["Item"]:
        """Yields what is ready, in no certain order."""
        queue, messages = self._queue, self._queue.messages[partition]
        queue.consumers += 1
        consumer = queue.consumers
        self._live[consumer] = partition
        self._process.at_death.append(lambda: self._leave(partition, consumer))
        try:
            while True:
                ready = [id_ for id_, state in messages.items() if state == READY]
                if ready and sum(state == consumer for state in messages.values()) < self._prefetch:
                    id_ = ready[0] if self._random.random() < 0.7 else self._random.choice(ready)
                    messages[id_] = consumer
                    yield Message(id_.encode(), token=(consumer, id_), message_id=id_)
                else:
                    yield None
        finally:
            self._live.pop(consumer, None)
            if self._process.alive:
                queue.release(partition, consumer)

    def _leave(self, partition: str, consumer: int) -> None:
        """Lets the broker notice that the connection is gone."""
        loop = self._process.loop
        later_s = self._random.random() * LATE_S
        loop.call_later(later_s, self._queue.release, partition, consumer, context=loop.world.context)

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Acknowledges messages to the broker, if their consumer is still there."""
        await asyncio.sleep(self._random.random() * 0.005)
        for token in tokens:
            assert isinstance(token, tuple)
            consumer, id_ = token
            if consumer in self._live and self._queue.messages[partition][id_] == consumer:
                self._oracle.settled(self._queue, id_)
                self._queue.messages[partition][id_] = SETTLED
        await self._record.point("source acknowledged")


class FeedSource(_Source):
    """Reads a feed."""

    kind = SourceKind.RESUMABLE

    def __init__(self, record: Record, oracle: Oracle, feed: Feed, source: random.Random) -> None:
        super().__init__(record, oracle, feed.name, source)
        self._feed = feed
        self._slow_s = source.choice([0.0, 0.0, 0.01, 0.2])
        self._marks = source.choice([0.0, 0.3])
        self._exact = source.choice([0.3, 1.0])
        self._tells_backlog = source.random() < 0.5

    async def partitions(self) -> Sequence[str]:
        """All partitions."""
        return list(self._feed.changes)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator["Item"]:
        """Yields all changes after a cursor, and marks among them, which are others each time.

        Raises:
            PositionLost: What follows the cursor is acknowledged, and so deleted.
        """
        changes, deleted = self._feed.changes[partition], self._feed.acknowledged[partition]
        index = told = 0 if position is None or position.cursor is None else int.from_bytes(position.cursor)
        if index < deleted:
            self._record.said.add(f"deleted up to {deleted}")
            self._record.note("asked-for-pruned", f"{self.name}/{partition}: after {index}, deleted up to {deleted}")
            raise PositionLost(f"deleted up to {deleted}")
        self._feed.readings += 1
        reading = f"{self._feed.readings}".encode()
        while True:
            if self._record.fails("source"):
                raise RuntimeError(f"source failed{PLANNED}")
            if index < len(changes):
                if self._random.random() < self._marks:
                    yield Message(f"{self.name}/{partition}|mark|".encode() + reading)
                index += 1
                value = changes[index - 1].encode() + reading
                if index == len(changes) or self._random.random() < self._exact:
                    told = index if index == len(changes) else self._random.randint(told, index)
                    yield Message(value, cursor=told.to_bytes(8))
                else:
                    yield Message(value)
                if self._slow_s and self._random.random() < 0.3:
                    await asyncio.sleep(self._random.random() * self._slow_s)
            elif partition in self._feed.ended:
                return
            else:
                yield None

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Deletes what is acknowledged."""
        feed = self._feed
        await asyncio.sleep(self._random.random() * 0.005)
        if position.cursor is not None:
            cursor = int.from_bytes(position.cursor)
            self._oracle.released(feed, partition, cursor)
            feed.acknowledged[partition] = max(feed.acknowledged[partition], cursor)
        await self._record.point("source acknowledged")

    async def backlog(self, partition: str) -> Backlog | None:
        """How many changes there are, which says little about the messages that are left."""
        return Backlog(messages=0) if self._tells_backlog else None


class _Work:
    """What all sinks have in common: they take time, and fail as planned."""

    def __init__(self, record: Record, oracle: Oracle, storage: Storage, source: random.Random) -> None:
        self._record = record
        self._oracle = oracle
        self._storage = storage
        self._random = source
        self.name = storage.sink
        self._slow_s = source.choice([0.0, 0.001, 0.05, 0.3])

    async def _work(self, what: str = "") -> None:
        if self._slow_s:
            await asyncio.sleep(self._random.random() * self._slow_s)
        if what and self._record.fails(what):
            raise RuntimeError(f"{what} failed{PLANNED}")


class TwoPhase(_Work, AsyncTwoPhaseSink):
    """Stages parts, votes, and commits."""

    keeps_runs = True

    async def stage(self, part: Part, rows: AsyncIterator[Rows]) -> None:
        """Stages a part."""
        values = list[bytes]()
        async for some in rows:
            values += _values(some)
            await self._work()
        await self._work("stage")
        self._storage.staged[part] = values
        await self._record.point("staged")
        await self._work()

    async def drop(self, part: Part) -> None:
        """Drops a part."""
        await self._work()
        if any(part in parts for parts in self._storage.prepared.values()):
            self._record.violation("dropped-prepared", f"{part} is dropped, and is prepared")
        self._storage.staged.pop(part, None)

    async def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Promises to commit."""
        await self._work("prepare")
        missing = [part for part in parts if part not in self._storage.staged]
        if missing:
            raise RuntimeError(f"{transaction}: {missing} are not staged")
        await self._record.point("preparing")
        self._storage.drop(transaction, keep=list(parts))
        self._storage.prepared[transaction] = list(parts)
        await self._record.point("prepared")

    async def commit(self, transaction: Transaction) -> None:
        """Shows a transaction."""
        storage = self._storage
        await self._work("commit")
        if transaction not in storage.prepared:
            if storage.committed.get(transaction.pipeline, -1) < transaction.batch:
                raise RuntimeError(f"{transaction} is not known")
            return
        await self._record.point("committing")
        parts = storage.prepared.pop(transaction)
        rows = [row for part in parts for row in storage.staged.pop(part)]
        storage.drop(transaction)
        storage.show(transaction, rows)
        self._oracle.shown(storage, transaction)
        await self._record.point("sink committed")

    async def abort(self, transaction: Transaction) -> None:
        """Drops a transaction."""
        await self._work()
        self._oracle.aborts(self._storage, transaction)
        self._storage.prepared.pop(transaction, None)
        self._storage.drop(transaction)

    async def recover(self) -> Recovered:
        """Lists what is stored."""
        await self._work()
        storage = self._storage
        committed = [Transaction(pipeline, batch) for pipeline, batch in storage.committed.items()]
        return Recovered(staged=list(storage.staged), prepared=list(storage.prepared), committed=committed)


class Idempotent(_Work, AsyncIdempotentSink):
    """Writes each transaction once, with its id."""

    async def write(self, transaction: Transaction, rows: AsyncIterator[Rows]) -> None:
        """Writes a transaction, unless it is there."""
        values = [value async for some in rows for value in _values(some)]
        await self._work("prepare")
        await self._record.point("preparing")
        if self._storage.committed.get(transaction.pipeline, -1) < transaction.batch:
            self._storage.show(transaction, values)
        await self._record.point("prepared")

    async def last(self, pipeline: str) -> int | None:
        """Returns the last written batch."""
        await self._work()
        return self._storage.committed.get(pipeline)

    async def pipelines(self) -> Sequence[str]:
        """Returns all pipelines that have written."""
        return list(self._storage.committed)


class AtLeastOnce(_Work, AsyncSink):
    """Writes rows as they arrive."""

    async def write(self, rows: Rows) -> None:
        """Writes rows."""
        await self._work("stage")
        assert rows.part is not None, "the SDK names the part"
        self._storage.show(rows.part.transaction, _values(rows))
        await self._record.point("staged")


def _values(rows: Rows) -> list[bytes]:
    return [message.value or b"" for message in rows.messages()]
