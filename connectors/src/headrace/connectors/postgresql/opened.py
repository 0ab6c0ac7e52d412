"""A connection on which a table is read, and what checks of the table have found."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.errors import is_passing
from headrace.connectors.postgresql.fingerprint import Fingerprint
from headrace.connectors.postgresql.horizon import Horizon
from headrace.connectors.postgresql.layout import Layout
from headrace.connectors.postgresql.link import Outdated
from headrace.connectors.postgresql.names import name, value
from headrace.connectors.postgresql.snapshot import Counted, count_rows

_NAMED_NUMBERS = 10_000
"""If a check finds at most this many new numbers, it also determines their partitions."""
# No snapshot shows the rows of a partition that waits for the end of DETACH CONCURRENTLY.
_TABLES = """
    tables (oid) AS (
        SELECT {table}::oid
        UNION
        SELECT inhrelid FROM pg_catalog.pg_inherits JOIN tables ON inhparent = tables.oid WHERE NOT inhdetachpending
    )
"""
_TABLES_NOW = "(WITH RECURSIVE " + _TABLES + "SELECT pg_catalog.array_agg(tables.oid) FROM tables)"
_PEEK = (
    "WITH RECURSIVE "
    + _TABLES
    + """
    SELECT (SELECT coalesce(max(message.{number}), 0)::bigint FROM {name} AS message), {last_drawn},
           (SELECT array_agg(oid) FROM tables), {generator}, pg_catalog.row_security_active({table}::oid)
"""
)
# The largest number is from the snapshot at the beginning of the statement, and the locks are read after that.
_LOOK = (
    """
    WITH RECURSIVE """
    + _TABLES
    + """, running AS (
        SELECT DISTINCT virtualtransaction, pid FROM pg_locks
        WHERE granted AND pid IS DISTINCT FROM pg_backend_pid() AND {runs}
    )
    SELECT (SELECT coalesce(max(message.{number}), 0)::bigint FROM {name} AS message),
           coalesce((SELECT array_agg(virtualtransaction) FROM running), '{{}}'),
           coalesce((SELECT array_agg(pid) FROM running), '{{}}')
"""
)
# A transaction that inserts locks the table before it generates a number, and holds the lock until the row is visible, even if it
# is prepared.
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
_WHOSE = """
    SELECT array_agg(DISTINCT message.{partition}::text), {tables} FROM {name} AS message
    WHERE message.{number} > %s AND message.{number} <= %s
