"""The SQL that packs the rows of a table into columns of messages, so that no Python code runs for each row."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from headrace.connectors.postgresql.names import condition, free, name, names, value
from headrace.connectors.postgresql.table import Column, Described, Table

MAX_BYTES = 512 * 1024
"""About as many bytes are packed into a page, and at least one row."""
TIMES = ("timestamp with time zone", "timestamp without time zone", "date")
"""The types of a column that can have event times."""

# The server knows the length of these without reading the value, and of other types what it has stored, compressed or not.
_MEASURED = ("text", "character varying", "character", "bytea")
# A cast to text is not what the server itself writes for these: it cuts the spaces at the end, or adds a mask.
_WRITERS: dict[str, LiteralString] = {"character": "bpcharout", "inet": "inet_out"}
_PACKED_KEYS = """
    pg_catalog.string_agg(packed.key, ''),
    pg_catalog.string_agg(coalesce(pg_catalog.int4send(pg_catalog.octet_length(packed.key)), '\\xffffffff'), '')
"""
_PACKED_TIMES = "pg_catalog.string_agg(coalesce(pg_catalog.timestamptz_send(packed.event_time), '\\x8000000000000000'), '')"
# Functions have their schema, because the user's may have the same name and fit better.
# The rows, and so the aggregates, are in the order of the window. The query leaves out values that are too large before it
# fetches them from where large values are stored. OFFSET 0 keeps the planner from converting a value for each place
# that mentions it.
_PAGE = """
    SELECT pg_catalog.string_agg(pg_catalog.int8send(packed.number), ''), pg_catalog.string_agg(packed.value, ''),
           pg_catalog.string_agg(coalesce(pg_catalog.int4send(pg_catalog.octet_length(packed.value)), '\\xffffffff'), ''),
           {keys}, {event_times}, {headers}, pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint,
           {shape}, {tables}
    FROM (
        SELECT {parts} FROM (
            SELECT found.*, sum(found.{size}) OVER (ORDER BY found.{number} ROWS UNBOUNDED PRECEDING) AS {bytes}
            FROM (
                SELECT {used}, {measured} AS {size} FROM {table} AS message
                WHERE {conditions} ORDER BY message.{number} LIMIT %s
            ) AS found
        ) AS message
        WHERE message.{bytes} - message.{size} < %s OFFSET 0
    ) AS packed
"""
_OBJECT = """
    pg_catalog.convert_to((SELECT pg_catalog.row_to_json(members.*) FROM (SELECT {}) AS members)::text, 'UTF8')
"""
# JSON's arrays have no numbering of their own. Most arrays begin at 1; the text of any other one begins with its bounds.
_ARRAY = """
    CASE WHEN pg_catalog.array_dims({0}) ~ '\\[(?!1:)' THEN pg_catalog.to_json({0}::text) ELSE pg_catalog.to_json({0}) END
