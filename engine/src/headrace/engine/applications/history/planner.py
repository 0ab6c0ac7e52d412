"""Plans micro-batches of the history, then of the streams."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit

from headrace.engine._errors import GatewayAway, HistoryError, NotAttached
from headrace.engine.history.index import Index
from headrace.engine.history.order import SLICE_MESSAGES
from headrace.engine.history.run import Run
from headrace.engine.source.options import Options
from headrace.engine.source.planner import Planner
from headrace.engine.source.ranges import Ends
from headrace.engine.wire.connection import Connection

BATCH_MESSAGES = 16 * SLICE_MESSAGES
"""The approximate number of messages in a micro-batch of the history, unless `maxMessagesPerTrigger` is less."""


class HistoryPlanner(Planner):
    """Plans for one run of an application that has a history. The offset counts the slices that are read.

    Streams are planned once the history is read. Until then the run is attached, if it continues with them, so that nothing of
    theirs is acknowledged.
    """

    def __init__(self, options: Options, connection: Connection, index: Index) -> None:
        super().__init__(options, connection)
        self._index = index
        self._says_that_it_reads = not options.history_alone

    def latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As `Planner.latest_offset`; the next slices while there are any."""
        offset = self._offset(start)
        if offset.history >= self._index.slices:
            return start if self._options.history_alone else self._of_streams(super().latest_offset(start, limit))
        self._check_start(start)
        self._announce()
        history = min(self._index.slices, offset.history + self._slices_at_once(limit))
        wanted = self._options.finish is not False and self._options.history_alone
        finishes = wanted and history == self._index.slices
        end = self._ended(offset, history=history, finish=offset.finish + finishes, finished=finishes)
        return self._note(start, offset, end)

    def _of_streams(self, end: dict[str, Any]) -> dict[str, Any]:
        """The offset, if its streams can continue after sequences of the history.

        Raises:
            HistoryError: The source of a stream numbers messages anew when it delivers them again.
        """
        for stream, position in self._offset(end).streams.items():
            if position.epoch and stream in self._index.repeated.last:
                raise HistoryError(
                    f"stream {stream}: its source numbers messages anew when it delivers them again, so the sequences of the "
                    "history mean nothing to it: begin with a new checkpoint, and give the history the column sequence= (none)"
                )
        return end

    def runs(self, start: dict[str, Any], end: dict[str, Any]) -> list[Run] | None:
        """What each task of a micro-batch of the history reads; None for one of the streams."""
        begin, finish = self._history(start), self._history(end)
        if begin == finish:
            return None
        # The end first, as in `plan_reads`.
        self._offset(end)
        if not self._planned_here(start, end) or begin == 0:
            self._await_sinks()
        tasks = min(finish - begin, max(1, self._options.read_tasks))
        edges = [begin + number * (finish - begin) // tasks for number in range(tasks + 1)]
        return [self._index.run(low, high) for low, high in pairwise(edges)]

    def ends(self, start: dict[str, Any], end: dict[str, Any]) -> Ends:
        """As `Planner.ends`, with the streams of the history, which open with its first slice, and end with its last one."""
        found, begin, finish = super().ends(start, end), self._history(start), self._history(end)
        if begin == 0 and finish:
            found = replace(found, opened=tuple(sorted({*found.opened, *self._index.streams})))
        if begin < finish == self._index.slices:
            found = replace(found, streams=(*found.streams, *self._index.ending))
        return found

    def _history(self, document: Mapping[str, Any]) -> int:
        return int(document.get("history", 0))

    def _slices_at_once(self, limit: ReadLimit) -> int:
        messages, _ = self._limits(limit)
        each = max(1, self._index.messages // self._index.slices)
        return max(1, min(BATCH_MESSAGES, messages or BATCH_MESSAGES) // each)

    def _announce(self) -> None:
        """Tells the gateway of the run, once, so that the streams are not acknowledged further. The history does not need it."""
        if not self._says_that_it_reads:
            return
        self._says_that_it_reads = False
        try:
            self._attach({}, {})
        except (GatewayAway, NotAttached):
            # Sinks need the gateway, too: their tasks wait for it, and streams are planned after the history.
            self._attached = False
