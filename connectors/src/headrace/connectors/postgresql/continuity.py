"""Checks that a table is still the one of which a position tells, and that no row was missed meanwhile."""

import asyncio
from collections.abc import Sequence

from headrace.connectors.postgresql.fingerprint import Fingerprint, digest
from headrace.connectors.postgresql.link import Outdated
from headrace.connectors.postgresql.opened import Opened
from headrace.connectors.postgresql.snapshot import Snapshot, count_rows, later_row
from headrace.connectors.postgresql.watch import Watch
from headrace.sdk import HeadraceError, PositionLost

_LISTED = 8
"""How many partitions an error lists."""
_REPORTED_S = 15.0
"""Within ten seconds, sessions report what they have updated."""


async def check_known(watch: Watch, opened: Opened, fingerprint: Fingerprint, after: int) -> None:
    """Checks a table against what was known of it.

    Args:
        watch: The table, and the changes that the user accepts.
        opened: The present shape.
        fingerprint: The former shape.
        after: The sequence of the last row that was read.

    Raises:
        Outdated: It is another table, which the user accepts.
        PositionLost: The numbers may have started over.
        HeadraceError: Rows that are read again would differ, or rows would be missed; of the database's type.
    """
    layout, now = opened.layout, opened.fingerprint
    if fingerprint.table != now.table:
        if (change := watch.replaced(layout.table)) is not None:
            raise change
        return
    # If there are no rows after the position, none was sent that would differ if it was read again.
    if opened.newest > after and (change := watch.retyped(layout, fingerprint.changes(layout))) is not None:
        raise change
    if after and fingerprint.generator != now.generator:
        if await watch.changed(opened):
            raise Outdated(f"{layout.table} is another one")
        raise PositionLost(
            f"the numbers of {layout.table} may have started over: TRUNCATE RESTART IDENTITY or ALTER SEQUENCE has replaced the "
            f"state of its sequence, and rows up to {after} have been read. Give the stream another name, and start a query that "
            f"reads that one; or, if all rows after {after} are new ones, start the query with failOnDataLoss=false"
        )
    earlier = fingerprint.earlier_tables(opened.tables)
    if earlier is None:
        if (change := _too_many(watch, opened, after)) is not None:
            raise change
    elif earlier != opened.tables:
        await _check_partitions(watch, opened, earlier, after)


async def check_last_read(opened: Opened, fingerprint: Fingerprint, snapshot: Snapshot, after: int) -> None:
    """Checks that the last row that was read is not from a later transaction, as it is once numbers were drawn again.

    Nothing else shows a smaller `setval` once larger numbers were drawn. An update also leaves a row of a later transaction,
    so this finds nothing in a table in which rows were updated meanwhile.

    Args:
        opened: The present shape, after `check_known`.
        fingerprint: The former shape.
        snapshot: The shape at the time of reading.
        after: The sequence of the last row that was read.

    Raises:
        PositionLost: Numbers were drawn again.
    """
    table, tables = opened.layout.table, fingerprint.earlier_tables(opened.tables)
    if fingerprint.table != table.oid or tables is None:
        return
    number = None
    for seconds in (0.0, _REPORTED_S):
        await asyncio.sleep(seconds)
        number = await later_row(opened.session, opened.layout, snapshot, min(after, snapshot.last), tables)
        if (
            number is None
            or (counted := await count_rows(opened.session, opened.tables)) is None
            or snapshot.may_be_updates(counted)
        ):
            return
    raise PositionLost(
        f"the numbers of {table} may have started over: its row {number} was inserted after rows up to {after} had been read, as "
        "happens after setval to a smaller number. Give the stream another name, and start a query that reads that one; or, if "
        f"all rows after {after} are new ones, start the query with failOnDataLoss=false"
    )


def _too_many(watch: Watch, opened: Opened, after: int) -> HeadraceError | None:
    """Returns the error about partitions that cannot be named; None if the user accepts what they are now."""
    return watch.unaccepted(
        ["partitions", digest(map(str, sorted(opened.tables)))],
        f"more partitions of {opened.layout.table} were attached or detached since it was read than a position can name, which "
        f"is about a hundred. Rows up to {after} in attached partitions, and later rows in detached ones, would "
        "be missed. Attach the latter again until they are read",
        "to leave such rows out",
    )


async def _check_partitions(watch: Watch, opened: Opened, earlier: frozenset[int], after: int) -> None:
    """Checks that partitions that have come or gone have no rows that would be missed."""
    table, moves = opened.layout.table, await opened.moves_since(earlier)
    early = [each for each in moves.attached if each.first <= after]
    came = _listed([f"{each.name} was attached to {table} with rows from {each.first} on" for each in early])
    if early and (
        change := watch.unaccepted(
            [each.name for each in early],
            f"{came}, but rows up to {after} have been read. To read all of its rows, detach it, and insert them again, so that "
            "they get new numbers",
            "to leave out those",
        )
    ):
        raise change
    late = [each for each in moves.detached if each.last > after]
    went = _listed([f"{each.name} was detached from {table} with rows up to {each.last}" for each in late])
    if late and (
        change := watch.unaccepted(
            [each.name for each in late],
            f"{went}, and only those up to {after} have been read. Attach it again until they are read",
            "to leave them out",
        )
    ):
        raise change


def _listed(each: Sequence[str]) -> str:
    more = len(each) - _LISTED
    return "; ".join([*each[:_LISTED], *([f"and {more} more"] if more > 0 else [])])
