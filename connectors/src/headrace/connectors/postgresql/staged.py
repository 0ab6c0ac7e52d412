"""Staged parts, in a table next to the target table."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql

from headrace.connectors.postgresql.batches import SinkTable
from headrace.connectors.postgresql.chunk import Chunk
from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.names import value
from headrace.sdk import Part, Transaction

_ROW = "sink, owner, pipeline, batch, partition, attempt, chunk, first, refused, reasons"
_PUT = (
    "INSERT INTO {} (" + _ROW + ', keys, "values", event_times, message_ids, headers) '
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[], %b::bytea[]) "
    "ON CONFLICT DO NOTHING"
)
_OF_SINK = "sink = %s AND owner = %s"
_OF_BATCH = _OF_SINK + " AND pipeline = %s AND batch = %s"
_OF_PART = _OF_BATCH + " AND partition = %s AND attempt = %s"


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A chunk of a staged part.

    Attributes:
        id: Its id in the table.
        first: The number of rows of the part before it.
        refused: The reasons of its refused messages, by position, counted from 1.
    """

    id: int
    first: int
    refused: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Staged(SinkTable):
    """The staged parts of one sink."""

    called = "headrace_staged"
    # Chunk 0 marks a part as complete. Arrays are stored uncompressed: compressing them costs more than it saves.
    statement = """
        CREATE TABLE {0} (
            id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
            sink text, owner text, pipeline text, batch bigint, partition bigint, attempt text, chunk int,
            first bigint NOT NULL, keys bytea[], "values" bytea[], event_times bigint[], message_ids bytea[], headers bytea[],
            refused int[] NOT NULL DEFAULT '{{}}', reasons text[] NOT NULL DEFAULT '{{}}',
            PRIMARY KEY (sink, owner, pipeline, batch, partition, attempt, chunk)
        );
        ALTER TABLE {0} ALTER keys SET STORAGE EXTERNAL, ALTER "values" SET STORAGE EXTERNAL,
            ALTER event_times SET STORAGE EXTERNAL, ALTER message_ids SET STORAGE EXTERNAL, ALTER headers SET STORAGE EXTERNAL
    """

    def relation(self, chunk: StagedChunk) -> sql.Composed:
        """Returns a chunk as the relation of a statement."""
        return sql.SQL("(SELECT * FROM {} WHERE id = {})").format(self.table, value(chunk.id))

    # One part

    async def put(self, session: Session, part: Part, number: int, chunk: Chunk, refused: Mapping[int, str]) -> None:
        """Stores a chunk, counted from 1, some of whose messages may be refused; no effect if it exists."""
        values = (*self._part(part), number, chunk.first, *_listed(refused), *chunk.columns())
        await session.execute(sql.SQL(_PUT).format(self.table), values)

    async def chunks(self, session: Session, part: Part) -> list[StagedChunk]:
        """Returns the chunks of a part, in order."""
        query = "SELECT id, first, refused, reasons FROM {} WHERE " + _OF_PART + " AND chunk > 0 ORDER BY chunk"
        rows = await session.fetch(sql.SQL(query).format(self.table), self._part(part))
        return [StagedChunk(id_, first, dict(zip(places, reasons, strict=True))) for id_, first, places, reasons in rows]

    async def refuse(self, session: Session, chunk: StagedChunk, refused: Mapping[int, str]) -> None:
        """Marks more messages of a chunk as refused."""
        query = sql.SQL("UPDATE {} SET refused = %s, reasons = %s WHERE id = %s").format(self.table)
        await session.execute(query, (*_listed({**chunk.refused, **refused}), chunk.id))

    async def finish(self, session: Session, part: Part, refused: Mapping[int, str]) -> None:
        """Marks a part as complete, except for the refused messages."""
        query = sql.SQL("INSERT INTO {} (" + _ROW + ") VALUES (%s, %s, %s, %s, %s, %s, 0, 0, %s, %s)").format(self.table)
        await session.execute(query, (*self._part(part), *_listed(refused)))

    async def finished(self, session: Session, part: Part) -> dict[int, str] | None:
        """Returns the refused messages of a part, with reasons; None if the part is incomplete."""
        query = sql.SQL("SELECT refused, reasons FROM {} WHERE " + _OF_PART + " AND chunk = 0").format(self.table)
        rows = await session.fetch(query, self._part(part))
        return dict(zip(*rows[0], strict=True)) if rows else None

    async def drop(self, session: Session, part: Part) -> None:
        """Removes a part, complete or not."""
        await session.execute(sql.SQL("DELETE FROM {} WHERE " + _OF_PART).format(self.table), self._part(part))

    # All parts

    async def parts(self, session: Session) -> list[Part]:
        """Returns all complete parts."""
        query = "SELECT pipeline, batch, partition, attempt FROM {} WHERE " + _OF_SINK + " AND chunk = 0 ORDER BY 1, 2, 3, 4"
        rows = await session.fetch(sql.SQL(query).format(self.table), (self.sink, self.owner))
        return [Part(Transaction(pipeline, batch), partition, attempt) for pipeline, batch, partition, attempt in rows]

    async def remove_unfinished(self, session: Session) -> None:
        """Removes incomplete parts. Must not run while something is being staged."""
        query = """
            DELETE FROM {0} AS chunk WHERE sink = %s AND owner = %s AND NOT EXISTS (
                SELECT FROM {0} AS last
                WHERE (last.sink, last.owner, last.pipeline, last.batch, last.partition, last.attempt, last.chunk)
                    = (chunk.sink, chunk.owner, chunk.pipeline, chunk.batch, chunk.partition, chunk.attempt, 0))
        """
        await session.execute(sql.SQL(query).format(self.table), (self.sink, self.owner))

    async def remove(self, session: Session, transaction: Transaction) -> None:
        """Removes all parts of a transaction."""
        await session.execute(sql.SQL("DELETE FROM {} WHERE " + _OF_BATCH).format(self.table), self._batch(transaction))

    def _batch(self, transaction: Transaction) -> tuple[object, ...]:
        return (self.sink, self.owner, transaction.pipeline, transaction.batch)

    def _part(self, part: Part) -> tuple[object, ...]:
        return (*self._batch(part.transaction), part.partition, part.attempt)


def _listed(refused: Mapping[int, str]) -> tuple[list[int], list[str]]:
    """Positions, and the reason of each."""
    return list(refused), list(refused.values())
