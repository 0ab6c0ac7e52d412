"""The SQL that writes messages to a table: all of them, or the last one of each key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from headrace.connectors.postgresql._parameters import PostgreSQLUpsertParameters
from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.names import free, name, names, plain, type_
from headrace.connectors.postgresql.table import Column, Table, find_columns
from headrace.connectors.postgresql.target import Filling, Keys, filling, key_of, record

_INSERT = "INSERT INTO {target} ({names}) SELECT {expressions} FROM "
# The last message of each key counts, and rows are locked in the order of their keys. Counting the deleted rows forces their
# deletion before the insertion, whose rows may have to be unique in other columns than the key.
_UPSERT = """
    WITH messages AS MATERIALIZED (
        SELECT message.place AS {place}, message.value IS NULL AS {gone}, {columns} FROM {messages}
    ), last AS MATERIALIZED (
        SELECT DISTINCT ON ({keys}) messages.* FROM messages ORDER BY {keys}, messages.{place} DESC
    ), deleted AS (
        DELETE FROM {target} AS target USING last WHERE last.{gone} AND {same} RETURNING 1
    )
    INSERT INTO {target} AS target ({names})
    SELECT {values} FROM last WHERE NOT last.{gone} AND (SELECT count(*) FROM deleted) >= 0 {on_conflict}
"""
_UPSERT_ONE = """
    IF message.value IS NULL THEN
        DELETE FROM {target} AS target USING (SELECT {columns} FROM (VALUES (1)) AS one {records}) AS last WHERE {same};
    ELSE
        INSERT INTO {target} AS target ({names}) SELECT {columns} FROM (VALUES (1)) AS one {records} {on_conflict};
    END IF;
"""
_ARBITERS = """
    SELECT indexrelid FROM pg_index
    WHERE indrelid = %s AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indnkeyatts = %s
    AND (SELECT count(*) FROM pg_attribute
         WHERE attrelid = indrelid AND attname = ANY (%s) AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) = indnkeyatts
"""
# The operator that the index itself compares with: another one may be found by its name.
_EQUALITY = """
    SELECT a.attname, n.nspname, o.oprname
    FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY AS k (attnum, opclass, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum JOIN pg_opclass c ON c.oid = k.opclass
    JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
        AND m.amopstrategy = 3
    JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
    WHERE i.indexrelid = %s AND k.place <= i.indnkeyatts
"""


@dataclass(frozen=True, slots=True)
class Inserting:
    """Inserts; a `Writing`.

    Attributes:
        filling: The expressions for the columns.
        skips: Whether rows that violate a unique constraint are skipped.
    """

    filling: Filling
    skips: bool

    def all_of(self, chunk: sql.Composable, target: sql.Composable) -> sql.Composed:
        """Returns a statement that inserts all messages of a chunk, in their order."""
        return self._insert(target) + self.filling.messages(chunk) + self._conflicts

    def one(self, target: sql.Composable) -> sql.Composed:
        """Returns a statement that inserts the `message` of a loop."""
        one = sql.SQL("(VALUES (1)) AS one {}").format(self.filling.records)
        return self._insert(target) + one + self._conflicts + sql.SQL(";")

    def messages(self, chunk: sql.Composable) -> sql.Composed:
        """Returns the messages of a chunk; follows FROM."""
        return self.filling.messages(chunk, with_records=False)

    def _insert(self, target: sql.Composable) -> sql.Composed:
        return sql.SQL(_INSERT).format(target=target, names=self.filling.names, expressions=self.filling.expressions)

    @property
    def _conflicts(self) -> sql.SQL:
        clause: LiteralString = " ON CONFLICT DO NOTHING" if self.skips else ""
        return sql.SQL(clause)


@dataclass(frozen=True, slots=True)
class Upserting:
    """Inserts, updates and deletes; a `Writing`.

    Attributes:
        filling: The expressions for the columns.
        keys: The columns of the key.
        equality: The operator that compares each of them.
        arbiters: The unique indexes on exactly these columns.
    """

    filling: Filling
    keys: Sequence[Column]
    equality: Mapping[str, sql.Composable]
    arbiters: Sequence[int]

    def all_of(self, chunk: sql.Composable, target: sql.Composable) -> sql.Composed:
        """Returns a statement for all messages of a chunk, of which the last one of each key counts."""
        return sql.SQL(_UPSERT).format(
            place=name(free("place", self.filling.columns)),
            gone=name(free("gone", self.filling.columns)),
            columns=self._columns,
            messages=self.filling.messages(chunk),
            keys=names((key.name for key in self.keys), "messages"),
            target=target,
            same=self._same,
            names=self.filling.names,
            values=names(self.filling.columns, "last"),
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
        return sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(self._collated(column, what), name(column))
            for column, what in self.filling.columns.items()
        )

    def _collated(self, column: str, what: sql.Composable) -> sql.Composable:
        """Returns an expression that is compared as the column is."""
        found = self.filling.table.columns[column].collation if column in self.equality else None
        return what if found is None else sql.SQL("({} COLLATE {})").format(what, name(*found))

    @property
    def _same(self) -> sql.Composed:
        pairs = (sql.SQL("{} {} {}").format(key.of("target"), self.equality[key.name], key.of("last")) for key in self.keys)
        return sql.SQL(" AND ").join(pairs)

    @property
    def _on_conflict(self) -> sql.Composed:
        keys = [key.name for key in self.keys]
        others = [column for column in self.filling.columns if column not in keys]
        if not others:
            return sql.SQL("ON CONFLICT ({}) DO NOTHING").format(names(keys))
        changes = sql.SQL(", ").join(sql.SQL("{} = {}").format(name(each), name("excluded", each)) for each in others)
        return sql.SQL("ON CONFLICT ({}) DO UPDATE SET {}").format(names(keys), changes)


async def upserting(session: Session, database: Database, table: Table, parameters: PostgreSQLUpsertParameters) -> Upserting:
    """Determines how to write to a table.

    Raises:
        HeadraceError: The columns are not a key of the table, or a column is not suitable; of the database's type.
    """
    columns = find_columns(database, table, parameters.key_columns)
    arbiters = await session.fetch(_ARBITERS, (table.oid, len(columns), list(parameters.key_columns)))
    if not arbiters:
        listed, quoted = ", ".join(parameters.key_columns), plain(names(parameters.key_columns))
        raise database.invalid(
            f"{table}: there is no unique constraint on exactly {listed}; "
            f"run: ALTER TABLE {parameters.table} ADD UNIQUE ({quoted})"
        )
    for column in columns:
        if not column.required:
            raise database.invalid(
                f"{table}: column {column.name} of the key accepts nulls; run: ALTER TABLE {parameters.table} ALTER "
                f"{plain(column.identifier)} SET NOT NULL"
            )
    if parameters.key == "value":
        filled = filling(database, table, parameters, key_of(None), parameters.key_columns)
    elif len(columns) == 1:
        filled = filling(database, table, parameters, key_of(columns[0], compared=True))
    else:
        members = {column.name: column.of("key_record") for column in columns}
        filled = filling(database, table, parameters, Keys(members, (record("key", columns, "key_record"),)))
    oids = [oid for (oid,) in arbiters]
    found = await session.fetch(_EQUALITY, (oids[0],))
    equality = {column: sql.SQL("OPERATOR({}.{})").format(name(schema), type_(symbol)) for column, schema, symbol in found}
    return Upserting(filled, columns, equality, oids)
