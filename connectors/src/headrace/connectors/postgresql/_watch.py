"""One connection on which a table is read, by one reading or by many, and what looks at the table have told."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from psycopg import sql

from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._horizon import Horizon
from headrace.connectors.postgresql._link import Link
from headrace.connectors.postgresql._numbers import check_numbers
from headrace.connectors.postgresql._page import TIMES, Layout, page_query
from headrace.connectors.postgresql._parameters import PostgreSQLRows
from headrace.connectors.postgresql._table import Column, Table, find_columns, find_table

log = logging.getLogger("headrace.connectors")

T = TypeVar("T")
_JSON = ("json", "jsonb")
_NAMED_NUMBERS = 10_000
"""Where a look finds at most so many new numbers, it also finds out whose they are."""
# Pages are read by the index, whatever statistics of a table that has just grown say.
_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"
_PEEK = "SELECT (SELECT coalesce(max({number}), 0)::bigint FROM {name}), {last_drawn}"
# The largest number is of the snapshot with which the statement begins, and the locks are looked at after that.
_LOOK = """
    WITH RECURSIVE tables (oid) AS (
        SELECT {table}::oid UNION SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid
    ), running AS (
        SELECT DISTINCT virtualtransaction, pid FROM pg_locks
        WHERE granted AND pid IS DISTINCT FROM pg_backend_pid() AND {runs}
    )
    SELECT (SELECT coalesce(max({number}), 0)::bigint FROM {name}),
           coalesce((SELECT array_agg(virtualtransaction) FROM running), '{{}}'),
           coalesce((SELECT array_agg(pid) FROM running), '{{}}')
"""
# Whoever inserts has locked the table before it draws a number, and releases it after the row is visible; so does who prepared.
_WRITES = """
    locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation IN (SELECT oid FROM tables)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
# A prepared transaction has no process, and keeps the lock on its own id.
_RUNS = """
    locktype IN ('virtualxid', 'transactionid')
    AND (pid IS NULL OR pid IN (
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type IS DISTINCT FROM 'autovacuum worker'))
"""
_LAST_DRAWN = """
    CASE WHEN has_sequence_privilege({sequence}::oid, 'USAGE') OR has_sequence_privilege({sequence}::oid, 'SELECT')
    THEN coalesce(pg_sequence_last_value({sequence}::oid::regclass), 0) END
"""
_WHOSE = "SELECT DISTINCT {partition}::text FROM {name} WHERE {number} > %s AND {number} <= %s"


@dataclass(frozen=True, slots=True)
class _Statements:
    """What is asked of the table."""

    peek: sql.Composed
    look: sql.Composed
    page: sql.Composed
    whose: sql.Composed | None


class Opened:
    """A connection, and what is known of the table on it.

    Attributes:
        session: The connection.
        table: The table.
        sequence: The column that rows are read by.
        horizon: Which rows are final.
        newest: The largest number at the last look.
        last_drawn: The last number that was drawn by then; None where that cannot be told.
        looked_at: When the last look began, by the monotonic clock.
        processes: Who is waited for; None for a prepared transaction.
    """

    def __init__(self, session: Session, table: Table, sequence: Column, statements: _Statements) -> None:
        """Has not looked yet."""
        self.session = session
        self.table = table
        self.sequence = sequence
        self.horizon = Horizon()
        self.newest = 0
        self.last_drawn: int | None = None
        self.looked_at = float("-inf")
        self.processes: Sequence[int | None] = ()
        self._statements = statements
        self._fresh_after = 0
        self._fresh: frozenset[str] | None = None

    async def look(self, since: float) -> None:
        """Learns which rows are final, unless a look has begun since then. Who writes is only asked for where a row is new."""
        if self.looked_at >= since:
            return
        began = time.monotonic()
        self.newest, self.last_drawn = (await self.session.fetch(self._statements.peek))[0]
        if self.newest > self.horizon.settled:
            before = self.horizon.settled
            self.newest, running, self.processes = (await self.session.fetch(self._statements.look))[0]
            self.horizon.look(self.newest, frozenset(running))
            await self._find_fresh(before, self.horizon.newest)
        self.looked_at = began

    async def page(self, which: Sequence[object]) -> tuple[object, ...]:
        """The rows after a number."""
        row: tuple[object, ...] = (await self.session.fetch(self._statements.page, which))[0]
        return row

    def has_nothing(self, partition: str | None, after: int) -> bool:
        """Whether it is known that a partition has no row after a number, up to what is settled."""
        return self._fresh is not None and partition not in self._fresh and after >= self._fresh_after

    async def _find_fresh(self, after: int, newest: int) -> None:
        """Finds out whose the new rows are: a page of each of a thousand partitions would take a thousand statements."""
        self._fresh_after, self._fresh = after, None
        if self._statements.whose is not None and newest - after <= _NAMED_NUMBERS:
            found = await self.session.fetch(self._statements.whose, (after, newest))
            self._fresh = frozenset(name for (name,) in found)


