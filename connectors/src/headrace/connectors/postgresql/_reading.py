"""Reads a table by its sequence, without skipping rows whose transaction commits late."""

import logging
import time

from psycopg import sql

from headrace.connectors.postgresql._page import MAX_ROWS, read_page
from headrace.connectors.postgresql._watch import Opened, Watch
from headrace.sdk import Backlog, Batch, PositionLost

log = logging.getLogger("headrace.connectors")

_HELD_BACK_SECONDS = 0.02
_HELD_REPORT_SECONDS = 60.0


class Reading:
    """The rows of a table, or of a partition of it, from a position on."""

    def __init__(self, watch: Watch, *, after: int, partition: str | None = None, detect_deleted: bool = False) -> None:
        """Creates the reading, without reading.

        Args:
            watch: The table and its connection, which other readings may share.
            after: The sequence of the last row that was read.
            partition: The partition, if the table has a partition column.
            detect_deleted: Whether the position counts as lost if the table begins after it.
        """
        self._watch = watch
        self._after = after
        self._partition = partition
        self._detect_deleted = detect_deleted
        self._held_since: float | None = None
        self._rows = MAX_ROWS
        self._opened: Opened | None = None
        self._since = 0.0
        self._caught_up = False

    async def next(self) -> Batch | None:
        """Returns the next final rows; None if there are none now. Waits for an unavailable server.

        Raises:
            PositionLost: The table has been emptied, or its first rows were deleted.
            HeadraceError: The table cannot be read; of the database's type.
        """
        return await self._watch.keep_trying(self._next)

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
        return seconds if self._held_since is None else min(_HELD_BACK_SECONDS, seconds)

    async def _next(self, opened: Opened) -> Batch | None:
        """Checks the table if all rows that are known to be final were read, and reads a page."""
        if opened is not self._opened:
            await self._check_first(opened)
            self._opened = opened
        horizon = opened.horizon
        if self._after >= horizon.all_final_to:
            await opened.look(self._since)
            self._check_look(opened)
        page = None
        if self._after < horizon.newest and not opened.has_nothing(self._partition, self._after):
            which = () if self._partition is None else (self._partition,)
            page = read_page(await opened.page((*which, self._after, horizon.newest, self._rows)))
        if page is None:
            self._after = max(self._after, horizon.all_final_to)
            self._hold_back(False)
            self._caught_up = True
            return None
        self._caught_up = False
        self._rows = page.next_rows
        count = horizon.final(self._after, page.sequences)
        self._hold_back(count < len(page.sequences))
        # Another check has to find newer rows.
        self._since = time.monotonic()
        if count == 0:
            self._after = max(self._after, horizon.all_final_to)
            return None
        self._after = page.sequences[count - 1]
        return page.first(count).batch()

    async def _check_first(self, opened: Opened) -> None:
        """Checks that the table begins where it should."""
        table, sequence = opened.table, opened.sequence
        query = sql.SQL("SELECT min({})::bigint FROM {}").format(sequence.identifier, table.identifier)
        (first,) = (await opened.session.fetch(query))[0]
        if first is not None and first < 1:
            raise self._watch.database.invalid(f"{table} has a row with {sequence.name} {first}, and sequences begin at 1")
        if self._detect_deleted and self._after and (first is None or first > self._after):
            begins = "is empty" if first is None else f"begins at {sequence.name} {first}"
            reason = f"{table} {begins}: rows after {self._after} may have been deleted before they were read"
            raise PositionLost(reason, earliest=first)

    def _check_look(self, opened: Opened) -> None:
        """Checks that numbers increase, and logs the transactions for which rows are held back."""
        if opened.last_drawn is not None and opened.last_drawn < self._after:
            raise PositionLost(
                f"the numbers of {opened.table} have started over: the last generated one is {opened.last_drawn}, but "
                f"{self._after} has been read. Give the stream another name, and start a query that reads that one"
            )
        if self._held_since is not None and time.monotonic() - self._held_since >= _HELD_REPORT_SECONDS:
            self._held_since = time.monotonic()
            whose = ", ".join("a prepared transaction" if pid is None else f"process {pid}" for pid in opened.processes)
            log.warning("%s: rows of %s after %d are held back for transactions that have not ended: %s",
                        self._watch.database.who, opened.table, self._after, whose)  # fmt: skip

    def _hold_back(self, held: bool) -> None:
        """Notes whether rows are held back, and since when this was not logged."""
        self._held_since = (self._held_since or time.monotonic()) if held else None
