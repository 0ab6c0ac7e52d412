"""Reads a table by its sequence, and never skips a row whose transaction commits late."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._horizon import Horizon
from headrace.connectors.postgresql._link import Link
from headrace.connectors.postgresql._numbers import check_numbers
from headrace.connectors.postgresql._page import MAX_ROWS, TIMES, Layout, page_query, read_page
from headrace.connectors.postgresql._parameters import PostgreSQLRows
from headrace.connectors.postgresql._table import Column, Table, find_columns, find_table
from headrace.sdk import Backlog, Batch, PositionLost

log = logging.getLogger("headrace.connectors")

_JSON = ("json", "jsonb")
_HELD_BACK_SECONDS = 0.02
_HELD_REPORT_SECONDS = 60.0
# Pages are read by the index, whatever statistics of a table that has just grown say.
_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"
# The largest number is of the snapshot with which the statement begins, and the locks are looked at after that.
_LOOK = """
    WITH RECURSIVE tables (oid) AS (
        SELECT {table}::oid UNION SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid
    ), running AS (
        SELECT DISTINCT virtualtransaction, pid FROM pg_locks
        WHERE granted AND pid IS DISTINCT FROM pg_backend_pid() AND {runs}
    )
    SELECT (SELECT coalesce(max({number}), 0)::bigint FROM {name}),
           {last_drawn},
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


@dataclass(frozen=True, slots=True)
class _Opened:
    """A connection, and what is known of the table on it."""

    session: Session
    table: Table
    look: sql.Composed
    page: sql.Composed
    horizon: Horizon


