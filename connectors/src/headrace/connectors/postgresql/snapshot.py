"""What tells that a row was inserted after others with larger numbers had been read."""

from collections.abc import Set
from dataclasses import dataclass

from psycopg import sql

from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.layout import Layout

# The rows with the largest number up to one. A change of a column may write rows anew, so that they are from its transaction.
_LAST = """
    SELECT message.{number}::bigint, message.tableoid::bigint, message.xmin::text::bigint,
           pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint,
           ARRAY(SELECT DISTINCT a.xmin::text::bigint FROM pg_catalog.pg_attribute a WHERE a.attrelid = message.tableoid)
    FROM {name} AS message JOIN pg_catalog.pg_class heap ON heap.oid = message.tableoid AND heap.relkind = 'r'
    WHERE message.{number} = (SELECT max(earlier.{number}) FROM {name} AS earlier WHERE earlier.{number} <= %s)
    LIMIT 100
"""
_COUNT = """
    SELECT coalesce(sum(pg_catalog.pg_stat_get_tuples_inserted(oid)), 0)::bigint,
           coalesce(sum(pg_catalog.pg_stat_get_tuples_updated(oid)), 0)::bigint,
           current_setting('track_counts')::bool AND coalesce(bool_and(relpersistence <> 'u'), false)
    FROM pg_catalog.pg_class WHERE oid = ANY (%s::bigint[]::oid[])
"""
_XIDS = 2**32
_FIRST_XID = 3
"""Smaller ids belong to no transaction."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What sessions have reported of a table and its partitions.

    Attributes:
        inserted: The number of rows that were inserted.
        updated: The number of rows that were updated.
    """

    inserted: int
    updated: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows that a statement has read, and when.

    Attributes:
        last: The largest number. All rows up to it were visible, or never would be.
        xid: The id of a transaction, in 64 bits: all rows that were visible are from earlier ones.
        counted: What had been reported when the connection was opened.
    """

    last: int
    xid: int
    counted: Counted

    def is_before(self, xmin: int, xid: int) -> bool:
        """Returns whether a row is from a transaction after this snapshot.

        Args:
            xmin: The id of its transaction, in the 32 bits that a row has.
            xid: The id of the next snapshot, in 64 bits, which is after that transaction.
        """
        elapsed = xid - self.xid
        # Ids of 32 bits start over. Those of old rows cannot be told from new ones once half of them have passed.
        return xmin >= _FIRST_XID and elapsed < _XIDS // 2 and ((xid - xmin - 1) % _XIDS) < elapsed

    def may_be_updates(self, now: Counted) -> bool:
        """Returns whether later rows may be updated ones, for all that was reported since; or counters have started over."""
        return now.updated != self.counted.updated or now.inserted < self.counted.inserted


async def count_rows(session: Session, tables: Set[int]) -> Counted | None:
    """Returns what sessions have reported of tables; None if the server does not count, or a table is unlogged."""
    inserted, updated, counts = (await session.fetch(_COUNT, (sorted(tables),)))[0]
    return Counted(inserted, updated) if counts else None


async def later_row(session: Session, layout: Layout, snapshot: Snapshot, up_to: int, tables: Set[int]) -> int | None:
    """Returns the number of the last row up to one, if it is from a transaction after a snapshot.

    Args:
        session: Where to look.
        layout: The table.
        snapshot: The shape at the time of reading.
        up_to: The largest number to look for.
        tables: The tables in which such a row counts.

    Returns:
        The number; None if there is no row, if it is an earlier one, or a change of columns may have written it anew.
    """
    query = sql.SQL(_LAST).format(number=layout.sequence.identifier, name=layout.table.identifier)
    for number, table, xmin, xid, changes in await session.fetch(query, (up_to,)):
        if table in tables and snapshot.is_before(xmin, xid) and not any(snapshot.is_before(each, xid) for each in changes):
            return int(number)
    return None
