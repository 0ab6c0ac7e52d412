"""The `postgresql-outbox` source: rows of an outbox table, which are deleted once they are acknowledged."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import psycopg
from psycopg import sql

from headrace.connectors._bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._link import Link
from headrace.connectors.postgresql._notices import Notices
from headrace.connectors.postgresql._parameters import PostgreSQLOutboxParameters
from headrace.connectors.postgresql._reading import Reading
from headrace.connectors.postgresql._table import Table, find_columns, find_table
from headrace.connectors.postgresql._watch import Watch
from headrace.contract.names import is_name
from headrace.sdk import Backlog, Batch, InvalidSource, Position

T = TypeVar("T")
_ROWS_AT_ONCE = 10_000
# An index that begins with the column finds each value in one step, however many rows have it.
_PARTITIONS = """
    WITH RECURSIVE found (name) AS (
        (SELECT {column} FROM {table} ORDER BY {column} LIMIT 1)
        UNION ALL
        SELECT (SELECT {column} FROM {table} WHERE {column} > found.name ORDER BY {column} LIMIT 1)
        FROM found WHERE name IS NOT NULL
    )
    SELECT name::text FROM found WHERE name IS NOT NULL
"""
_DELETE = """
    WITH read AS (
        SELECT {number} AS number FROM {table} WHERE {conditions} {number} <= %s ORDER BY {number} LIMIT {limit}
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
    version = "0.1.0"
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

    async def partitions(self) -> Sequence[str]:
        """Returns the current values of the partition column.

        Raises:
            InvalidSource: The table cannot be read, or a value cannot be the name of a partition.
        """
        column = self._parameters.partition_column
        if column is None:
            return ["0"]

        async def list_them(opened: tuple[Session, Table]) -> list[str]:
            session, table = opened
            find_columns(self._database, table, [column])
            names = {"column": sql.Identifier(column), "table": table.identifier}
            return [name for (name,) in await session.fetch(sql.SQL(_PARTITIONS).format(**names))]

        try:
            found = await self._do(list_them)
        finally:
            await self._close_where_idle()
        for name in found:
            if not is_name(name):
                raise InvalidSource(
                    f"{self._parameters.table}: {name!r} in column {column} cannot be the name of a partition, which has "
                    "letters, digits and '._-' only; correct the row, and add a constraint"
                )
        return found

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | None]:
        """Yields a batch for each page of rows."""
        after = position.sequence if position else 0
        by_partition = self._parameters.partition_column is not None
        reading = Reading(self._watch, after=after, partition=partition if by_partition else None)
        self._readings[partition] = reading
        self._notices.begin()
        try:
            while True:
                batch = await reading.next()
                yield batch
                if batch is None:
                    wait_s = reading.next_check_in(self._parameters.poll_seconds)
                    reading.look_since(await self._notices.wait(reading.looked_at, wait_s))
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
            conditions = sql.SQL("" if by_partition is None else "{} = %s AND").format(sql.Identifier(by_partition or ""))
            query = sql.SQL(_DELETE).format(
                number=sql.Identifier(self._parameters.sequence_column),
                table=table.identifier,
                conditions=conditions,
                limit=sql.Literal(_ROWS_AT_ONCE),
            )
            which = (position.sequence,) if by_partition is None else (partition, position.sequence)
            return int((await session.fetch(query, which))[0][0])

        while await self._do(delete_some) == _ROWS_AT_ONCE:
            pass

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the rows that are left to read, as far as known."""
        reading = self._readings.get(partition)
        return reading.backlog if reading else None

    async def look(self) -> str:
        """Connects once, without reading rows, and returns a one-line description of the table.

        Raises:
            InvalidSource: The table cannot be read.
        """
        return await self._watch.describe()

    async def _do(self, work: Callable[[tuple[Session, Table]], Awaitable[T]]) -> T:
        """Does work other than reading, on a separate connection."""
        try:
            return await self._aside.keep_trying(work)
        except psycopg.Error as error:
            raise self._database.refused(error) from error

    async def _close_where_idle(self) -> None:
        """Closes the connections if nothing is read."""
        if not self._readings:
            await self._notices.end()
            await self._watch.close()
            await self._aside.close()

    async def _open(self, session: Session) -> tuple[Session, Table]:
        return session, await find_table(session, self._database, self._parameters.table)