class Reading:
    """The rows of a table, or of a partition of it, from a position on."""

    def __init__(
        self,
        database: Database,
        parameters: PostgreSQLRows,
        *,
        after: int,
        value_column: str | None,
        columns: Sequence[str] = (),
        where: str | None = None,
        partition_column: str | None = None,
        partition: str | None = None,
        detect_deleted: bool = False,
        listen: sql.Composed | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            database: Where the table is.
            parameters: Which table, and what of it.
            after: The sequence of the last row that was read.
            value_column: The column that is the value; None where it is a JSON object of columns.
            columns: The columns of that object; all where there are none.
            where: A condition.
            partition_column: The column that says of which partition a row is.
            partition: The partition, where there is such a column.
            detect_deleted: Whether a table that begins after the position has lost it.
            listen: What is executed on the connection when it is opened.
        """
        self._database = database
        self._parameters = parameters
        self._after = after
        self._value_column = value_column
        self._columns = columns
        self._where = where
        self._partition_column = partition_column
        self._partition = () if partition_column is None else (partition,)
        self._detect_deleted = detect_deleted
        self._listen = listen
        self._held_since: float | None = None
        self._newest = 0
        self._rows = MAX_ROWS
        self._looked_at: _Opened | None = None
        self._caught_up = False
        self._link: Link[_Opened] = Link(database, self._open)

    async def next(self) -> Batch | None:
        """The next rows that are final; None where there are none now. Waits for a server that is away.

        Raises:
            PositionLost: The table has been emptied, or its first rows were deleted.
            HeadraceError: The table cannot be read; of the database's type.
        """
        try:
            return await self._link.keep_trying(self._next)
        except psycopg.Error as error:
            raise self._database.refused(error) from error

    @property
    def backlog(self) -> Backlog | None:
        """What is left; of a partition it is only known that there is nothing."""
        if self._caught_up:
            return Backlog(messages=0)
        return Backlog(latest_sequence=self._newest) if not self._partition else None

    def patience(self, seconds: float) -> float:
        """How long to wait before another look: not for so long where rows are held back, which may be final at any moment."""
        return seconds if self._held_since is None else min(_HELD_BACK_SECONDS, seconds)

    async def notified(self, seconds: float) -> None:
        """Waits until somebody notifies the connection, at most for a while; not at all on one that is new."""

        async def wait(opened: _Opened) -> None:
            # What was told while there was no connection, nobody has heard.
            if opened is self._looked_at:
                await opened.session.notified(seconds)

        await self._link.keep_trying(wait)

    async def look(self) -> str:
        """Connects once, reads nothing, and says what it found.

        Raises:
            HeadraceError: The table cannot be read; of the database's type.
        """
        async with self._database.looked_at() as session:
            opened = await self._open(session)
            newest = (await session.fetch(opened.look))[0][0]
            return f"{self._database.where}: {opened.table}, newest {self._parameters.sequence_column} {newest}"

    async def close(self) -> None:
        """Closes the connection."""
        await self._link.close()

    async def _open(self, session: Session) -> _Opened:
        """Looks at the table, and prepares statements for it."""
        given, database = self._parameters, self._database
        table = await find_table(session, database, given.table)
        by_insert = given.hold_back == "writers"
        sequence = await check_numbers(session, database, table, given.sequence_column, drawn_by_insert=by_insert)
        layout = self._layout(table)
        await session.execute(_BY_INDEX)
        if self._listen is not None:
            await session.execute(self._listen)
        await self._check_first(session, table, layout)
        look = sql.SQL(_LOOK).format(
            table=sql.Literal(table.oid),
            runs=sql.SQL(_WRITES if by_insert else _RUNS),
            number=layout.sequence.identifier,
            name=table.identifier,
            last_drawn=sql.SQL("NULL" if sequence is None else _LAST_DRAWN).format(sequence=sql.Literal(sequence)),
        )
        return _Opened(session, table, look, page_query(table, layout), Horizon())

    async def _check_first(self, session: Session, table: Table, layout: Layout) -> None:
        """Sees that the table begins where it should."""
        query = sql.SQL("SELECT min({})::bigint FROM {}").format(layout.sequence.identifier, table.identifier)
        (first,) = (await session.fetch(query))[0]
        if first is not None and first < 1:
            raise self._database.invalid(f"{table} has a row with {layout.sequence.name} {first}, and sequences begin at 1")
        if self._detect_deleted and self._after and (first is None or first > self._after):
            begins = "is empty" if first is None else f"begins at {layout.sequence.name} {first}"
            reason = f"{table} {begins}: rows after {self._after} may have been deleted before they were read"
            raise PositionLost(reason, earliest=first)

    async def _next(self, opened: _Opened) -> Batch | None:
        """Looks at the table where all that is known to be final has been read, and reads a page."""
        horizon = opened.horizon
        if self._after >= horizon.settled:
            await self._look(opened)
        page = None
        if self._after < horizon.newest:
            which = (*self._partition, self._after, horizon.newest, self._rows)
            page = read_page((await opened.session.fetch(opened.page, which))[0])
        if page is None:
            self._after = max(self._after, horizon.settled)
            self._hold_back(False)
            self._caught_up = True
            return None
        self._caught_up = False
        self._rows = page.next_rows
        count = horizon.final(self._after, page.sequences)
        self._hold_back(count < len(page.sequences))
        if count == 0:
            self._after = max(self._after, horizon.settled)
            return None
        self._after = page.sequences[count - 1]
        return page.first(count).batch()

    async def _look(self, opened: _Opened) -> None:
        """Learns which rows are final."""
        newest, last_drawn, running, processes = (await opened.session.fetch(opened.look))[0]
        if last_drawn is not None and last_drawn < self._after:
            raise PositionLost(
                f"the numbers of {opened.table} have begun again: the last one drawn is {last_drawn}, and {self._after} has been "
                "read. Give the stream another name, and start a query that reads that one"
            )
        opened.horizon.look(newest, frozenset(running))
        self._looked_at = opened
        self._newest = newest
        if self._held_since is not None and time.monotonic() - self._held_since >= _HELD_REPORT_SECONDS:
            self._held_since = time.monotonic()
            whose = ", ".join("a prepared transaction" if pid is None else f"process {pid}" for pid in processes)
            log.warning("%s: rows of %s after %d are held back for transactions that have not ended: %s",
                        self._database.who, opened.table, self._after, whose)  # fmt: skip

    def _hold_back(self, held: bool) -> None:
        """Notes whether rows are held back, and since when this has not been said."""
        self._held_since = (self._held_since or time.monotonic()) if held else None

    def _layout(self, table: Table) -> Layout:
        """Finds the columns."""
        given, database = self._parameters, self._database

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
