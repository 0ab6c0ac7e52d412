"""Writes an application's results: each block to its sink, in the transactions of one micro-batch."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.engine.applications._plan import COUNTS, Plan
from headrace.engine.sink._options import SinkOptions
from headrace.engine.sink._writer import TaskWriter, Writer, Written, this_task

LARGEST_ROWS = 16_384
"""Blocks of one sink are joined up to about this number of rows, so that small blocks do not become separate frames."""


_COUNTS = frozenset(COUNTS.values())


@dataclass(frozen=True)
class WrittenBlocks(WriterCommitMessage):
    """What a task has delivered, by sink."""

    by_sink: Mapping[str, Written] = field(default_factory=dict)


class BlockWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of an application. Spark creates one for each micro-batch, and pickles it for executors."""

    def __init__(self, options: SinkOptions, plan: Plan) -> None:
        self._names = plan.graph.sinks
        self._writers = {sink: Writer(options.for_sink(sink)) for sink in self._names}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenBlocks:
        """Delivers the blocks of one task.

        Raises:
            HeadraceError: A sink cannot accept them, or was unavailable until the timeout.
        """
        task = this_task()
        with ExitStack() as open_until_done:
            writers: dict[str, TaskWriter] = {}
            for sink, batch in _joined(self._blocks(iterator)):
                if sink not in writers:
                    writers[sink] = open_until_done.enter_context(self._writers[sink].task_writer(task))
                writers[sink].send(batch)
            return WrittenBlocks({sink: writer.finish() for sink, writer in writers.items()})

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Waits for the votes of all sinks.

        Raises:
            HeadraceError: A sink votes against the batch, or was unavailable until the timeout.
        """
        blocks = [message for message in messages if isinstance(message, WrittenBlocks)]
        for sink, writer in self._writers.items():
            writer.commit([block.by_sink.get(sink) for block in blocks], batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Only logs: the sinks drop these parts when they prepare the batch, or when the query starts again."""
        for writer in self._writers.values():
            writer.abort(messages, batchId)

    def _blocks(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for rows in iterator:
            targets = rows.column("target").to_pylist()
            for target, block in zip(targets, rows.column("block"), strict=True):
                if target in _COUNTS:
                    continue
                yield self._names[-1 - target], pa.ipc.open_stream(block.as_buffer()).read_next_batch()


def _joined(blocks: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Joins consecutive blocks of each sink that have the same columns."""
    waiting: dict[str, list[pa.RecordBatch]] = {}
    for sink, block in blocks:
        gathered = waiting.setdefault(sink, [])
        if gathered and (gathered[0].schema != block.schema or sum(b.num_rows for b in gathered) >= LARGEST_ROWS):
            yield sink, pa.concat_batches(gathered)
            gathered.clear()
        gathered.append(block)
    for sink, gathered in waiting.items():
        yield sink, pa.concat_batches(gathered)
