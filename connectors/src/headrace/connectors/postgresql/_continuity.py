"""Checks that a table is still the one of which a position tells, and that no row was missed meanwhile."""

from headrace.connectors.postgresql._fingerprint import Fingerprint
from headrace.connectors.postgresql._link import Outdated
from headrace.connectors.postgresql._opened import Opened
from headrace.connectors.postgresql._watch import Watch
from headrace.sdk import PositionLost


async def check_known(watch: Watch, opened: Opened, known: Fingerprint, after: int) -> None:
    """Checks a table against what was known of it.

    Args:
        watch: The table, and the changes that the user accepts.
        opened: What is known now.
        known: What was known.
        after: The sequence of the last row that was read.

    Raises:
        Outdated: It is another table, which the user accepts.
        PositionLost: The numbers may have started over.
        HeadraceError: Rows that are read again would differ, or rows would be missed; of the database's type.
    """
    layout, now = opened.layout, opened.fingerprint
    if known.table != now.table:
        if (change := watch.replaced(layout.table)) is not None:
            raise change
        return
    # If there are no rows after the position, none was sent that would differ if it was read again.
    if opened.newest > after and (change := watch.retyped(layout, known.changes(layout))) is not None:
        raise change
    if after and known.generator != now.generator:
        if await watch.changed(opened):
            raise Outdated(f"{layout.table} is another one")
        raise PositionLost(
            f"the numbers of {layout.table} may have started over: TRUNCATE RESTART IDENTITY or ALTER SEQUENCE has replaced the "
            f"state of its sequence, and rows up to {after} have been read. Give the stream another name, and start a query that "
            f"reads that one; or, if all rows after {after} are new ones, start the query with failOnDataLoss=false"
        )
    if known.tables is not None and now.tables is not None and known.tables != now.tables:
        await _check_partitions(watch, opened, known.tables, after)


async def _check_partitions(watch: Watch, opened: Opened, earlier: frozenset[int], after: int) -> None:
    """Checks that partitions that have come or gone have no rows that would be missed."""
    table, moves = opened.layout.table, await opened.moves_since(earlier)
    early = [each for each in moves.attached if each.first <= after]
    came = "; ".join(f"{each.name} was attached to {table} with rows from {each.first} on" for each in early)
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
    went = "; ".join(f"{each.name} was detached from {table} with rows up to {each.last}" for each in late)
    if late and (
        change := watch.unaccepted(
            [each.name for each in late],
            f"{went}, and only those up to {after} have been read. Attach it again until they are read",
            "to leave them out",
        )
    ):
        raise change
