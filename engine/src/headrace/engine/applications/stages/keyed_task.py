"""A keyed stage in a Spark task: reads and writes the states of its buckets, and delivers the results."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from headrace.engine._errors import CheckpointError
from headrace.engine.applications.stages.call_files import record_calls
from headrace.engine.applications.stages.keyed_stage import divided, keyed_stage_rows
from headrace.engine.applications.stages.plan import REPORT, BlockRow, Plan
from headrace.engine.applications.stages.reports import Report, merged, report_of
from headrace.engine.applications.stages.results import Results, joined
from headrace.engine.applications.stages.source_stage import batches_of, record_batch_of
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.checkpoint.manifests import Bucket, Entry, Manifest
from headrace.engine.checkpoint.state_files import StateFiles, state_files
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.options import RUN_NUMBER, SinkOptions
from headrace.engine.sink.writer import BATCH, this_task

STATES = "headrace.states"
"""The local property of a task with the states that its micro-batch continues from: a manifest."""


@dataclass(frozen=True)
class KeyedTask:
    """One keyed stage of a plan, as a function of Spark's `mapInArrow`.

    Attributes:
        plan: The plan.
        level: The number of shuffles before the stage; 0 if the application has none.
        root: The URL of the folder of states in the checkpoint.
        is_last: Whether it delivers the results.
        options: The options of the sinks; None to pass on the results instead of delivering them.
    """

    plan: Plan
    level: int
    root: str
    is_last: bool
    options: SinkOptions | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows for the next stage, or for the query's sink: counts and reports.

        Raises:
            HeadraceError: The states cannot be read, a function raises, or a sink does not accept the results.
        """
        by_bucket: defaultdict[int, list[BlockRow]] = defaultdict(list)
        for row in _rows(batches):
            by_bucket[row.bucket].append(row)
        if not by_bucket:
            return
        record_calls(self.plan.calls)
        stage = _Stage(self.plan, self.level, self._files, _continued(), _batch(), _run())
        leaving = (stage.rows(bucket, by_bucket.pop(bucket)) for bucket in sorted(by_bucket))
        if self.is_last and self.options is not None:
            yield from batches_of(self._delivered(leaving, stage, self.options))
        else:
            for rows in leaving:
                yield from batches_of(rows)
            yield record_batch_of([self._row(Report(stage.changed, sizes=stage.sizes))])

    @property
    def _files(self) -> StateFiles:
        return state_files(self.root, sync=self.options is not None and self.options.sync_to_disk)

    def _delivered(self, leaving: Iterable[list[BlockRow]], stage: "_Stage", options: SinkOptions) -> list[BlockRow]:
        """Delivers the rows for sinks; returns the rows for the driver."""
        kept: list[BlockRow] = []
        graph, task = self.plan.graph, this_task()
        lakes, sinks = tuple(graph.lakes), graph.sinks
        with Results(options, sinks, task) as results, TaskFiles(graph.lake_steps, task, sync=options.sync_to_disk) as tables:
            for rows in leaving:
                results.send(row for row in rows if not row.is_counter and row.target >= -len(sinks))
                for path, batch in joined(
                    (lakes[-1 - len(sinks) - row.target], row.batch) for row in rows if self._is_stored(row)
                ):
                    tables.write(path, batch)
                kept += [row for row in rows if row.is_counter]
            done = merged([*(report_of(row) for row in kept if row.target == REPORT), Report(stage.changed, sizes=stage.sizes)])
            report = replace(done, lakes=tables.finish(), written=results.finish())
            return [*(row for row in kept if row.target != REPORT), self._row(report)]

    def _is_stored(self, row: BlockRow) -> bool:
        """Whether it has rows of a table."""
        return not row.is_counter and row.target < -len(self.plan.graph.sinks)

    def _row(self, report: Report) -> BlockRow:
        return report.row(self.plan.bucket_ids[0])


class _Stage:
    """The stage in one task.

    Args:
        plan: The plan.
        level: The number of shuffles before the stage.
        files: The files of states.
        continued: The states that the micro-batch continues from.
        batch: The micro-batch.
        run: The number of its run; None if it has none.
    """

    def __init__(self, plan: Plan, level: int, files: StateFiles, continued: Manifest, batch: int, run: int | None) -> None:
        self._plan = plan
        self._level = level
        self._files = files
        self._continued = continued
        self._batch = batch
        self._run = run
        self.changed: dict[Bucket, Entry] = {}
        self.sizes: dict[Bucket, int] = {}

    def rows(self, bucket: int, arriving: list[BlockRow]) -> list[BlockRow]:
        """The rows that leave the stage for the rows that arrive in a bucket, whose states are then stored."""
        if not self._level:
            return arriving
        here, passing = divided(self._plan, self._level, arriving)
        if not here:
            return passing
        at = self._level, bucket
        store = BucketFiles(self._files, at, self._continued.entries.get(at))
        leaving = list(keyed_stage_rows(self._plan, self._level, bucket, arriving, store))
        if store.is_changed:
            self.changed[at] = store.finish(self._batch, self._run)
            self.sizes[at] = store.size
        return leaving


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[BlockRow]:
    for batch in batches:
        bucket, target, stream, sequence, peak, messages, block, branch, first = (column.to_pylist() for column in batch.columns)
        yield from map(BlockRow, bucket, target, stream, sequence, messages, block, peak, branch, first)


def _continued() -> Manifest:
    """The states that the task's micro-batch continues from."""
    return Manifest.loads(_property(STATES))


def _batch() -> int:
    """The micro-batch of the task."""
    return int(_property(BATCH))


def _run() -> int | None:
    """The number of the task's run; None if the driver does not number the runs of the query."""
    number = _path_of(RUN_NUMBER)
    return None if number is None else int(number)


def _path_of(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) if context is not None else None


def _property(name: str) -> str:
    """A local property of the task.

    Raises:
        CheckpointError: The driver has not passed it.
    """
    text = _path_of(name)
    if text is None:
        raise CheckpointError(f"the driver has not passed {name} to this task of an application; restart the query")
    return text
