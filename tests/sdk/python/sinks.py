"""Sinks in memory, of every mode, blocking and for asyncio, that tell what they were asked for."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from headrace.sdk import (
    AsyncIdempotentSink,
    AsyncSink,
    AsyncTwoPhaseSink,
    IdempotentSink,
    Part,
    Recovered,
    Rows,
    Sink,
    Transaction,
    TwoPhaseSink,
)


def values_of(rows: Rows) -> list[bytes | None]:
    return [message.value for message in rows.messages()]


class Memory:
    """The requests that a sink has received, and its answers."""

    name = "memory"
    connector = "fake"
    version = "7"

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.calls: list[str] = []
        self.threads: set[str] = set()
        self.raises: dict[str, list[Exception]] = {}
        """What the next calls of a method raise."""
        self.outcomes: Callable[[list[bytes | None]], object] = lambda values: None

    def called(self, what: str, *about: object) -> None:
        self.threads.add(threading.current_thread().name)
        self.calls.append(" ".join(map(str, (what, *about))))
        if self.raises.get(what):
            raise self.raises[what].pop(0)


class Plain(Memory, Sink):
    def write(self, rows):
        self.called("write")
        values = values_of(rows)
        self.values += values
        return self.outcomes(values)

    def flush(self):
        self.called("flush")


class AsyncPlain(Memory, AsyncSink):
    async def write(self, rows):
        return Plain.write(self, rows)

    async def flush(self):
        self.called("flush")


class Idempotence(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.batches: dict[Transaction, list[bytes | None]] = {}
        self.check_outcomes: Callable[[list[bytes | None]], object] = lambda values: None

    def write(self, transaction: Transaction, rows: Iterator[Rows]):
        self.called("write", transaction.batch)
        values = [value for some in rows for value in values_of(some)]
        self.batches[transaction] = values
        return self.outcomes(values)

    def check(self, rows):
        return self.check_outcomes(values_of(rows))

    def last(self, pipeline):
        return max((t.batch for t in self.batches if t.pipeline == pipeline), default=None)

    def pipelines(self):
        return sorted({t.pipeline for t in self.batches})


class Idempotent(Idempotence, IdempotentSink):
    pass


class AsyncIdempotent(Idempotence, AsyncIdempotentSink):
    async def write(self, transaction: Transaction, rows: AsyncIterator[Rows]):
        return Idempotence.write(self, transaction, [some async for some in rows])

    async def check(self, rows):
        return Idempotence.check(self, rows)

    async def last(self, pipeline):
        return Idempotence.last(self, pipeline)

    async def pipelines(self):
        return Idempotence.pipelines(self)


class Transactions(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[Part, list[bytes | None]] = {}
        self.votes: dict[Transaction, Sequence[Part]] = {}
        self.last: dict[str, int] = {}

    def stage(self, part: Part, rows: Iterator[Rows]):
        self.called("stage", part.transaction.batch, part.partition, part.attempt)
        values = [value for some in rows for value in values_of(some)]
        self.parts[part] = values
        return self.outcomes(values)

    def drop(self, part: Part):
        self.called("drop", part.transaction.batch, part.partition, part.attempt)
        self.parts.pop(part, None)

    def prepare(self, transaction: Transaction, parts: Sequence[Part]):
        self.called("prepare", transaction.batch)
        self._keep(transaction, parts)
        self.votes[transaction] = parts

    def commit(self, transaction: Transaction):
        self.called("commit", transaction.batch)
        for part in self.votes.pop(transaction, ()):
            self.values += self.parts.pop(part)
        self.last[transaction.pipeline] = transaction.batch

    def abort(self, transaction: Transaction):
        self.called("abort", transaction.batch)
        self.votes.pop(transaction, None)
        self._keep(transaction, ())

    def recover(self):
        self.called("recover")
        committed = [Transaction(*last) for last in self.last.items()]
        return Recovered(sorted(self.parts), sorted(self.votes), committed)

    def _keep(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        self.parts = {p: v for p, v in self.parts.items() if p.transaction != transaction or p in parts}


class TwoPhase(Transactions, TwoPhaseSink):
    pass


class AsyncTwoPhase(Transactions, AsyncTwoPhaseSink):
    async def stage(self, part: Part, rows: AsyncIterator[Rows]):
        self.called("stage", part.transaction.batch, part.partition, part.attempt)
        values = [value async for some in rows for value in values_of(some)]
        self.parts[part] = values
        return self.outcomes(values)

    async def drop(self, part):
        Transactions.drop(self, part)

    async def prepare(self, transaction, parts):
        Transactions.prepare(self, transaction, parts)

    async def commit(self, transaction):
        Transactions.commit(self, transaction)

    async def abort(self, transaction):
        Transactions.abort(self, transaction)

    async def recover(self):
        return Transactions.recover(self)
