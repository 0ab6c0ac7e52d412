"""Reads a table by its sequence, without skipping rows whose transaction commits late."""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

import psycopg
from psycopg import sql

from headrace.connectors.postgresql.continuity import check_known, check_last_read
from headrace.connectors.postgresql.errors import in_a_line, is_passing
from headrace.connectors.postgresql.fingerprint import Fingerprint
from headrace.connectors.postgresql.layout import MAX_BYTES
from headrace.connectors.postgresql.link import Outdated
from headrace.connectors.postgresql.opened import Opened, readable
from headrace.connectors.postgresql.page import MAX_ROWS, BadRow, Page, Piece, read_page
from headrace.connectors.postgresql.snapshot import Snapshot
from headrace.connectors.postgresql.watch import Watch
from headrace.connectors.retry import ThrottledLog
from headrace.sdk import Backlog, Batch, InvalidMessage, Message, Position, PositionLost

log = logging.getLogger("headrace.connectors")

_FIRST_ROWS = 16
"""How many rows are read before it is known how large they are."""
_HELD_BACK_S = 0.02
_HELD_REPORT_S = 10.0
"""After how long rows that are held back are reported, in seconds: each transaction that writes holds some for a moment."""


class Reading:
    """The rows of a table, or of a partition of it, from a position on."""

    def __init__(
        self,
        watch: Watch,
        *,
        position: Position | None,
        partition: str | None = None,
        detect_deleted: bool = False,
        only_grows: bool = False,
    ) -> None:
        """Creates the reading, without reading.

        Args:
            watch: The table and its connection, which other readings may share.
            position: The position of the last row that was read; None for the first one.
            partition: The partition, if the table has a partition column.
            detect_deleted: Whether the position counts as lost if the table begins after it.
            only_grows: Whether rows that were seen must not vanish before they are read.
        """
        self._watch = watch
        self._after = position.sequence if position else 0
        self._cursor = position.cursor if position else None
        """The cursor of the last row that was read."""
        self._fingerprint: Fingerprint | None = None
        """The table at the last check."""
        self._snapshot: Snapshot | None = None
        """The rows that were read last; None if that is unknown."""
        self._partition = partition
        self._detect_deleted = detect_deleted
        self._only_grows = only_grows
        self._held_since: float | None = None
        self._holders = ThrottledLog(log, watch.database.connector, f"rows of {partition}")
        self._rows = _FIRST_ROWS
        self._window: int | None = None
        """How many rows the next statement may look at, after one that failed or took too long; None if that is not limited."""
        self._opened: Opened | None = None
        self._newest = 0
        self._since = 0.0
        self._caught_up = False

    async def next(self) -> Sequence[Piece] | None:
        """Returns the next final rows, which may be none yet; None if there are none now. Waits for an unavailable server.

        Raises:
            PositionLost: The table has been emptied, or rows were deleted before they were read.
            HeadraceError: The table cannot be read; of the database's type.
        """
        return await self._watch.keep_trying(self._next_unless_changed)

    async def batches(
        self,
        refuse: Callable[[Message, InvalidMessage], Awaitable[None]],
        wait: Callable[["Reading"], Awaitable[float]],
    ) -> AsyncGenerator[Batch | None]:
        """Yields the batches of each page of rows, and None whenever all are read. Raises as `next` does.

        Args:
            refuse: Applies the policy to a bad row, in its turn.
            wait: Waits after None until another check is worthwhile, and returns the moment for `look_since`.
        """
        while True:
            found = await self.next()
            for piece in found or ():
                if isinstance(piece, BadRow):
                    await refuse(piece.message, piece.error)
                else:
                    yield piece
            if found is None:
                yield None
                self.look_since(await wait(self))

    @property
    def backlog(self) -> Backlog | None:
        """The number of rows left; for a partition, it is only known whether there are none."""
        if self._caught_up:
            return Backlog(messages=0)
        if self._partition is not None or self._opened is None:
            return None
        return Backlog(latest_sequence=self._opened.newest)

    @property
    def looked_at(self) -> float:
        """When the last known check began, by the monotonic clock, in seconds."""
        return float("-inf") if self._opened is None else self._opened.looked_at

    def look_since(self, moment: float) -> None:
        """Requires another check before it continues, unless one happens after this moment."""
        self._since = moment

    def next_check_in(self, seconds: float) -> float:
        """Returns the wait before the next check, in seconds; shorter if rows are held back, as they may soon become final."""
        return seconds if self._held_since is None else min(_HELD_BACK_S, seconds)

    async def _next_unless_changed(self, opened: Opened) -> Sequence[Piece] | None:
        """As `_next`, but names the columns if the server no longer knows what a statement mentions."""
        try:
            return await self._next(opened)
        except psycopg.ProgrammingError as error:
            if await self._watch.changed(opened):
                raise Outdated(f"{opened.layout.table} has changed") from error
            raise

    async def _next(self, opened: Opened) -> Sequence[Piece] | None:
        """Checks the table if all rows that are known to be final were read, and reads a page."""
        if opened is not self._opened:
            await self._check_first(opened)
            self._opened = opened
        horizon = opened.horizon
        if self._after >= horizon.all_final_to:
            await opened.look(self._since)
            await self._check_look(opened)
        if self._after >= horizon.newest or opened.has_nothing(self._partition, self._after):
            self._note_nothing(opened)
            return None
        # After a failure, a statement is limited by the rows that it looks at, of which a condition may select a few.
        to = horizon.newest
        if self._window is not None:
            to = await opened.end((*self._which, self._after, to, self._window)) or to
        try:
            page, xid = await self._page(opened, to)
        except psycopg.Error as error:
            if not await self._concerns_rows(opened, error):
                raise
            if self._window != 1:
                self._look_at_fewer()
                return []
            bad = await self._bad_row(opened, to, error)
            return [bad] if self._advance(opened, [to]) else None
        if self._window is not None:
            self._window = None if self._window >= MAX_ROWS else 2 * self._window
        if page is None and to < horizon.all_final_to:
            self._after = to
            return []
        if page is None:
            self._note_nothing(opened)
            return None
        self._rows = page.next_rows
        count = self._advance(opened, page.sequences)
        if not count:
            return None
        self._note_read(opened, page.sequences[count - 1], xid)
        return list(page.part(0, count).pieces(self._cursor))

    def _note_nothing(self, opened: Opened) -> None:
        """Notes that no row is left to read now."""
        self._after = max(self._after, opened.horizon.all_final_to)
        self._hold_back(False)
        self._caught_up = True

    def _advance(self, opened: Opened, numbers: Sequence[int]) -> int:
        """Notes that rows are read, as far as they are final, and returns how many are."""
        self._caught_up = False
        count = opened.horizon.final(self._after, numbers)
        self._hold_back(count < len(numbers))
        # Another check has to find newer rows.
        self._since = time.monotonic()
        self._after = numbers[count - 1] if count else max(self._after, opened.horizon.all_final_to)
        return count

    def _note_read(self, opened: Opened, last: int, xid: int) -> None:
        """Makes a cursor of the rows up to one that are read."""
        counted = opened.counted
        self._snapshot = None if counted is None else Snapshot(last, xid, counted)
        newest = self._newest if self._only_grows else 0
        self._cursor = replace(opened.fingerprint, newest=newest, snapshot=self._snapshot).cursor()

    @property
    def _which(self) -> tuple[object, ...]:
        return () if self._partition is None else (self._partition,)

    # Pages that fail

    async def _page(self, opened: Opened, to: int) -> tuple[Page | None, int]:
        """Reads rows up to a number; returns them, and the id of a transaction before which they were inserted."""
        try:
            size = MAX_BYTES if self._window is None else MAX_BYTES * self._window // MAX_ROWS + 1
            *row, xid, shape = await opened.page((*self._which, self._after, to, self._rows, size))
        except (TimeoutError, psycopg.errors.QueryCanceled):
            self._look_at_fewer()
            raise
        if shape != opened.layout.shape:
            await self._watch.changed(opened)
            # The statements have to be prepared again, even if it was changed and changed back.
            raise Outdated(f"{opened.layout.table} has changed")
        return read_page(tuple(row)), int(str(xid))

    def _look_at_fewer(self) -> None:
        """Limits the next statement to half as many rows."""
        self._window = max(1, (self._window or self._rows) // 2)

    async def _concerns_rows(self, opened: Opened, error: psycopg.Error) -> bool:
        """Returns whether a row is the reason for an error, rather than the statement, which would also fail without any row."""
        if is_passing(error) or not opened.session.usable:
            return False
        try:
            await opened.page((*self._which, self._after, self._after, 1, 1))
        except psycopg.Error as other:
            if is_passing(other):
                raise
            return False
        return True

    async def _bad_row(self, opened: Opened, number: int, error: psycopg.Error) -> BadRow:
        """Returns the row at which a statement failed, with the parts that can be read."""
        return BadRow.of(number, *await readable(opened.session, opened.layout, number), in_a_line(error))

    # Checks

    async def _check_first(self, opened: Opened) -> None:
        """Checks that the table begins where it should, and is still the one that was read."""
        table, sequence = opened.layout.table, opened.layout.sequence
        query = sql.SQL("SELECT min({})::bigint FROM {} AS message").format(sequence.of("message"), table.identifier)
        (first,) = (await opened.session.fetch(query))[0]
        if first is not None and first < 1:
            raise self._watch.database.invalid(f"{table} has a row with {sequence.name} {first}, and sequences begin at 1")
        if self._detect_deleted and self._after and (first is None or first > self._after):
            begins = "is empty" if first is None else f"begins at {sequence.name} {first}"
            reason = f"{table} {begins}: rows after {self._after} may have been deleted before they were read"
            raise PositionLost(reason, earliest=first)
        if self._fingerprint is None and self._cursor is not None:
            try:
                self._fingerprint = Fingerprint.read(self._cursor)
            except ValueError as error:
                raise self._watch.database.invalid(f"{table}: {error}. Give the stream another name") from None
            self._newest, self._snapshot = self._fingerprint.newest, self._fingerprint.snapshot
        await opened.look(0.0)
        await self._check_look(opened)

    async def _check_look(self, opened: Opened) -> None:
        """Checks that numbers increase and no row has gone, and logs the transactions for which rows are held back."""
        table = opened.layout.table
        self._watch.note_hidden(table, hides=opened.hides)
        last = opened.last_drawn if opened.last_drawn is not None and opened.last_drawn < self._after else opened.started_over
        if last is not None:
            which = "last generated one is" if last == opened.last_drawn else "newest row has"
            raise PositionLost(
                f"the numbers of {table} have started over: the {which} {last}, but rows up to "
                f"{max(self._after, opened.horizon.all_final_to)} have been read. Give the stream another name, and start a "
                "query that reads that one"
            )
        if self._fingerprint is not None and self._fingerprint != opened.fingerprint:
            await check_known(self._watch, opened, self._fingerprint, self._after)
            if self._fingerprint.earlier_tables(opened.tables) != opened.tables:
                self._newest = 0
        if self._only_grows and self._after < self._newest and await self._is_gone(opened):
            raise PositionLost(
                f"rows of {table} after {self._after} and up to {self._newest} are gone before they were read: TRUNCATE, DELETE "
                "or DROP of a partition has removed them. If that was intended, start the query with failOnDataLoss=false: it "
                "continues with new rows"
            )
        if opened is not self._opened and self._fingerprint is not None and self._snapshot is not None:
            await check_last_read(opened, self._fingerprint, self._snapshot, self._after)
        self._fingerprint, self._newest = opened.fingerprint, opened.newest
        if self._held_since is not None and time.monotonic() - self._held_since >= _HELD_REPORT_S:
            whose = ", ".join("a prepared transaction" if pid is None else f"process {pid}" for pid in opened.processes)
            held = f"rows of {table} after {self._after} are held back for transactions that have not ended: {whose}"
            self._holders.report(f"{self._watch.database.who}: {held}")

    async def _is_gone(self, opened: Opened) -> bool:
        """Returns whether the newest row that was seen is gone, which later rows only hide after a connection was opened."""
        return opened.newest <= self._after or (opened is not self._opened and not await opened.has(self._newest))

    def _hold_back(self, held: bool) -> None:
        """Notes whether rows are held back, and since when."""
        if not held and self._held_since is not None:
            self._holders.over(f"{self._watch.database.who}: rows are no longer held back")
        self._held_since = (self._held_since or time.monotonic()) if held else None
