"""The reader of an application that has a history: tasks read its files themselves, and drop live messages that it has."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.contract.counts import counted
from headrace.engine.applications.history.planner import HistoryPlanner
from headrace.engine.applications.stages.plan import COUNTS, BlockRow, Plan
from headrace.engine.applications.stages.source_stage import record_batch_of, source_stage_rows, stream_end_rows
from headrace.engine.codec import Columns
from headrace.engine.collector import freeze_modules
from headrace.engine.history.index import Index
from headrace.engine.history.run import Run
from headrace.engine.source.options import Options
from headrace.engine.source.ranges import NO_ENDS, Ends
from headrace.engine.source.reader import Reader
from headrace.pipelines.runtime import Counted, matches


class HistoryTask(InputPartition):
    """What one task reads of the history."""

    def __init__(self, run: Run, ends: Ends, planned_at: int | None) -> None:
        self.run, self.ends, self.planned_at = run, ends, planned_at

    def __repr__(self) -> str:
        return f"HistoryTask({counted(len(self.run.parts), 'part')})"


class HistoryReader(Reader):
    """Reads the history, then the streams. Executors get what their tasks read, and not the whole index."""

    def __init__(self, options: Options, plan: Plan, index: Index) -> None:
        super().__init__(replace(options, history=None))
        self._plan, self._index, self._repeated = plan, index, index.repeated

    def __getstate__(self) -> dict[str, Any]:
        """The state without the index."""
        return {**self.__dict__, "_index": None, "_planner": None}

    def _new_planner(self) -> HistoryPlanner:
        return HistoryPlanner(self._options, self._connection, self._index)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch of the history, or of the streams."""
        planner = self.planner
        assert isinstance(planner, HistoryPlanner)
        runs = None if start == end else planner.runs(start, end)
        if runs is None:
            return super().partitions(start, end)
        self._inline = None
        planned_at, ends = planner.planned_at(end), planner.ends(start, end)
        return [HistoryTask(run, ends if run is runs[-1] else NO_ENDS, planned_at) for run in runs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if not isinstance(partition, HistoryTask):
            yield from super().read(partition)
            return
        freeze_modules()
        yield from self._processed(partition.run.frames(), partition.ends, partition.planned_at)

    def _ends(self, start: dict[str, Any], end: dict[str, Any]) -> Ends:
        return self.planner.ends(start, end)

    def _rows(self, frames: Iterable[Columns], ends: Ends, planned_at: int | None) -> Iterator[pa.RecordBatch]:
        count: dict[str, int] = {}
        yield from self._processed(self._repeated.dropped(frames, count), ends, planned_at)
        if count:
            yield record_batch_of(list(self._counted(count)))

    def _processed(self, frames: Iterable[Columns], ends: Ends, planned_at: int | None) -> Iterator[pa.RecordBatch]:
        yield from source_stage_rows(self._plan, frames, planned_at)
        if ends:
            yield from stream_end_rows(self._plan, ends)

    def _counted(self, count: dict[str, int]) -> Iterator[BlockRow]:
        """How many messages were dropped, by source."""
        for source in self._plan.graph.sources.values():
            here = sum(number for stream, number in count.items() if any(matches(each, stream) for each in source.streams))
            if here:
                yield BlockRow(self._plan.bucket_ids[0], COUNTS[Counted.REPEATED], source.name, 0, here, b"\0")
