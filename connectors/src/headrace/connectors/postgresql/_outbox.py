"""The `postgresql-outbox` source: rows of an outbox table, which are deleted once they are acknowledged."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial

from psycopg import sql

from headrace.connectors._connector import VERSION
from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.postgresql._parameters import PostgreSQLOutboxParameters
from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.link import Link
from headrace.connectors.postgresql.names import name, value
from headrace.connectors.postgresql.notices import Notices
from headrace.connectors.postgresql.reading import Reading
from headrace.connectors.postgresql.strays import Strays
from headrace.connectors.postgresql.table import Table, find_table
from headrace.connectors.postgresql.watch import Watch, partition_of
from headrace.contract.names import is_stream_name
from headrace.sdk import Backlog, Batch, InvalidSource, Position

_ROWS_AT_ONCE = 10_000
# An index that begins with the column finds each value in one step, however many rows contain the value.
_PARTITIONS = """
    WITH RECURSIVE found (name) AS (
        (SELECT message.{column} FROM {table} AS message ORDER BY message.{column} LIMIT 1)
        UNION ALL
        SELECT (
            SELECT message.{column} FROM {table} AS message WHERE message.{column} > found.name ORDER BY message.{column} LIMIT 1
        )
        FROM found WHERE found.name IS NOT NULL
    )
    SELECT found.name::text FROM found WHERE found.name IS NOT NULL
    UNION ALL
    (SELECT NULL FROM {table} AS message WHERE message.{column} IS NULL LIMIT 1)
"""
_DELETE = """
    WITH read AS (
        SELECT message.{number} AS number FROM {table} AS message
        WHERE {conditions} message.{number} <= %s ORDER BY message.{number} LIMIT {limit}
    ), deleted AS (
        DELETE FROM {table} AS message USING read WHERE message.{number} = read.number
    )
    SELECT count(*) FROM read
"""


class PostgreSQLOutboxSource(PolicySource):
    """Reads an outbox table.

    The sequence of a message is the number of its row, so the source is replayable until rows are deleted.
    """

    connector = "postgresql-outbox"
    version = VERSION
    idle_seconds = 0.0

    def __init__(self, parameters: PostgreSQLOutboxParameters) -> None:
        """Creates the source, without connecting."""
        self.name = parameters.source
        self._parameters = parameters
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._database = Database(parameters, f"postgresql-outbox source {parameters.source}", InvalidSource, self)
        self._readings: dict[str, Reading] = {}
        # Three connections, however many partitions there are, because a server allows only a limited number.
        self._watch = Watch(
            self._database,
            parameters,
            value_column=parameters.value_column,
            partition_column=parameters.partition_column,
        )
        self._notices = Notices(self._database, parameters.channel)
        self._aside: Link[tuple[Session, Table]] = Link(self._database, self._open)
        self._strays = Strays(self._watch, self._aside.ask, self.bad_records, parameters)

    async def partitions(self) -> Sequence[str]:
        """Returns the current values of the partition column.

        Raises:
            InvalidSource: The table cannot be read, or a value cannot be the name of a partition and the policy is to fail.
        """
        column = self._parameters.partition_column
        if column is None:
            return ["0"]

        async def list_them(opened: tuple[Session, Table]) -> list[str | None]:
            session, table = opened
            partition_of(self._database, table, column)
            query = sql.SQL(_PARTITIONS).format(column=name(column), table=table.identifier)
            return [found for (found,) in await session.fetch(query)]

        try:
            found = await self._aside.ask(list_them)
            named = [each for each in found if each is not None and is_stream_name(f"{self.name}/{each}")]
            for each in found:
                if each not in named:
                    await self._strays.refuse(each)
        finally:
            await self._close_where_idle()
        return named

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | None]:
        """Yields the batches of each page of rows; bad rows are left to the policy in their turn."""
        by_partition = self._parameters.partition_column is not None
        reading = Reading(self._watch, position=position, partition=partition if by_partition else None)
        self._readings[partition] = reading
        self._notices.begin()
        try:
            async with aclosing(reading.batches(partial(self.unsendable, partition), self._wait)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            del self._readings[partition]
            await self._close_where_idle()

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Deletes acknowledged rows."""
        if self._parameters.acknowledged_rows == "keep":
            return

        async def delete_some(opened: tuple[Session, Table]) -> int:
            session, table = opened
            by_partition = self._parameters.partition_column
            conditions = sql.SQL("" if by_partition is None else "{} = %s AND").format(name("message", by_partition or ""))
            query = sql.SQL(_DELETE).format(
                number=name(self._parameters.sequence_column),
                table=table.identifier,
                conditions=conditions,
                limit=value(_ROWS_AT_ONCE),
            )
            which = (position.sequence,) if by_partition is None else (partition, position.sequence)
            return int((await session.fetch(query, which))[0][0])

        while await self._aside.ask(delete_some) == _ROWS_AT_ONCE:
            pass

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the rows that are left to read, as far as known."""
        reading = self._readings.get(partition)
        return reading.backlog if reading else None

    async def close(self) -> None:
        """Closes the connections, which an acknowledgement may have opened after the last row was read."""
        await self._close_where_idle()

    async def look(self) -> str:
        """Connects once, without reading rows, and returns a one-line description of the table.

        Raises:
            InvalidSource: The table cannot be read.
        """
        return await self._watch.describe()

    async def _wait(self, reading: Reading) -> float:
        return await self._notices.wait(reading.looked_at, reading.next_check_in(self._parameters.poll_seconds))

    async def _close_where_idle(self) -> None:
        """Closes the connections if nothing is read."""
        if not self._readings:
            await self._notices.end()
            await self._watch.close()
            await self._aside.close()

    async def _open(self, session: Session) -> tuple[Session, Table]:
        return session, await find_table(session, self._database, self._parameters.table)
