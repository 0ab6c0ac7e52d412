"""Sinks for asyncio: every method is a coroutine and runs on the connector's event loop, which must not be blocked."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from headrace.sdk.sinks.rows import Rows
from headrace.sdk.sinks.sink import SinkBase
from headrace.sdk.sinks.types import Outcomes, Part, Recovered, Transaction


class _CoroutineSink(SinkBase):
    """What sinks with coroutines share."""

    async def close(self) -> None:
        """As `Sink.close`, on the event loop. It is cancelled if it does not return in time."""


class AsyncSink(_CoroutineSink, ABC):
    """As `Sink`. Methods are called one at a time."""

    @abstractmethod
    async def write(self, rows: Rows) -> Outcomes:
        """As `Sink.write`."""

    async def flush(self) -> None:
        """As `Sink.flush`."""


class AsyncIdempotentSink(_CoroutineSink, ABC):
    """As `IdempotentSink`. Methods are called one at a time."""

    @abstractmethod
    async def write(self, transaction: Transaction, rows: AsyncIterator[Rows]) -> Outcomes:
        """As `IdempotentSink.write`."""

    async def check(self, rows: Rows) -> Outcomes:
        """As `IdempotentSink.check`."""
        return None

    async def last(self, pipeline: str) -> int | None:
        """As `IdempotentSink.last`."""
        return None

    async def pipelines(self) -> Sequence[str]:
        """As `IdempotentSink.pipelines`."""
        return ()


class AsyncTwoPhaseSink(_CoroutineSink, ABC):
    """As `TwoPhaseSink`. Several parts may be staged concurrently; the other methods are called one at a time."""

    keeps_runs: bool = False
    """As `TwoPhaseSink.keeps_runs`."""

    @abstractmethod
    async def stage(self, part: Part, rows: AsyncIterator[Rows]) -> Outcomes:
        """As `TwoPhaseSink.stage`."""

    @abstractmethod
    async def drop(self, part: Part) -> None:
        """As `TwoPhaseSink.drop`."""

    @abstractmethod
    async def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """As `TwoPhaseSink.prepare`."""

    @abstractmethod
    async def commit(self, transaction: Transaction) -> None:
        """As `TwoPhaseSink.commit`."""

    @abstractmethod
    async def abort(self, transaction: Transaction) -> None:
        """As `TwoPhaseSink.abort`."""

    @abstractmethod
    async def recover(self) -> Recovered:
        """As `TwoPhaseSink.recover`."""
