"""Shows committed micro-batches in the tables of an application, from its driver.

A micro-batch's files are in its manifest, which the driver writes before Spark writes `commits/N`. Once that exists, they are
shown: at once by the driver that runs, or else by the next one at its start. So there is at most one micro-batch of a query that
is committed and not shown, the last one: none is committed before the one before it is shown.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from threading import Event, Lock

from headrace.contract.backoff import Backoff
from headrace.engine._errors import OlderCheckpoint, Replaced
from headrace.engine.checkpoint.fence import Fence
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.lakes.tables import Table, naming, opener
from headrace.pipelines.runtime import Lake

log = logging.getLogger("headrace.engine")
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
"""The pauses between attempts to show a micro-batch, in seconds."""


class Showing:
    """The tables of one start of an application.

    Args:
        lakes: The steps that write to tables.
        fence: Admits the changes of the run.
        sync: Whether what is shown survives a power loss.
        former: Returns Spark's ids of the queries that this one has replaced, on a checkpoint that was made from theirs.
        opened: Opens a table by its place and its format.
        backoff: Between two attempts to show a micro-batch while no other follows.
    """

    def __init__(
        self,
        lakes: Iterable[Lake],
        fence: Fence,
        *,
        sync: bool = False,
        former: Callable[[], Iterable[str]] = tuple,
        opened: Callable[[str, str], Table] | None = None,
        backoff: Callable[[], Backoff] = lambda: Backoff(FIRST_PAUSE_S, LAST_PAUSE_S),
    ) -> None:
        self._lakes = tuple(lakes)
        self._fence = fence
        self._open = opened or opener(self._lakes, sync=sync)
        self._former = former
        self._lock = Lock()
        self._backoff = backoff
        self._hurry = Event()
        """Set once somebody waits for the thread, which does not try again then."""
        self._thread = ThreadPoolExecutor(1, "headrace-lakes")
        self._running: Future[None] | None = None
        self._waiting: tuple[int, tuple[LakeBatch, ...]] | None = None
        """The last micro-batch whose manifest is written, and what it has written, until it is shown."""
        self._sweeping: tuple[str, int] | None = None
        """The query and the run, until what earlier runs have staged for its first micro-batch is deleted, too."""

    def resume(self, query: str | None, batch: int, last: Sequence[LakeBatch], run: int) -> None:
        """Shows what the last committed micro-batch has written, before the first one of a run, and deletes what is left behind.

        Args:
            query: Spark's id of the query; None if it is not known, and there are no lakes.
            batch: The first micro-batch of the run.
            last: The files of the micro-batch before.
            run: The number of the run.

        Raises:
            OlderCheckpoint: A table has a later micro-batch of the query.
            LakeError: A table does not match the checkpoint, or cannot be read or written.
            Replaced: Another run has replaced this one.
        """
        for each in last:
            with self._fence.guarding():
                self._check_last(each)
        self._show(last)
        former = tuple(self._former()) if self._lakes else ()
        for lake in self._lakes if query is not None else ():
            with self._fence.guarding():
                self._resume(lake, str(query), batch, run, former)
        self._sweeping = None if query is None else (query, run)

    def recover(self, last: Callable[[], Sequence[LakeBatch]]) -> None:
        """Shows what the last committed micro-batch has written soon, in a thread of its own. `resume` reports what fails."""
        if self._lakes:  # Others need not read the manifest twice; for lakes that are no longer written, `resume` is in time.
            self._running = self._thread.submit(self._try_last, last)

    def noted(self, batch: int, written: tuple[LakeBatch, ...]) -> None:
        """The manifest of a micro-batch is written, and Spark is about to commit it."""
        with self._lock:
            self._waiting = (batch, written) if written else None

    def committed(self, batch: int) -> None:
        """A micro-batch is in the commit log: shows it soon, in a thread of its own, which tries again. Returns at once."""
        with self._lock:
            if self._waiting is not None and self._waiting[0] <= batch and (self._running is None or self._running.done()):
                with suppress(RuntimeError):  # The process ends, and shows it in close().
                    self._running = self._thread.submit(self._try)

    def settle(self) -> None:
        """Waits until the micro-batch before is shown, which is committed.

        Raises:
            LakeError: A table does not match the checkpoint, or cannot be written.
            Replaced: Another run has replaced this one.
        """
        if self._running is not None:
            self._hurry.set()
            self._running.result()
            self._hurry.clear()
        self._show_waiting()

    def close(self, committed: Callable[[], int | None]) -> None:
        """Ends after the query: shows the last micro-batch if it was committed. If that fails, the next start does.

        Args:
            committed: Returns the last micro-batch in the commit log.
        """
        self._hurry.set()
        self._thread.shutdown()
        waiting = self._waiting
        try:
            if waiting is not None and (last := committed()) is not None and waiting[0] <= last:
                self._show_waiting()
        except Exception as error:
            _warn(waiting, error)

    def _try(self) -> None:
        waiting, backoff = self._waiting, self._backoff()
        while True:
            try:
                self._show_waiting()
            except Exception as error:
                _warn(waiting, error)
                if not isinstance(error, Replaced) and not self._hurry.wait(backoff.next()):
                    continue
            return

    def _try_last(self, last: Callable[[], Sequence[LakeBatch]]) -> None:
        try:
            self._show(last())
        except Exception as error:
            log.info("the last micro-batch is not yet shown in its lakes: %s", error)

    def _show_waiting(self) -> None:
        waiting = self._waiting
        if waiting is None:
            return
        self._show(waiting[1])
        self._sweep(waiting[0])
        with self._lock:
            if self._waiting is waiting:
                self._waiting = None

    def _show(self, written: Sequence[LakeBatch]) -> None:
        for each in written:
            failed = f"lake {each.path}: micro-batch {each.batch} is committed, and cannot be shown"
            remedy = ". Nothing is lost: the next start shows it, once the storage can be written"
            with self._fence.guarding(), naming(failed, remedy):
                self._open(each.path, each.format).show(each)

    def _sweep(self, batch: int) -> None:
        """Deletes what earlier runs have staged for the first micro-batch of the run, once it is committed without them."""
        if self._sweeping is None:
            return
        query, run = self._sweeping
        for lake in self._lakes:
            with self._fence.guarding(), _reading(lake.path):
                self._open(lake.path, lake.format).sweep(query, batch + 1, run)
        self._sweeping = None

    def _check_last(self, last: LakeBatch) -> None:
        """Checks the table against the query that has written the last micro-batch: a command may have copied its checkpoint."""
        with _reading(last.path):
            shown = self._open(last.path, last.format).last_visible(last.query)
        if shown > last.batch:
            raise OlderCheckpoint(_older(last.path, shown, last.batch + 1))

    def _resume(self, lake: Lake, query: str, batch: int, run: int, former: Iterable[str]) -> None:
        with _reading(lake.path):
            table = self._open(lake.path, lake.format)
            shown = table.last_visible(query)
            if shown >= batch:
                raise OlderCheckpoint(_older(lake.path, shown, batch))
            table.prepare(lake.columns.schema, lake.partition_by)
            table.sweep(query, batch, run)
            for each in former:  # Their commits are shown by now, and this query repeats the rest.
                table.sweep(each, sys.maxsize, sys.maxsize)


def _reading(path: str) -> AbstractContextManager[None]:
    """Has an error of the storage name the table."""
    return naming(f"lake {path} cannot be read", "; correct that, and start again")


def _older(path: str, last: int, batch: int) -> str:
    return (
        f"lake {path} has micro-batch {last} of this query, and the checkpoint continues with {batch}: an older checkpoint was "
        "restored. Restore the table of the same time, or start on a new checkpoint with another table"
    )


def _warn(waiting: tuple[int, tuple[LakeBatch, ...]] | None, error: Exception) -> None:
    number = None if waiting is None else waiting[0]
    if isinstance(error, Replaced):
        log.info("micro-batch %s is shown in its lakes by the present run: %s", number, error)
    else:
        log.warning("micro-batch %s is committed, and not yet shown in its lakes: %s", number, error, extra={"batch": number})
