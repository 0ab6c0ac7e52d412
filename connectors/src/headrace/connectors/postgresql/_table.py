"""A table and its columns, from the catalog."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from psycopg import sql

from headrace.connectors.postgresql._database import Database, Session

_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod), atttypid::regtype::text, attnotnull, atthasdef OR attidentity <> '',
           attgenerated <> '' OR attidentity = 'a'
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_RELATION = """
    SELECT c.oid, n.nspname, c.relname, c.relkind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_TABLE_KINDS = "rp"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its type with modifiers, such as `numeric(10,2)`.
        base: Its type without them.
        required: Whether it rejects nulls.
        has_default: Whether it has a default.
        closed: Whether an INSERT cannot fill it.
    """

    name: str
    type: str
    base: str
    required: bool
    has_default: bool
    closed: bool

    @property
    def identifier(self) -> sql.Identifier:
        """Its name in a statement."""
        return sql.Identifier(self.name)


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
        return sql.Identifier(self.schema, self.name)

    def __str__(self) -> str:
        return f"table {self.schema}.{self.name}"


async def find_table(session: Session, database: Database, name: str) -> Table:
    """Looks up a table.

    Raises:
        HeadraceError: It does not exist, or is not a table; of the database's type.
    """
    rows = await session.fetch(_RELATION, (name,))
    if not rows:
        raise database.invalid(
            f"{database.where}: there is no table {name}; write schema.table if its schema is not in the search path"
        )
    oid, schema, relation, kind = rows[0]
    if (kind.decode() if isinstance(kind, bytes) else kind) not in _TABLE_KINDS:
        raise database.invalid(f"{database.where}: {name} is not a table; name the table itself rather than a view of it")
    columns = [Column(*row) for row in await session.fetch(_COLUMNS, (oid,))]
    return Table(oid, schema, relation, {column.name: column for column in columns})


def find_columns(database: Database, table: Table, names: Iterable[str]) -> list[Column]:
    """Looks up columns by name.

    Raises:
        HeadraceError: A column does not exist; of the database's type.
    """
    found = []
    for name in names:
        if name not in table.columns:
            close = get_close_matches(name, table.columns, 1)
            raise database.invalid(f"{table} has no column {name}" + (f"; did you mean {close[0]}?" if close else ""))
        found.append(table.columns[name])
    return found
