"""The SQL that writes the last message of each key to a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._parameters import PostgreSQLUpsertParameters
from headrace.connectors.postgresql._table import Table, find_columns
from headrace.connectors.postgresql._target import Filling, filling, from_bytes, record

# Names that no column should have.
_PLACE, _GONE = sql.Identifier("headrace.place"), sql.Identifier("headrace.gone")
# The last message of each key counts, and rows are locked in the order of their keys. Counting the deleted rows forces their
# deletion before the insertion, whose rows may have to be unique in other columns than the key.
_UPSERT = """
    WITH messages AS MATERIALIZED (
        SELECT message.place AS {place}, message.value IS NULL AS {gone}, {columns} FROM {messages}
    ), last AS MATERIALIZED (
        SELECT DISTINCT ON ({keys}) * FROM messages ORDER BY {keys}, {place} DESC
    ), deleted AS (
        DELETE FROM {target} AS target USING last WHERE last.{gone} AND {same} RETURNING 1
    )
    INSERT INTO {target} ({names}) SELECT {names} FROM last WHERE NOT {gone} AND (SELECT count(*) FROM deleted) >= 0 {on_conflict}
"""
_UPSERT_ONE = """
    IF message.value IS NULL THEN
        DELETE FROM {target} AS target USING (SELECT {columns} FROM (VALUES (1)) AS one {records}) AS last WHERE {same};
    ELSE
        INSERT INTO {target} ({names}) SELECT {columns} FROM (VALUES (1)) AS one {records} {on_conflict};
    END IF;
"""
_ARBITERS = """
    SELECT indexrelid FROM pg_index
    WHERE indrelid = %s AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indnkeyatts = %s
    AND (SELECT count(*) FROM pg_attribute
         WHERE attrelid = indrelid AND attname = ANY (%s) AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) = indnkeyatts
"""


@dataclass(frozen=True, slots=True)
class Upserting:
    """Inserts, updates and deletes; a `Writing`.

    Attributes:
        filling: The expressions for the columns.
        keys: The columns of the key.
        arbiters: The unique indexes on exactly these columns.
    """

    filling: Filling
    keys: Sequence[str]
    arbiters: Sequence[int]

    def all_of(self, chunk: sql.Composable, target: sql.Composable) -> sql.Composed:
        """Returns a statement for all messages of a chunk, of which the last one of each key counts."""
        return sql.SQL(_UPSERT).format(
            place=_PLACE,
            gone=_GONE,
            columns=self._columns,
            messages=self.filling.messages(chunk),
            keys=_list(self.keys),
            target=target,
            same=self._same,
            names=self.filling.names,
            on_conflict=self._on_conflict,
        )

    def one(self, target: sql.Composable) -> sql.Composed:
        """Statements for the `message` of a loop."""
        return sql.SQL(_UPSERT_ONE).format(
            target=target,
            columns=self._columns,
            records=self.filling.records,
            same=self._same,
            names=self.filling.names,
            on_conflict=self._on_conflict,
        )

    def messages(self, chunk: sql.Composable) -> sql.Composed:
        """Returns the messages of a chunk; follows FROM."""
        return self.filling.messages(chunk, with_records=False)

    @property
    def _columns(self) -> sql.Composed:
        named = (sql.SQL("{} AS {}").format(what, sql.Identifier(name)) for name, what in self.filling.columns.items())
        return sql.SQL(", ").join(named)

    @property
    def _same(self) -> sql.Composed:
        pairs = (sql.SQL("target.{0} = last.{0}").format(sql.Identifier(key)) for key in self.keys)
        return sql.SQL(" AND ").join(pairs)

    @property
    def _on_conflict(self) -> sql.Composed:
        others = [name for name in self.filling.columns if name not in self.keys]
        if not others:
            return sql.SQL("ON CONFLICT ({}) DO NOTHING").format(_list(self.keys))
        changes = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others)
        return sql.SQL("ON CONFLICT ({}) DO UPDATE SET {}").format(_list(self.keys), changes)


async def upserting(session: Session, database: Database, table: Table, given: PostgreSQLUpsertParameters) -> Upserting:
    """Determines how to write to a table.

    Raises:
        HeadraceError: The columns are not a key of the table, or a column is not suitable; of the database's type.
    """
    columns = find_columns(database, table, given.key_columns)
    arbiters = await session.fetch(_ARBITERS, (table.oid, len(columns), list(given.key_columns)))
    if not arbiters:
        listed = ", ".join(given.key_columns)
        raise database.invalid(
            f"{table}: there is no unique constraint on exactly {listed}; run: ALTER TABLE {given.table} ADD UNIQUE ({listed})"
        )
    for column in columns:
        if not column.required:
            raise database.invalid(
                f"{table}: column {column.name} of the key accepts nulls; run: ALTER TABLE {given.table} ALTER {column.name} SET "
                "NOT NULL"
            )
    keys: Mapping[str, sql.Composable] = {}
    key_record: sql.Composable = sql.SQL("")
    if given.key == "message" and len(columns) == 1:
        keys = {columns[0].name: from_bytes(columns[0], "key")}
    elif given.key == "message":
        keys = {column.name: sql.SQL("key_record.{}").format(column.identifier) for column in columns}
        key_record = record("key", columns, "key_record")
    filled = filling(database, table, given, keys, () if given.key == "message" else given.key_columns)
    records = sql.SQL(" ").join([filled.records, key_record])
    return Upserting(Filling(table, filled.columns, records, filled.needs_value), given.key_columns, [oid for (oid,) in arbiters])


def _list(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
