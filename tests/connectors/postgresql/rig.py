"""Tables of a test's own, streams as a query reads them, and sources that run in this process."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from scripts.brokers import PostgreSQL
from tests.gateway.wire import Engine

from headrace.connectors.postgresql import PostgreSQLOutboxSource, PostgreSQLSink, PostgreSQLSource
from headrace.protocol.v1 import frame_pb2
from headrace.sdk import NULL, Message, Part, Position, Rows, Settings, Transaction, decode_frame, serve

DEADLINE_S = 150.0
SETTINGS = Settings(partition_poll_seconds=0.05, drain_seconds=0.1)


class Stream:
    """A query that reads one stream of a gateway, batch by batch."""

    def __init__(self, address: str, stream: str, *, name: str = "q", run: int = 1, skip_lost: bool = False) -> None:
        self.engine = Engine(address, name, run, streams=stream, skip_lost=skip_lost)
        self.stream = stream
        self.at: frame_pb2.Position | None = None
        self.messages: list[Message] = []

    async def attach(self, committed: int | None = None) -> None:
        """Begins, at a position."""
        self.at = None if committed is None else frame_pb2.Position(sequence=committed)
        await self.engine.attach({} if committed is None else {self.stream: committed})

    async def read(self, count: int, *, at_most: int = 1_000_000) -> list[Message]:
        """Reads on until there are `count` messages more, and returns these; in batches of a size."""
        before = len(self.messages)
        async with asyncio.timeout(DEADLINE_S):
            while len(self.messages) < before + count:
                await self._batch(wait_ms=500, max_messages=at_most)
        return self.messages[before:]

    async def look(self) -> None:
        """Reads what is there soon, which may be nothing."""
        await self._batch(wait_ms=500)

    async def nothing(self) -> None:
        """Sees that there is nothing to read, once the source has looked."""
        before = len(self.messages)
        await self._batch(wait_ms=300)
        assert self.messages[before:] == []

    async def commit(self) -> None:
        """Commits what was read last; to read on commits it, too."""
        await self.engine.plan(self._committed(), wait_ms=0)

    async def close(self) -> None:
        await self.engine.close()

    async def _batch(self, **limits: int) -> None:
        for planned in (await self.engine.plan(self._committed(), **limits)).ranges:
            frames = await self.engine.fetch(planned.stream, self.at, planned.end)
            # A range may begin and end within a frame.
            first, last = 0 if self.at is None else self.at.sequence, planned.end.sequence
            found = (message for frame in frames for message in decode_frame(frame))
            self.messages += [message for message in found if first < (message.sequence or 0) <= last]
            self.at = planned.end

    def _committed(self) -> dict[str, frame_pb2.Position]:
        return {} if self.at is None else {self.stream: self.at}


@asynccontextmanager
async def running(connector: object, address: str, **options: object) -> AsyncIterator["asyncio.Task[None]"]:
    """A connector in this process; what it raises is raised in the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(serve(connector, gateway=address, stop=stop, settings=SETTINGS, **options))  # type: ignore[arg-type]
    try:
        yield task
        stop.set()
        await asyncio.wait_for(task, DEADLINE_S)
    finally:
        task.cancel()
        with contextlib.suppress(BaseException):
            await task


async def connected(url: str) -> AsyncConnection:
    """Another session of the database, in autocommit mode."""
    return await AsyncConnection.connect(url, autocommit=True)


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value for message in messages]


def sequences(messages: list[Message]) -> list[int | None]:
    return [message.sequence for message in messages]


async def until(condition: Callable[[], object]) -> None:
    """Waits for something that shows only in a connector's own state, or in a log."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.01)


def in_database(url: str, *statements: str) -> None:
    """Executes statements, each for itself."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def temporary_schema(url: str, name: str) -> Iterator[str]:
    """A schema, which is dropped afterwards with all that is in it, as are transactions that are prepared still."""
    in_database(url, f"CREATE SCHEMA {name}")
    yield name
    with psycopg.connect(url, autocommit=True) as connection:
        for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            connection.execute(f"ROLLBACK PREPARED '{gid}'")
        connection.execute(f"DROP SCHEMA {name} CASCADE")


async def started(broker: PostgreSQL) -> None:
    """Starts the server again, from another process: this one has threads of gRPC, which a fork does not survive."""
    program = "import pathlib, sys; from scripts.brokers import PostgreSQL; PostgreSQL(pathlib.Path(sys.argv[1])).start()"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(broker.folder))
    assert await process.wait() == 0


async def coming(*rows: Rows) -> AsyncIterator[Rows]:
    """Rows as they arrive."""
    for some in rows:
        yield some


def messages(*given: Message | bytes | None) -> Rows:
    """Rows of messages, or of values."""
    return Rows.of(*(each if isinstance(each, Message) else Message(each) for each in given))


async def rows_of(database: AsyncConnection, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return await (await database.execute(query)).fetchall()  # type: ignore[call-overload, no-any-return]


async def until_rows(database: AsyncConnection, query: str) -> None:
    """Waits until a query gives something."""
    async with asyncio.timeout(DEADLINE_S):
        while not await rows_of(database, query):  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.005)


async def write(sink: PostgreSQLSink, transaction: Transaction, *parts: Rows | None) -> None:
    """Writes a batch of some parts, none of which is refused."""
    staged = [Part(transaction, number, "r/a") for number in range(len(parts))]
    for part, rows in zip(staged, parts, strict=True):
        assert await sink.stage(part, coming(*([] if rows is None else [rows]))) is None
    await sink.prepare(transaction, staged)
    await sink.commit(transaction)


async def read_once(found: PostgreSQLSource | PostgreSQLOutboxSource, *, partition: str = "0", after: int = 0) -> list[Message]:
    """Returns the messages that are there now, without a gateway."""
    items = found.read(partition, Position(sequence=after) if after else None)
    collected: list[Message] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for batch in items:
                if batch is None:
                    return collected
                nothing: list[Any] = [None] * len(batch)
                times = [None if time == -(2**63) else time for time in batch.event_times or ()] or nothing
                parts = (batch.sequences, entries(batch.values), entries(batch.keys) or nothing, times, batch.headers or nothing)
                collected += [
                    Message(value, key, event_time=time, headers=headers, sequence=sequence)
                    for sequence, value, key, time, headers in zip(*parts, strict=True)
                ]
        return collected
    finally:
        await items.aclose()  # type: ignore[attr-defined]


def entries(column: Any) -> list[bytes | None]:
    """The entries of a packed column."""
    if column is None:
        return []
    found: list[bytes | None] = []
    at = 0
    for length in column.lengths:
        found.append(None if length == NULL else column.data[at : at + length])
        at += 0 if length == NULL else length
    return found
