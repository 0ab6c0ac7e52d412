"""The SQL that converts messages to rows of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._parameters import PostgreSQLTarget
from headrace.connectors.postgresql._table import Column, Table, find_columns, find_table

_TEXTS = ("text", "character varying", "json", "jsonb")
_OF_TIME: Mapping[str, LiteralString] = {
    "timestamp with time zone": "('epoch'::timestamptz + message.event_time * interval '1 microsecond')",
    "timestamp without time zone": "('epoch'::timestamp + message.event_time * interval '1 microsecond')",
    "date": "('epoch'::timestamp + message.event_time * interval '1 microsecond')::date",
    "bigint": "message.event_time",
}
_MAY_INSERT = "SELECT has_any_column_privilege(%s::oid, 'INSERT')"
_FROM = """
    CROSS JOIN LATERAL unnest(chunk.keys, chunk."values", chunk.event_times, chunk.message_ids, chunk.headers)
    WITH ORDINALITY AS message (key, value, event_time, message_id, headers, place)
"""


@dataclass(frozen=True, slots=True)
class Filling:
    """The expressions that fill the columns of a table from the messages of a chunk.

    Attributes:
        table: The table.
        columns: An expression for each column that is filled, over `message` and the records.
        records: The joins that the expressions need.
        needs_value: Whether a message without a value cannot fill a row.
    """

    table: Table
    columns: Mapping[str, sql.Composable]
    records: sql.Composable
    needs_value: bool

    @property
    def names(self) -> sql.Composed:
        """The columns that are filled."""
        return sql.SQL(", ").join(map(sql.Identifier, self.columns))

    @property
    def expressions(self) -> sql.Composed:
        """The expressions for these columns."""
        return sql.SQL(", ").join(self.columns.values())

    def messages(self, chunk: sql.Composable, *, with_records: bool = True) -> sql.Composed:
        """Returns the messages of a chunk that are not refused; follows FROM."""
        return sql.SQL("{} AS chunk {} {} WHERE message.place <> ALL (chunk.refused)").format(
            chunk, sql.SQL(_FROM), self.records if with_records else sql.SQL("")
        )


async def find_target(session: Session, database: Database, given: PostgreSQLTarget) -> Table:
    """Looks up the target table.

    Raises:
        HeadraceError: It does not exist, or the user may not insert; of the database's type.
    """
    table = await find_table(session, database, given.table)
    if not (await session.fetch(_MAY_INSERT, (table.oid,)))[0][0]:
        raise database.invalid(f"{table}: this user may not insert; run: GRANT INSERT ON {given.table} TO ...")
    return table


def filling(
    database: Database,
    table: Table,
    given: PostgreSQLTarget,
    keys: Mapping[str, sql.Composable],
    key_members: Sequence[str] = (),
) -> Filling:
    """Determines the expression for each column.

    Args:
        database: The database, for errors.
        table: The table.
        given: The parameters of the sink.
        keys: The expressions for the key columns, if the message key fills them.
        key_members: The key columns, if members of the value fill them.

    Raises:
        HeadraceError: A column does not exist, cannot be filled, or would be empty although it rejects nulls; of the database's
            type.
    """
    columns = dict(keys)
    for name, field, types in (
        (given.value_column, "value", None),
        (given.event_time_column, "event_time", tuple(_OF_TIME)),
        (given.message_id_column, "message_id", _TEXTS),
        (given.headers_column, "headers", _TEXTS),
    ):
        if name is not None:
            (column,) = find_columns(database, table, [name])
            if types and column.base not in types:
                raise database.invalid(f"{table}: column {name} is of type {column.type}, and {' or '.join(types)} is required")
            columns[name] = _taken(column, field)
    members = list(given.columns)
    if not members and given.value_column is None:
        members = [name for name, column in table.columns.items() if name not in columns and not column.has_default]
    found = find_columns(database, table, dict.fromkeys([*key_members, *members]))
    columns |= {column.name: sql.SQL("record.{}").format(column.identifier) for column in found}
    _check(database, table, columns)
    return Filling(table, columns, record("value", found), needs_value=bool(found))


def record(field: LiteralString, members: Sequence[Column], name: LiteralString = "record") -> sql.Composable:
    """Returns the join of the members of a field, a JSON object, to a message; empty if there are no members."""
    if not members:
        return sql.SQL("")
    typed = (sql.SQL("{} " + _type(column)).format(column.identifier) for column in members)
    joined = sql.SQL("CROSS JOIN LATERAL json_to_record(convert_from(message." + field + ", 'UTF8')::json) AS " + name + " ({})")
    return joined.format(sql.SQL(", ").join(typed))


def from_bytes(column: Column, field: LiteralString) -> sql.Composable:
    """Returns the expression that fills a column from a bytes field of a message."""
    if column.base == "bytea":
        return sql.SQL("message." + field)
    return sql.SQL("convert_from(message." + field + ", 'UTF8')::" + _type(column))


def _taken(column: Column, field: LiteralString) -> sql.Composable:
    if field == "value":
        return from_bytes(column, field)
    if field == "event_time":
        return sql.SQL(_OF_TIME[column.base])
    return sql.SQL("message." + field + "::" + _type(column))


def _type(column: Column) -> LiteralString:
    """Returns the type of a column, as the server itself writes it."""
    type_: LiteralString = column.type
    return type_


def _check(database: Database, table: Table, filled: Iterable[str]) -> None:
    """Checks that the columns can be filled, and that none is missing."""
    if not filled:
        raise database.invalid(f"{table}: there is nothing to fill; name columns, or a value_column")
    for name, column in table.columns.items():
        if name in filled and column.closed:
            raise database.invalid(f"{table}: column {name} is always generated, and cannot be filled; remove it")
        if name not in filled and column.required and not column.has_default:
            raise database.invalid(f"{table}: column {name} rejects nulls, has no default, and nothing fills it")
