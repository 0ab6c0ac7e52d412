"""The SQL that converts messages to rows of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from headrace.connectors.postgresql._parameters import PostgreSQLTarget
from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.names import names, plain, type_
from headrace.connectors.postgresql.table import Column, Table, find_columns, find_table
from headrace.connectors.postgresql.trial import state_of

_TEXTS = ("text", "character varying", "json", "jsonb")
_JSON = ("json", "jsonb")
# A product of an interval and a large number is not exact, so days and the rest of the last one are added separately.
_SINCE_EPOCH: LiteralString = (
    "pg_catalog.make_interval(days => (message.event_time / 86400000000)::int,"
    " secs => pg_catalog.mod(message.event_time, 86400000000) / 1e6::float8)"
)
_OF_TIME: Mapping[str, LiteralString] = {
    "timestamp with time zone": "('epoch'::timestamptz + " + _SINCE_EPOCH + ")",
    "timestamp without time zone": "('epoch'::timestamp + " + _SINCE_EPOCH + ")",
    "date": "('epoch'::timestamp + " + _SINCE_EPOCH + ")::date",
    "bigint": "message.event_time",
}
_OWN = ("headrace_staged", "headrace_batches")
_MAY_INSERT = "SELECT has_any_column_privilege(%s::oid, 'INSERT')"
_RULES_INSTEAD = "SELECT rulename FROM pg_rewrite WHERE ev_class = %s AND is_instead AND ev_enabled NOT IN ('D', 'R')"
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
        return names(self.columns)

    @property
    def expressions(self) -> sql.Composed:
        """The expressions for these columns."""
        return sql.SQL(", ").join(self.columns.values())

    def messages(self, chunk: sql.Composable, *, with_records: bool = True) -> sql.Composed:
        """Returns the messages of a chunk that are not refused; follows FROM."""
        return sql.SQL("{} AS chunk {} {} WHERE message.place <> ALL (chunk.refused)").format(
            chunk, sql.SQL(_FROM), self.records if with_records else sql.SQL("")
        )


@dataclass(frozen=True, slots=True)
class Keys:
    """The expressions for the columns that the message key fills, and the joins that they need."""

    columns: Mapping[str, sql.Composable]
    joins: Sequence[sql.Composable]


async def find_target(session: Session, database: Database, parameters: PostgreSQLTarget) -> tuple[Table, str | None]:
    """Looks up the target table, and its state before that.

    Raises:
        HeadraceError: It does not exist, the user may not insert, or rows would not arrive in it; of the database's type.
    """
    table = await find_table(session, database, parameters.table)
    if table.name in _OWN:
        raise database.invalid(f"{table} belongs to the connector itself; name the table that messages are written to")
    if not (await session.fetch(_MAY_INSERT, (table.oid,)))[0][0]:
        raise database.invalid(f"{table}: this user may not insert; run: GRANT INSERT ON {parameters.table} TO ...")
    for (rule,) in await session.fetch(_RULES_INSTEAD, (table.oid,)):
        raise database.invalid(
            f"{table}: the rule {rule} does something else INSTEAD, so rows would be missing without an error; "
            "run DROP RULE, or name the table that the rule writes to"
        )
    state = await state_of(session, table.identifier)
    return await find_table(session, database, plain(table.identifier)), state


def filling(
    database: Database,
    table: Table,
    parameters: PostgreSQLTarget,
    keys: Keys,
    key_members: Sequence[str] = (),
) -> Filling:
    """Determines the expression for each column.

    Args:
        database: The database, for errors.
        table: The table.
        parameters: The parameters of the sink.
        keys: What fills the key columns, if the message key does.
        key_members: The key columns, if members of the value fill them.

    Raises:
        HeadraceError: A column does not exist, cannot be filled, or would be empty although it rejects nulls; of the database's
            type.
    """
    columns, joins = dict(keys.columns), list(keys.joins)
    for name, field, types in (
        (parameters.value_column, "value", None),
        (parameters.event_time_column, "event_time", tuple(_OF_TIME)),
        (parameters.message_id_column, "message_id", _TEXTS),
        (parameters.headers_column, "headers", _TEXTS),
    ):
        if name is not None:
            (column,) = find_columns(database, table, [name])
            if types and column.base not in types:
                raise database.invalid(f"{table}: column {name} is of type {column.type}, and {' or '.join(types)} is required")
            columns[name], join = _expression(column, field)
            joins.append(join)
    members = list(parameters.columns)
    if not members and parameters.value_column is None:
        members = [name for name, column in table.columns.items() if name not in columns and not column.has_default]
    found = find_columns(database, table, dict.fromkeys([*key_members, *members]))
    columns |= {column.name: column.of("record") for column in found}
    _check(database, table, columns)
    return Filling(table, columns, sql.SQL(" ").join([*joins, record("value", found)]), needs_value=bool(found))


def record(field: LiteralString, members: Sequence[Column], name: LiteralString = "record") -> sql.Composable:
    """Returns the join of the members of a field, a JSON object, to a message; empty if there are no members."""
    if not members:
        return sql.SQL("")
    parsed: LiteralString = "pg_catalog.json_to_record(pg_catalog.convert_from(message." + field + ", 'UTF8')::json)"
    joined = sql.SQL("CROSS JOIN LATERAL " + parsed + " AS " + name + " ({})")
    return joined.format(sql.SQL(", ").join(map(_typed, members)))


def from_bytes(column: Column, field: LiteralString, *, compared: bool = False) -> tuple[sql.Composable, sql.Composable]:
    """Returns the expression that fills a column from a bytes field of a message, and the join that it needs.

    An explicit cast to a type with a length cuts what is too long, and so does a cast to a domain with one. The expression has
    the bare type, and the insertion refuses what is too long, or it reads the text as the input of the type itself.

    Args:
        column: The column.
        field: The field of `message`.
        compared: Whether the expression is compared with values of the column, so it needs the type with its modifiers.
    """
    none = sql.SQL("")
    if column.base == "bytea":
        return sql.SQL("message." + field), none
    text = sql.SQL("pg_catalog.convert_from(message." + field + ", 'UTF8')")
    if column.base in _JSON or not (column.is_domain or (compared and column.modifier != -1)):
        return sql.SQL("{}::{}").format(text, column.bare_type), none
    name = sql.SQL("input_of_" + field)
    read: LiteralString = "pg_catalog.json_to_record(pg_catalog.json_build_object('input', {}))"
    join = sql.SQL("CROSS JOIN LATERAL " + read + " AS {} (input {})")
    return sql.SQL("{}.input").format(name), join.format(text, name, type_(column.type))


def key_of(column: Column | None, *, compared: bool = False) -> Keys:
    """Returns what fills one column with the message key; nothing if there is no such column."""
    if column is None:
        return Keys({}, ())
    expression, join = from_bytes(column, "key", compared=compared)
    return Keys({column.name: expression}, (join,))


def _expression(column: Column, field: LiteralString) -> tuple[sql.Composable, sql.Composable]:
    if field == "event_time":
        return sql.SQL(_OF_TIME[column.base]), sql.SQL("")
    return from_bytes(column, field)


def _typed(column: Column) -> sql.Composable:
    return sql.SQL("{} {}").format(column.identifier, type_(column.type))


def _check(database: Database, table: Table, filled: Iterable[str]) -> None:
    """Checks that the columns can be filled, and that none is missing."""
    if not filled:
        raise database.invalid(f"{table}: there is nothing to fill; name columns, or a value_column")
    for name, column in table.columns.items():
        if name in filled and column.closed:
            raise database.invalid(f"{table}: column {name} is always generated, and cannot be filled; remove it")
        if name not in filled and column.required and not column.has_default:
            raise database.invalid(f"{table}: column {name} rejects nulls, has no default, and nothing fills it")


def described(database: Database, table: Table, filling: Filling) -> str:
    """Returns a line about a table, and the columns that messages fill."""
    return f"{database.where}: {table}, columns {', '.join(filling.columns)}"
