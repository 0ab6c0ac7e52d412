"""The last batch of each pipeline that a sink has written, in a table beside the one that it writes to."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from headrace.connectors.postgresql._database import Session
from headrace.sdk import Transaction

_NAME = "headrace_batches"
_MAKE = """
    CREATE TABLE {} (
        sink text, owner text, pipeline text, batch bigint, PRIMARY KEY (sink, owner, pipeline, batch)
    )
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one sink.

    Attributes:
        schema: Where the table is.
        sink: The sink.
        owner: Which instance of it.
    """

    schema: str
    sink: str
    owner: str

    async def make(self, session: Session) -> None:
        """Makes the table where there is none."""
        await make_table(session, self._table, _MAKE)

    async def last(self, session: Session, pipeline: str) -> int | None:
        """The last batch of a pipeline; None where there is none."""
        query = sql.SQL("SELECT max(batch) FROM {} WHERE sink = %s AND owner = %s AND pipeline = %s").format(self._table)
        last: int | None = (await session.fetch(query, (self.sink, self.owner, pipeline)))[0][0]
        return last

    async def all(self, session: Session) -> list[Transaction]:
        """The last batch of every pipeline."""
        query = sql.SQL("SELECT pipeline, max(batch) FROM {} WHERE sink = %s AND owner = %s GROUP BY pipeline ORDER BY pipeline")
        return [Transaction(*row) for row in await session.fetch(query.format(self._table), (self.sink, self.owner))]

    async def add(self, session: Session, transaction: Transaction) -> None:
        """Notes a batch, within the transaction that writes it. Those before stay until they are forgotten."""
        query = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING").format(self._table)
        await session.execute(query, (self.sink, self.owner, transaction.pipeline, transaction.batch))

    async def forget_others(self, session: Session, transaction: Transaction) -> None:
        """Forgets the other batches of a pipeline."""
        query = sql.SQL("DELETE FROM {} WHERE sink = %s AND owner = %s AND pipeline = %s AND batch <> %s").format(self._table)
        await session.execute(query, (self.sink, self.owner, transaction.pipeline, transaction.batch))

    async def lock(self, session: Session, pipeline: str) -> None:
        """Waits until nobody else writes a batch of a pipeline, and keeps others from it until the transaction ends."""
        await session.fetch(_LOCK, ("/".join(("headrace", self.schema, self.sink, self.owner, pipeline)),))

    @property
    def _table(self) -> sql.Identifier:
        return sql.Identifier(self.schema, _NAME)


async def make_table(session: Session, table: sql.Identifier, statement: LiteralString) -> None:
    """Makes a table where there is none; several may try at the same time."""
    name = table.as_string(None)
    async with session.transaction():
        await session.fetch(_LOCK, (name,))
        if (await session.fetch("SELECT to_regclass(%s) IS NULL", (name,)))[0][0]:
            await session.execute(sql.SQL(statement).format(table))
