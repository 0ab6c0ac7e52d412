"""Checks that the numbers of a column are generated as the horizon of a table requires."""

import logging

from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.table import Table, find_columns

log = logging.getLogger("headrace.connectors")

_INTEGERS = ("smallint", "integer", "bigint")
# The sequence of an identity column depends on the column; the default of any other column depends on its sequence.
_SEQUENCES = """
    WITH wanted AS (SELECT attrelid, attnum FROM pg_attribute WHERE attrelid = %s AND attname = %s)
    SELECT seqrelid, seqrelid::regclass::text, seqcache = 1 AND seqincrement > 0 AND NOT seqcycle
    FROM pg_sequence WHERE seqrelid IN (
        SELECT objid FROM pg_depend JOIN wanted ON refobjid = attrelid AND refobjsubid = attnum
        WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype = 'i'
        UNION
        SELECT refobjid FROM pg_depend JOIN pg_attrdef d ON objid = d.oid JOIN wanted ON adrelid = attrelid AND adnum = attnum
        WHERE classid = 'pg_attrdef'::regclass AND refclassid = 'pg_class'::regclass)
"""
_IS_INDEXED = """
    SELECT EXISTS (
        SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE indrelid = %s AND attname = %s AND indpred IS NULL)
"""


async def check_numbers(session: Session, database: Database, table: Table, name: str, *, drawn_by_insert: bool) -> int | None:
    """Checks that reading by a column skips no row, and returns the sequence that generates its numbers, if any.

    Args:
        session: Where to look.
        database: The database, for errors.
        table: The table.
        name: The column.
        drawn_by_insert: Whether INSERT itself must generate the number.

    Raises:
        HeadraceError: This cannot be guaranteed; of the database's type.
    """
    (column,) = find_columns(database, table, [name])
    if column.base not in _INTEGERS:
        raise database.invalid(
            f"{table}: column {name} is of type {column.type}, but a sequence column must be of an integer type"
        )
    sequences = await session.fetch(_SEQUENCES, (table.oid, name))
    if not sequences and drawn_by_insert:
        raise database.invalid(
            f"{table}: column {name} has no default that draws from a sequence, so rows may appear in any order. Use a column "
            "that is GENERATED ALWAYS AS IDENTITY; or, if transactions generate the number before they insert, set "
            "hold_back to transactions"
        )
    for _, sequence, increases in sequences:
        if not increases:
            raise database.invalid(
                f"{table}: numbers of column {name} do not increase from row to row. Run ALTER SEQUENCE {sequence} CACHE 1 "
                "INCREMENT 1 NO CYCLE, and reconnect all programs that insert"
            )
    if not (await session.fetch(_IS_INDEXED, (table.oid, name)))[0][0]:
        log.warning("%s: no index begins with column %s of %s, so each look reads all of it", database.who, name, table)
    return sequences[0][0] if sequences else None