"""
_GENERATOR = "pg_relation_filenode({sequence}::oid::regclass)::bigint"
_ENDS = "SELECT min(message.{number})::bigint, max(message.{number})::bigint FROM {name} AS message"
_NAME = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"


@dataclass(frozen=True, slots=True)
class Attached:
    """A partition, or a table that inherits, that became part of the table.

    Attributes:
        name: Its name.
        first: The smallest number in it.
    """

    name: str
    first: int


@dataclass(frozen=True, slots=True)
class Detached:
    """A partition that was part of the table, and still exists.

    Attributes:
        name: Its name.
        last: The largest number in it.
    """

    name: str
    last: int


@dataclass(frozen=True, slots=True)
class Moves:
    """Partitions with rows that have come and gone, in the order of their ids."""

    attached: Sequence[Attached]
    detached: Sequence[Detached]


@dataclass(frozen=True, slots=True)
class _Statements:
    """The statements for a table."""

    peek: sql.Composed
    look: sql.Composed
    page: sql.Composed
    divided_page: sql.Composed
    end: sql.Composed
    whose: sql.Composed | None

    @classmethod
    def of(cls, layout: Layout, sequence: int | None, *, by_insert: bool) -> "_Statements":
        names = {"number": layout.sequence.identifier, "name": layout.table.identifier}
        table = value(layout.table.oid)
        tables = sql.SQL(_TABLES_NOW).format(table=table)
        last_drawn = sql.SQL("NULL" if sequence is None else _LAST_DRAWN).format(sequence=value(sequence))
        generator = sql.SQL("NULL" if sequence is None else _GENERATOR).format(sequence=value(sequence))
        whose = None
        if layout.partition is not None:
            whose = sql.SQL(_WHOSE).format(partition=layout.partition.identifier, tables=tables, **names)
        return cls(
            peek=sql.SQL(_PEEK).format(table=table, last_drawn=last_drawn, generator=generator, **names),
            look=sql.SQL(_LOOK).format(table=table, runs=sql.SQL(_WRITES if by_insert else _RUNS), **names),
            page=layout.page(sql.SQL("NULL")),
            divided_page=layout.page(tables),
            end=layout.end(),
            whose=whose,
        )


class Opened:
    """A connection, and what is known about the table.

    Attributes:
        session: The connection.
        layout: The table, and how its columns become messages.
        horizon: The horizon of final rows.
        newest: The largest number at the last check.
        last_drawn: The last number that was generated by then; None if that is unknown.
        looked_at: When the last check began, by the monotonic clock, in seconds.
        processes: The processes that are waited for; None for a prepared transaction.
        started_over: A number that appeared although all rows up to a larger one were final; None if there was none.
        fingerprint: What cursors keep of the table.
        tables: The ids of the table, and of all partitions and tables that inherit.
        counted: What sessions had reported of them at the first check; None if the server does not count, or a table is unlogged.
    """

    def __init__(self, session: Session, layout: Layout, sequence: int | None, *, by_insert: bool) -> None:
        """Creates the state before the first check.

        Args:
            session: The connection.
            layout: The table, and how its columns become messages.
            sequence: The sequence that generates the numbers, if any.
            by_insert: Whether INSERT itself generates them.
        """
        self.session = session
        self.layout = layout
        self.horizon = Horizon()
        self.newest = 0
        self.hides = False
        """Whether row-level security hides rows, at the last check."""
        self.last_drawn: int | None = None
        self.looked_at = float("-inf")
        self.processes: Sequence[int | None] = ()
        self.started_over: int | None = None
        self.fingerprint = Fingerprint.of(layout, None, frozenset())
        self.tables: frozenset[int] = frozenset()
        self.counted: Counted | None = None
        self._moves: dict[frozenset[int], Moves] = {}
        self._statements = _Statements.of(layout, sequence, by_insert=by_insert)
        self._fresh_after = 0
        self._fresh: frozenset[str] | None = None

    async def look(self, since: float) -> None:
        """Checks which rows are final, unless a check has begun since a time. Requests the writers only if there are new rows."""
        if self.looked_at >= since:
            return
        began = time.monotonic()
        earlier, final = self.newest, self.horizon.all_final_to
        self.newest, self.last_drawn, tables, generator, self.hides = (await self.session.fetch(self._statements.peek))[0]
        if frozenset(tables) != self.tables or generator != self.fingerprint.generator:
            self.tables = frozenset(tables)
            self._moves.clear()
            self.counted = await count_rows(self.session, self.tables)
            self.fingerprint = Fingerprint.of(self.layout, generator, self.tables)
        if earlier < self.newest <= final:
            self.started_over = self.newest
        if self.newest > final:
            self.newest, running, self.processes = (await self.session.fetch(self._statements.look))[0]
            self.horizon.look(self.newest, frozenset(running))
            await self._find_fresh(final, self.horizon.newest)
        self.looked_at = began

    async def page(self, which: Sequence[object]) -> tuple[object, ...]:
        """Returns the rows after a number, and the shape of the columns; takes the parameters of `Layout.page`.

        Raises:
            Outdated: Partitions have come or gone since the last check.
        """
        divided = len(self.tables) > 1
        statement = self._statements.divided_page if divided else self._statements.page
        *row, tables = (await self.session.fetch(statement, which))[0]
        if divided and frozenset(tables) != self.tables:
            raise Outdated(f"{self.layout.table} has other partitions now")
        return tuple(row)

    async def end(self, which: Sequence[object]) -> int | None:
        """Returns the number of the last of as many rows; None if there are none."""
        end: int | None = (await self.session.fetch(self._statements.end, which))[0][0]
        return end

    def has_nothing(self, partition: str | None, after: int) -> bool:
        """Returns whether a partition is known to have no row after a number, among the final rows."""
        return self._fresh is not None and partition not in self._fresh and after >= self._fresh_after

    async def _find_fresh(self, after: int, newest: int) -> None:
        """Determines the partitions of new rows: a page for each of a thousand partitions would take a thousand statements."""
        self._fresh_after, self._fresh = after, None
        if self._statements.whose is not None and newest - after <= _NAMED_NUMBERS:
            found, tables = (await self.session.fetch(self._statements.whose, (after, newest)))[0]
            if frozenset(tables) == self.tables:
                self._fresh = frozenset(found or ())

    async def has(self, number: int) -> bool:
        """Returns whether there is a row with a number."""
        return bool(await self.session.fetch(self.layout.single(sql.SQL("true")), (number,)))

    async def moves_since(self, earlier: frozenset[int]) -> Moves:
        """Returns the partitions with rows that have come and gone since others were part of the table."""
        found = self._moves.get(earlier)
        if found is None:
            came = [(called, first) for called, first, _ in [await self._ends(oid) for oid in sorted(self.tables - earlier)]]
            went = [(called, last) for called, _, last in [await self._ends(oid) for oid in sorted(earlier - self.tables)]]
            found = self._moves[earlier] = Moves(
                [Attached(called, first) for called, first in came if first is not None],
                [Detached(called, last) for called, last in went if last is not None],
            )
        return found

    async def _ends(self, oid: int) -> tuple[str, int | None, int | None]:
        """Returns the name of a table, and its smallest and largest number; None if it has no rows, or has just been dropped."""
        found = await self.session.fetch(_NAME, (oid,))
        if not found:
            return "", None, None
        (schema, relation) = found[0]
        try:
            query = sql.SQL(_ENDS).format(number=self.layout.sequence.identifier, name=name(schema, relation))
            return f"{schema}.{relation}", *(await self.session.fetch(query))[0]
        except psycopg.errors.UndefinedTable:
            return "", None, None


async def readable(session: Session, layout: Layout, number: int) -> tuple[bytes | None, bytes | None]:
    """Returns the value and the key of a row, as far as they can be read.

    Raises:
        psycopg.Error: The server is unavailable.
    """
    parts: list[bytes | None] = []
    for part in (layout.value_bytes(), layout.key_bytes()):
        try:
            found = await session.fetch(layout.single(part), (number,))
            parts.append(found[0][0] if found else None)
        except psycopg.Error as error:
            if is_passing(error):
                raise
            parts.append(None)
    return parts[0], parts[1]
