"""The tables of a sink next to its target table, and one of them: the last batch of each pipeline that it has written."""

from dataclasses import dataclass
from typing import ClassVar, LiteralString

from psycopg import sql

from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.names import name, plain
from headrace.sdk import Transaction

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table in which one sink keeps something.

    Attributes:
        schema: The schema of the table.
        sink: The sink.
        owner: The owner name of the instance.
    """

    schema: str
    sink: str
    owner: str

    called: ClassVar[str]
    """The name of the table."""
    statement: ClassVar[LiteralString]
    """The statement that creates it."""

    @property
    def table(self) -> sql.Identifier:
        """The table."""
        return name(self.schema, self.called)

    async def make(self, session: Session) -> None:
        """Creates the table if it does not exist; several processes may try at the same time."""
        written = plain(self.table)
        async with session.transaction():
            await session.fetch(_LOCK, (written,))
            if (await session.fetch("SELECT to_regclass(%s) IS NULL", (written,)))[0][0]:
                await session.execute(sql.SQL(self.statement).format(self.table))


@dataclass(frozen=True, slots=True)
class Batches(SinkTable):
    """The batches of one sink."""

    called = "headrace_batches"
    statement = """
        CREATE TABLE {} (
            sink text, owner text, pipeline text, batch bigint, PRIMARY KEY (sink, owner, pipeline, batch)
        )
    """

    async def last(self, session: Session, pipeline: str) -> int | None:
        """Returns the last batch of a pipeline; None if there is none."""
        query = sql.SQL("SELECT max(batch) FROM {} WHERE sink = %s AND owner = %s AND pipeline = %s").format(self.table)
        last: int | None = (await session.fetch(query, (self.sink, self.owner, pipeline)))[0][0]
        return last

    async def all(self, session: Session) -> list[Transaction]:
        """Returns the last batch of every pipeline."""
        query = sql.SQL("SELECT pipeline, max(batch) FROM {} WHERE sink = %s AND owner = %s GROUP BY pipeline ORDER BY pipeline")
        return [Transaction(*row) for row in await session.fetch(query.format(self.table), (self.sink, self.owner))]

    async def add(self, session: Session, transaction: Transaction) -> None:
        """Records a batch, within the transaction that writes it. Earlier ones remain until `forget_others`."""
        query = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING").format(self.table)
        await session.execute(query, (self.sink, self.owner, transaction.pipeline, transaction.batch))

    async def forget_others(self, session: Session, transaction: Transaction) -> None:
        """Deletes the other batches of a pipeline."""
        query = sql.SQL("DELETE FROM {} WHERE sink = %s AND owner = %s AND pipeline = %s AND batch <> %s").format(self.table)
        await session.execute(query, (self.sink, self.owner, transaction.pipeline, transaction.batch))

    async def lock(self, session: Session, pipeline: str) -> None:
        """Locks a pipeline until the transaction ends, so that only one process writes its batches."""
        await session.fetch(_LOCK, ("/".join(("headrace", self.schema, self.sink, self.owner, pipeline)),))
