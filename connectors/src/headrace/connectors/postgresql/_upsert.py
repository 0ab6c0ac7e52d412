"""The `postgresql-upsert` sink: keeps the last message of each key, and writes a batch in one transaction with its id."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from psycopg import sql

from headrace.connectors._connector import VERSION
from headrace.connectors.postgresql._parameters import PostgreSQLUpsertParameters
from headrace.connectors.postgresql.batches import Batches
from headrace.connectors.postgresql.chunk import Chunk, chunks
from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.link import Link
from headrace.connectors.postgresql.names import name
from headrace.connectors.postgresql.target import described, find_target
from headrace.connectors.postgresql.trial import Trial, outcomes_of, trial_of
from headrace.connectors.postgresql.writing import Upserting, upserting
from headrace.sdk import AsyncIdempotentSink, InvalidSink, Outcomes, Rows, Transaction

_KEPT_BYTES = 64 << 20
_MAKE_CHUNK = """
    CREATE TEMPORARY TABLE headrace_chunk (
        keys bytea[], "values" bytea[], event_times bigint[], message_ids bytea[], headers bytea[], refused int[]
    ) ON COMMIT DELETE ROWS
"""
_PUT = "INSERT INTO pg_temp.headrace_chunk VALUES (%b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[], %b::bytea[], %s::int[])"
_TRIED = name("pg_temp", "headrace_chunk")
_GIVEN = sql.SQL(
    '(SELECT %b::bytea[] AS keys, %b::bytea[] AS "values", %b::bigint[] AS event_times, %b::bytea[] AS message_ids, '
    "%b::bytea[] AS headers, '{}'::int[] AS refused)"
)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A connection, and the state of the table."""

    session: Session
    upserting: Upserting
    trial: Trial
    batches: Batches


class PostgreSQLUpsertSink(AsyncIdempotentSink):
    """Inserts, updates and deletes by key."""

    connector = "postgresql-upsert"
    version = VERSION

    def __init__(self, parameters: PostgreSQLUpsertParameters) -> None:
        """Creates the sink, without connecting."""
        self.name = parameters.sink
        self._parameters = parameters
        self._database = Database(parameters, f"postgresql-upsert {parameters.sink}", InvalidSink, self)
        self._link: Link[_Opened] = Link(self._database, self._open)

    async def check(self, rows: Rows) -> Outcomes:
        """Tries rows on the table, without leaving anything behind."""
        chunk = Chunk(0, [rows])
        refused = self._without_key(chunk)

        async def try_them(opened: _Opened) -> dict[int, str]:
            await opened.trial.check(opened.session)
            async with opened.session.transaction():
                await opened.session.execute(_PUT, (*chunk.columns(), list(refused)))
                async with opened.trial.begun(opened.session):
                    return await opened.trial.refused(opened.session, _TRIED)

        refused |= await self._link.keep_trying(try_them)
        return outcomes_of(len(rows), {place - 1: reason for place, reason in refused.items()})

    async def write(self, transaction: Transaction, rows: AsyncIterator[Rows]) -> Outcomes:
        """Writes a batch, unless it is the last one that was written."""
        kept = _Kept(rows)

        async def write_all(opened: _Opened) -> None:
            session, batches = opened.session, opened.batches
            await opened.trial.check(session)
            async with session.transaction():
                await batches.lock(session, transaction.pipeline)
                if await batches.last(session, transaction.pipeline) == transaction.batch:
                    return
                statement = opened.upserting.all_of(_GIVEN, opened.trial.table.identifier)
                async for chunk in kept.chunks():
                    await session.execute(statement, chunk.columns())
                await batches.forget_others(session, transaction)
                await batches.add(session, transaction)

        await self._link.keep_trying(write_all)
        return None

    async def last(self, pipeline: str) -> int | None:
        """Returns the last batch of a pipeline."""
        return await self._link.ask(lambda opened: opened.batches.last(opened.session, pipeline))

    async def pipelines(self) -> Sequence[str]:
        """Returns the pipelines that have written."""
        found = await self._link.ask(lambda opened: opened.batches.all(opened.session))
        return [transaction.pipeline for transaction in found]

    async def close(self) -> None:
        """Closes the connection."""
        await self._link.close()

    async def look(self) -> str:
        """Connects once, without changing anything, and returns a one-line description of the table.

        Raises:
            InvalidSink: The table or the configuration is not suitable.
        """
        async with self._database.looked_at() as session:
            table, _ = await find_target(session, self._database, self._parameters)
            found = await upserting(session, self._database, table, self._parameters)
            return described(self._database, table, found.filling)

    async def _open(self, session: Session) -> _Opened:
        """Checks the table, and creates the missing tables next to it."""
        given = self._parameters
        table, state = await find_target(session, self._database, given)
        found = await upserting(session, self._database, table, given)
        batches = Batches(table.schema, given.sink, given.owner)
        await batches.make(session)
        trial = await trial_of(session, table, found, found.filling.columns, state, found.arbiters)
        await trial.prepare(session)
        await session.execute(_MAKE_CHUNK)
        return _Opened(session, found, trial, batches)

    def _without_key(self, chunk: Chunk) -> dict[int, str]:
        """Returns the messages without a key."""
        if self._parameters.key == "message":
            return chunk.missing("keys", "the message has no key")
        return chunk.missing("values", "the message has no value, which should contain its key")


class _Kept:
    """The chunks of a batch, which can be iterated again if they are small enough."""

    def __init__(self, rows: AsyncIterator[Rows]) -> None:
        """Creates the chunks from an iterator of rows."""
        self._coming = chunks(rows)
        self._chunks: list[Chunk] = []
        self._bytes = 0

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yields all chunks.

        Raises:
            RuntimeError: They were iterated before, and were too large to keep.
        """
        if self._bytes > _KEPT_BYTES:
            raise RuntimeError(f"a batch of more than {_KEPT_BYTES >> 20} MiB was interrupted; it has to run again")
        for chunk in self._chunks:
            yield chunk
        async for chunk in self._coming:
            self._bytes += chunk.size
            if self._bytes <= _KEPT_BYTES:
                self._chunks.append(chunk)
            yield chunk