"""
# Conditions of the user and expressions are not evaluated here, so that no row can make it fail.
_END = "SELECT max(found.number) FROM ({numbers}) AS found"
_NUMBERS = """
    SELECT message.{number}::bigint AS number FROM {table} AS message
    WHERE {conditions} ORDER BY message.{number} LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The mapping of the columns of a table to messages.

    Attributes:
        table: The table.
        sequence: The column that has the sequence.
        value: The column that is the value; None if it is a JSON object of columns.
        members: The columns of that object.
        has_all: Whether these are all columns of the table, because none were named.
        key: The column that has the key.
        headers: The column that has the headers.
        event_time: The column that has the event time.
        partition: The column that has the partition.
        where: A condition.
    """

    table: Table
    sequence: Column
    value: Column | None
    members: Sequence[Column] = ()
    has_all: bool = False
    key: Column | None = None
    headers: Column | None = None
    event_time: Column | None = None
    partition: Column | None = None
    where: str | None = None

    @property
    def used(self) -> list[Column]:
        """The columns that messages are made of."""
        others = [column for column in (self.key, self.headers, self.event_time) if column is not None]
        values = self.members if self.value is None else [self.value]
        return list({column.name: column for column in (self.sequence, *values, *others)}.values())

    @property
    def fixed(self) -> list[Column] | None:
        """The columns that must not change while the table is read; None if no column may."""
        if self.value is None and self.has_all:
            return None
        named = [column for column in self.table.columns.values() if _mentions(self.where, column.name)]
        partition = [] if self.partition is None else [self.partition]
        return list({column.name: column for column in (*self.used, *partition, *named)}.values())

    @property
    def described(self) -> tuple[Described, ...]:
        """What decides whether these columns are still the same."""
        columns = self.table.columns.values() if self.fixed is None else self.fixed
        return tuple(sorted(Described(column.number, column.name, column.type) for column in columns))

    @property
    def shape(self) -> str:
        """A text that is equal as long as these columns do not change; a page ends with what it is then."""
        return self.table.shape_of(self.fixed)

    def page(self, tables: sql.Composable) -> sql.Composed:
        """Returns a statement for the rows after one number and up to another.

        It returns one row: packed columns, the end of the snapshot, the shape and the tables. Its parameters are the partition,
        if the layout has such a column, the two numbers, the maximum number of rows, and about as many bytes of them. At least
        one row is packed.

        Args:
            tables: The expression for the ids of the tables that are read.
        """
        where = [] if self.where is None else [condition(self.where)]
        # The columns of a subquery keep their names, so what is calculated beside them needs a name that none of them has.
        taken = self.table.columns
        return sql.SQL(_PAGE).format(
            parts=self._parts(),
            table=self.table.identifier,
            number=self.sequence.identifier,
            used=names((column.name for column in self.used), "message"),
            measured=sql.SQL(" + ").join(self._measured()),
            size=name(free("size", taken)),
            bytes=name(free("bytes", taken)),
            conditions=sql.SQL(" AND ").join([*self._conditions(), *where]),
            keys=sql.SQL("NULL, NULL" if self.key is None else _PACKED_KEYS),
            event_times=sql.SQL("NULL" if self.event_time is None else _PACKED_TIMES),
            headers=sql.SQL("NULL" if self.headers is None else "pg_catalog.array_agg(packed.headers)"),
            shape=self.table.shape_now(self.fixed),
            tables=tables,
        )

    def end(self) -> sql.Composed:
        """Returns a statement for the last number of as many rows, with the same parameters but the last; null for none."""
        numbers = sql.SQL(_NUMBERS).format(
            number=self.sequence.identifier,
            table=self.table.identifier,
            conditions=sql.SQL(" AND ").join(self._conditions()),
        )
        return sql.SQL(_END).format(numbers=numbers)

    def single(self, part: sql.Composable) -> sql.Composed:
        """Returns a statement for one part of the row with a number."""
        statement = sql.SQL("SELECT {part} FROM {table} AS message WHERE {number} = %s")
        return statement.format(part=part, table=self.table.identifier, number=self.sequence.of("message"))

    def value_bytes(self) -> sql.Composable:
        """The expression for the value."""
        if self.value is not None:
            return _bytes(self.value)
        return sql.SQL(_OBJECT).format(sql.SQL(", ").join(map(_member, self.members)))

    def key_bytes(self) -> sql.Composable:
        """The expression for the key."""
        return sql.SQL("NULL::bytea") if self.key is None else _bytes(self.key)

    def _parts(self) -> sql.Composed:
        parts = {
            "number": sql.SQL("{}::bigint").format(self.sequence.of("message")),
            "value": self.value_bytes(),
            "key": self.key_bytes(),
            "event_time": _cast(self.event_time, "timestamptz"),
            "headers": _cast(self.headers, "text"),
        }
        return sql.SQL(", ").join(sql.SQL("{} AS {}").format(what, name(part)) for part, what in parts.items())

    def _conditions(self) -> Iterator[sql.Composed]:
        if self.partition is not None:
            yield sql.SQL("{} = %s").format(self.partition.of("message"))
        yield sql.SQL("{0} > %s AND {0} <= %s").format(self.sequence.of("message"))

    def _measured(self) -> Iterator[sql.Composable]:
        """The approximate size of a message, from what is known without reading it."""
        written = sum(len(column.name) + 16 for column in self.members) if self.value is None else 16
        yield sql.SQL("{}::bigint").format(value(written))
        for column in self.used:
            if column.length < 0:
                function = "octet_length" if column.base in _MEASURED else "pg_column_size"
                yield sql.SQL("coalesce(pg_catalog.{}({}), 0)").format(sql.SQL(function), column.of("message"))


def _member(column: Column) -> sql.Composable:
    expression = sql.SQL(_ARRAY).format(column.of("message")) if column.base.endswith("[]") else column.of("message")
    return sql.SQL("{} AS {}").format(expression, column.identifier)


def _bytes(column: Column) -> sql.Composable:
    if column.base == "bytea":
        return _cast(column, "bytea")
    writer = _WRITERS.get(column.base)
    text = _cast(column, "text")
    if writer is not None:
        text = sql.SQL("pg_catalog.textin(pg_catalog." + writer + "({}))").format(column.of("message"))
    return sql.SQL("pg_catalog.convert_to({}, 'UTF8')").format(text)


def _cast(column: Column | None, type_: LiteralString) -> sql.Composable:
    if column is None:
        return sql.SQL("NULL::" + type_)
    return sql.SQL("{}::" + type_).format(column.of("message"))


def _mentions(text: str | None, word: str) -> bool:
    """Returns whether a condition may mention a column."""
    return text is not None and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None