class Watch:
    """A table, and the connection for it. Those who read it take turns."""

    def __init__(
        self,
        database: Database,
        parameters: PostgreSQLRows,
        *,
        value_column: str | None,
        columns: Sequence[str] = (),
        where: str | None = None,
        partition_column: str | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            database: Where the table is.
            parameters: Which table, and what of it.
            value_column: The column that is the value; None where it is a JSON object of columns.
            columns: The columns of that object; all where there are none.
            where: A condition.
            partition_column: The column that says of which partition a row is.
        """
        self.database = database
        self._parameters = parameters
        self._value_column = value_column
        self._columns = columns
        self._where = where
        self._partition_column = partition_column
        self._link: Link[Opened] = Link(database, self._open)

    async def keep_trying(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        """Does something that may be done twice, and does it again where the server is away.

        Raises:
            HeadraceError: It is no use to try again; of the database's type.
        """
        try:
            return await self._link.keep_trying(work)
        except psycopg.Error as error:
            raise self.database.refused(error) from error

    async def describe(self) -> str:
        """Connects once, reads nothing, and says what it found.

        Raises:
            HeadraceError: The table cannot be read; of the database's type.
        """
        async with self.database.looked_at() as session:
            opened = await self._open(session)
            await opened.look(0.0)
            return f"{self.database.where}: {opened.table}, newest {self._parameters.sequence_column} {opened.newest}"

    async def close(self) -> None:
        """Closes the connection; it is opened again where it is needed again."""
        await self._link.close()

    async def _open(self, session: Session) -> Opened:
        """Looks at the table, and prepares statements for it."""
        given, database = self._parameters, self.database
        table = await find_table(session, database, given.table)
        by_insert = given.hold_back == "writers"
        sequence = await check_numbers(session, database, table, given.sequence_column, drawn_by_insert=by_insert)
        layout = self._layout(table)
        await session.execute(_BY_INDEX)
        names = {"number": layout.sequence.identifier, "name": table.identifier}
        last_drawn = sql.SQL("NULL" if sequence is None else _LAST_DRAWN).format(sequence=sql.Literal(sequence))
        runs = sql.SQL(_WRITES if by_insert else _RUNS)
        whose = None
        if layout.partition is not None:
            whose = sql.SQL(_WHOSE).format(partition=layout.partition.identifier, **names)
        statements = _Statements(
            peek=sql.SQL(_PEEK).format(last_drawn=last_drawn, **names),
            look=sql.SQL(_LOOK).format(table=sql.Literal(table.oid), runs=runs, **names),
            page=page_query(table, layout),
            whose=whose,
        )
        return Opened(session, table, layout.sequence, statements)

    def _layout(self, table: Table) -> Layout:
        """Finds the columns."""
        given, database = self._parameters, self.database

        def find(name: str | None, types: Sequence[str] = ()) -> Column | None:
            if name is None:
                return None
            (column,) = find_columns(database, table, [name])
            if types and column.base not in types:
                raise database.invalid(f"{table}: column {name} is of type {column.type}, and {' or '.join(types)} is needed")
            return column

        (sequence,) = find_columns(database, table, [given.sequence_column])
        return Layout(
            sequence=sequence,
            value=find(self._value_column),
            members=find_columns(database, table, self._columns or table.columns),
            key=find(given.key_column),
            headers=find(given.headers_column, _JSON),
            event_time=find(given.event_time_column, TIMES),
            partition=find(self._partition_column),
            where=self._where,
        )
