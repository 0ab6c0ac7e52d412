"""A table and its columns, from the catalog."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from psycopg import sql

from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.names import name, value

_COLUMNS = """
    SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), base.oid::regtype::text, n.nspname, t.typname,
           base.typtype = 'e', t.typtype = 'd', a.atttypid, a.atttypmod, a.attlen,
           coalesce((SELECT collisdeterministic FROM pg_collation c WHERE c.oid = a.attcollation), true),
           (SELECT ARRAY[s.nspname, c.collname] FROM pg_collation c JOIN pg_namespace s ON s.oid = c.collnamespace
            WHERE c.oid = a.attcollation AND a.attcollation <> t.typcollation),
           a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
    CROSS JOIN LATERAL (
        WITH RECURSIVE types (oid, typtype, typbasetype) AS (
            SELECT t.oid, t.typtype, t.typbasetype
            UNION ALL
            SELECT p.oid, p.typtype, p.typbasetype FROM types JOIN pg_type p ON types.typtype = 'd' AND p.oid = types.typbasetype
        )
        SELECT types.oid, types.typtype FROM types WHERE types.typtype <> 'd'
    ) AS base
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_RELATION = """
    SELECT c.oid, n.nspname, c.relname, c.relkind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_TABLE_KINDS = "rp"
_OTHER_KINDS = {
    "v": ("a view", "name the table that it selects from"),
    "m": ("a materialized view", "name the table that it selects from"),
    "f": ("a foreign table", "run the connector at the database that stores the rows"),
    "S": ("a sequence", "name the table whose column draws from it"),
    "c": ("a type", "name a table with columns of it"),
    "i": ("an index", "name its table"),
    "I": ("an index", "name its table"),
    "t": ("a TOAST table", "name the table that it belongs to"),
}
# The tables of a view, of a column that owns a sequence, or of an index.
_BEHIND = """
    SELECT DISTINCT format('%%s.%%s', n.nspname, c.relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.oid IN (
        SELECT d.refobjid FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE r.ev_class = %s AND d.refclassid = 'pg_class'::regclass
        UNION
        SELECT d.refobjid FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = %s AND d.refclassid = 'pg_class'::regclass
    ) ORDER BY 1
"""
_SHAPE = """
    (SELECT string_agg(a.attnum || ' ' || a.attname || ' ' || a.atttypid || ' ' || a.atttypmod, ', ' ORDER BY a.attnum)
     FROM pg_catalog.pg_attribute a WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped AND {which})
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        number: Its number, which it keeps if it is renamed.
        name: Its name.
        type: Its type with modifiers, such as `numeric(10,2)`.
        base: Its type without them; of a domain, the type that it restricts.
        type_schema: The schema of its type.
        type_name: The name of its type in the catalog.
        is_enum: Whether its base is an enumeration.
        is_domain: Whether its type is a domain.
        type_id: The id of its type.
        modifier: The modifier of its type, such as a length; -1 if there is none.
        length: The bytes of a value; negative if that varies.
        exact: Whether texts that are equal are the same.
        collation: The schema and the name of its collation, if it differs from the collation of its type.
        required: Whether it rejects nulls.
        has_default: Whether it has a default.
        closed: Whether an INSERT cannot fill it.
    """

    number: int
    name: str
    type: str
    base: str
    type_schema: str
    type_name: str
    is_enum: bool
    is_domain: bool
    type_id: int
    modifier: int
    length: int
    exact: bool
    collation: Sequence[str] | None
    required: bool
    has_default: bool
    closed: bool

    @property
    def identifier(self) -> sql.Identifier:
        """Its name where a statement lists columns."""
        return name(self.name)

    def of(self, alias: str) -> sql.Identifier:
        """Its name in an expression, qualified by the alias of its table."""
        return name(alias, self.name)

    @property
    def bare_type(self) -> sql.Identifier:
        """Its type without modifiers: a cast to it cuts nothing."""
        return name(self.type_schema, self.type_name)


class Described(NamedTuple):
    """What decides whether a column is still the same.

    Attributes:
        number: Its number, which it keeps if it is renamed.
        name: Its name.
        type: Its type with modifiers.
    """

    number: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table, at the time of the check.

    Attributes:
        oid: Its id.
        schema: Its schema.
        name: Its name.
        columns: Its columns by name, in order.
    """

    oid: int
    schema: str
    name: str
    columns: Mapping[str, Column]

    @property
    def identifier(self) -> sql.Identifier:
        """Its name in a statement."""
        return name(self.schema, self.name)

    def shape_now(self, columns: Iterable[Column] | None = None) -> sql.Composed:
        """Returns the expression for what `shape_of` returns, as the table is when a statement is executed."""
        which: sql.Composable = sql.SQL("true")
        if columns is not None:
            which = sql.SQL("a.attname = ANY ({})").format(value([column.name for column in columns]))
        return sql.SQL(_SHAPE).format(table=value(self.oid), which=which)

    def shape_of(self, columns: Iterable[Column] | None = None) -> str:
        """Returns a text that is equal as long as columns have the same names and types; of all columns by default."""
        chosen = self.columns.values() if columns is None else columns
        parts = ((each.number, f"{each.number} {each.name} {each.type_id} {each.modifier}") for each in chosen)
        return ", ".join(text for _, text in sorted(parts))

    def __str__(self) -> str:
        return f"table {self.schema}.{self.name}"


def changes(earlier: Iterable[Described], now: Table, *, complete: bool) -> list[str]:
    """Describes how columns differ from a table's present ones; with `complete`, also which columns were added."""
    before = list(earlier)
    later = {column.number: column for column in now.columns.values()}
    found = []
    for column in before:
        at = later.get(column.number)
        if at is None:
            found.append(f"column {column.name} was dropped")
        elif at.name != column.name:
            found.append(f"column {column.name} was renamed to {at.name}")
        elif at.type != column.type:
            found.append(f"column {column.name} is of type {at.type} now, and was of type {column.type}")
    if complete:
        known = {column.number for column in before}
        found += [f"column {column.name} was added" for number, column in later.items() if number not in known]
    return found


async def find_table(session: Session, database: Database, written: str) -> Table:
    """Looks up a table.

    Raises:
        HeadraceError: It does not exist, or is not a table; of the database's type.
    """
    rows = await session.fetch(_RELATION, (written,))
    if not rows:
        own = written.rpartition(".")[2].strip('"')
        if (await session.fetch("SELECT EXISTS (SELECT FROM pg_type WHERE typname = %s)", (own,)))[0][0]:
            raise database.invalid(f"{database.where}: {written} is a type, not a table; name a table with columns of it")
        raise database.invalid(
            f"{database.where}: there is no table {written}; write schema.table if its schema is not in the search path"
        )
    oid, schema, relation, kind = rows[0]
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind not in _TABLE_KINDS:
        what, advice = _OTHER_KINDS.get(kind, ("a relation of another kind", "name a table"))
        behind = ", ".join(table for (table,) in await session.fetch(_BEHIND, (oid, oid)))
        raise database.invalid(f"{database.where}: {written} is {what}, not a table; {advice}{': ' + behind if behind else ''}")
    columns = [Column(*row) for row in await session.fetch(_COLUMNS, (oid,))]
    return Table(oid, schema, relation, {column.name: column for column in columns})


def find_columns(database: Database, table: Table, names: Iterable[str]) -> list[Column]:
    """Looks up columns by name.

    Raises:
        HeadraceError: A column does not exist; of the database's type.
    """
    found = []
    for each in names:
        if each not in table.columns:
            close = get_close_matches(each, table.columns, 1)
            raise database.invalid(f"{table} has no column {each}" + (f"; did you mean {close[0]}?" if close else ""))
        found.append(table.columns[each])
    return found
