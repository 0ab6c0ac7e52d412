"""One connection on which one or more readings read a table."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import psycopg
from psycopg import sql

from headrace.connectors.postgresql._parameters import PostgreSQLRows
from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.fingerprint import digest
from headrace.connectors.postgresql.layout import TIMES, Layout
from headrace.connectors.postgresql.link import Link
from headrace.connectors.postgresql.names import names, plain
from headrace.connectors.postgresql.numbers import check_numbers
from headrace.connectors.postgresql.opened import Opened
from headrace.connectors.postgresql.table import Column, Table, changes, find_columns, find_table
from headrace.sdk import HeadraceError

T = TypeVar("T")

log = logging.getLogger("headrace.connectors")

_JSON = ("json", "jsonb")
_NAMES = ("text", "character varying", "character", "name", "smallint", "integer", "bigint", "uuid", "boolean", "date")
"""The types whose values are equal only if their texts are."""
# Pages are read by the index, regardless of the statistics, which may be outdated for a table that has just grown.
_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"

_IS_PARTIAL = "SELECT row_security_active(oid), relpersistence = 'u' FROM pg_class WHERE oid = %s"


class Watch:
    """A table and its connection. Its readers take turns."""

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
        """Creates the watch, without connecting.

        Args:
            database: The database of the table.
            parameters: The parameters of the source.
            value_column: The column that is the value; None if it is a JSON object of columns.
            columns: The columns of that object; all if there are none.
            where: A condition.
            partition_column: The column that names the partition of a row.
        """
        self.database = database
        self._parameters = parameters
        self._value_column = value_column
        self._columns = columns
        self._where = where
        self._partition_column = partition_column
        self._link: Link[Opened] = Link(database, self._open)
        self._hides = False
        self._accepted: set[str] = set()
        """The codes of accepted changes that were logged."""

    async def keep_trying(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        """Does repeatable work, and retries if the server is unavailable.

        Raises:
            HeadraceError: A retry would not help; of the database's type.
        """
        try:
            return await self._link.keep_trying(work)
        except psycopg.Error as error:
            raise self.database.refused(error) from error

    async def describe(self) -> str:
        """Connects once, without reading rows, and returns a one-line description of the table.

        Raises:
            HeadraceError: The table cannot be read; of the database's type.
        """
        async with self.database.looked_at() as session:
            opened = await self._open(session)
            await opened.look(0.0)
            return f"{self.database.where}: {opened.layout.table}, newest {self._parameters.sequence_column} {opened.newest}"

    def note_hidden(self, table: Table, *, hides: bool) -> None:
        """Warns of row-level security once it hides rows, which may begin while the table is read."""
        if hides and not self._hides:
            log.warning("%s: row-level security of %s hides rows from this user, which are not read", self.database.who, table)
        self._hides = hides

    async def close(self) -> None:
        """Closes the connection; it is reopened when it is needed."""
        await self._link.close()

    async def changed(self, opened: Opened) -> bool:
        """Returns whether the table has changed since it was opened, and the user accepts it.

        Raises:
            HeadraceError: It has changed, and the user does not; of the database's type.
        """
        table = await find_table(opened.session, self.database, plain(opened.layout.table.identifier))
        layout = opened.layout
        found = changes(layout.described, table, complete=layout.fixed is None)
        replaced = table.oid != layout.table.oid
        if (change := self.replaced(table) if replaced else self.retyped(layout, found)) is not None:
            raise change
        return replaced or bool(found)

    def layout_of(self, table: Table) -> Layout:
        """Finds the columns of messages in a table.

        Raises:
            HeadraceError: A column does not exist, or is not suitable; of the database's type.
        """
        given, database = self._parameters, self.database

        def find(name: str | None, types: Sequence[str] = ()) -> Column | None:
            if name is None:
                return None
            (column,) = find_columns(database, table, [name])
            if types and column.base not in types:
                raise database.invalid(f"{table}: column {name} is of type {column.type}, and {' or '.join(types)} is required")
            return column

        (sequence,) = find_columns(database, table, [given.sequence_column])
        return Layout(
            table=table,
            sequence=sequence,
            value=find(self._value_column),
            members=find_columns(database, table, self._columns or table.columns),
            has_all=not self._columns,
            key=find(given.key_column),
            headers=find(given.headers_column, _JSON),
            event_time=find(given.event_time_column, TIMES),
            partition=partition_of(database, table, self._partition_column),
            where=self._where,
        )

    async def _open(self, session: Session) -> Opened:
        """Checks the table, and prepares statements for it."""
        given, database = self._parameters, self.database
        table = await find_table(session, database, given.table)
        # The text of some values depends on it, such as the name of a table in a column of type regclass, and the names of types.
        await session.execute(sql.SQL("SET search_path = {}").format(names([table.schema, "public"])))
        table = await find_table(session, database, plain(table.identifier))
        by_insert = given.hold_back == "writers"
        sequence = await check_numbers(session, database, table, given.sequence_column, drawn_by_insert=by_insert)
        ((hides, unlogged),) = await session.fetch(_IS_PARTIAL, (table.oid,))
        self.note_hidden(table, hides=hides)
        if unlogged:
            log.warning("%s: %s is UNLOGGED: a crash of the server empties it, read or not", database.who, table)
        layout = self.layout_of(table)
        await session.execute(_BY_INDEX)
        return Opened(session, layout, sequence, by_insert=by_insert)

    # Errors about changes

    def replaced(self, now: Table) -> HeadraceError | None:
        """Returns the error about another table with the same name; None if the user accepts it."""
        return self.unaccepted(
            [f"table {now.oid}"],
            f"{now} is another one than the one that was read: that one was dropped or renamed, or is in another database. Give "
            "the stream another name to read all rows of this one",
            "to continue with later numbers of this one",
        )

    def retyped(self, layout: Layout, columns: Sequence[str]) -> HeadraceError | None:
        """Returns the error about changes of columns; None if there are none, or the user accepts them."""
        if not columns:
            return None
        how = "name the columns to read with columns" if layout.fixed is None else "change the parameters that name it"
        return self.unaccepted(
            columns,
            f"{layout.table} has changed since it was read: {'; '.join(columns)}. Rows that are read again would differ. Undo "
            f"the change, or {how}",
            "once the query has finished its batch, to read the columns as they are now",
        )

    def unaccepted(self, changes: Iterable[str], what: str, purpose: str) -> HeadraceError | None:
        """Returns the error about a change; None if the user accepts it.

        Args:
            changes: The change, by which it is recognized again.
            what: The change, and what to do.
            purpose: What accepting it is for.
        """
        code = digest(changes)
        if code not in self._parameters.accept_changes:
            return self.database.invalid(
                f"{self.database.where}: {what}. Or, {purpose}, set accept_changes to {code} and restart the connector"
            )
        if code not in self._accepted:
            self._accepted.add(code)
            log.warning("%s: accepts change %s: %s", self.database.who, code, what)
        return None


def partition_of(database: Database, table: Table, name: str | None) -> Column | None:
    """Finds the column that has the partition.

    Raises:
        HeadraceError: It does not exist, or equal values of its type may have different texts; of the database's type.
    """
    if name is None:
        return None
    (column,) = find_columns(database, table, [name])
    if (column.base not in _NAMES and not column.is_enum) or not column.exact:
        why = "" if column.exact else ", with a collation that is not deterministic"
        raise database.invalid(
            f"{table}: column {name} is of type {column.type}{why}, whose equal values may have different texts, so it cannot "
            "name partitions; use a column of type text, an integer, uuid or an enumeration"
        )
    return column
