"""Delivers an application's results: each block to its sink, in the transactions of one micro-batch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

import pyarrow as pa

from headrace.engine.applications.stages.plan import BlockRow
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.writer import Task, TaskWriter, Writer, Written

MAX_ROWS, MAX_BYTES = 16_384, 64 << 20
"""Blocks of one sink are joined up to about this number of rows, so that small blocks do not become separate frames, or this
size, since a column of Arrow holds 2 GiB."""


class Results:
    """The results of one task. A context manager: what is not finished is cancelled.

    Args:
        options: The options of the sinks.
        sinks: The names of the sinks, in the order of their targets.
        task: The task.
    """

    def __init__(self, options: SinkOptions, sinks: Sequence[str], task: Task) -> None:
        self._options = options
        self._sinks = sinks
        self._task = task
        self._writers: dict[str, TaskWriter] = {}
        self._open = ExitStack()

    def __enter__(self) -> "Results":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.__exit__(kind, error, trace)

    def send(self, rows: Iterable[BlockRow]) -> None:
        """Delivers the blocks of rows for sinks.

        Raises:
            HeadraceError: A sink cannot accept them, or was unavailable until the timeout.
        """
        for sink, batch in joined((self._sinks[-1 - row.target], row.batch) for row in rows):
            if sink not in self._writers:
                writer = Writer(self._options.for_sink(sink)).task_writer(self._task)
                self._writers[sink] = self._open.enter_context(writer)
            self._writers[sink].send(batch)

    def finish(self) -> Mapping[str, Written]:
        """Waits until the sinks have staged everything; returns what they have staged.

        Raises:
            HeadraceError: A sink cannot accept it, or was unavailable until the timeout.
        """
        return {sink: writer.finish() for sink, writer in self._writers.items()}


def vote(
    options: SinkOptions,
    sinks: Sequence[str],
    written: Sequence[Mapping[str, Written]],
    batch: int,
    is_over: Callable[[], bool] | None = None,
) -> None:
    """Waits for the votes of all sinks on what the tasks of a micro-batch have delivered.

    Args:
        options: The options of the sinks.
        sinks: The names of the sinks.
        written: What each task has delivered, by sink.
        batch: The micro-batch.
        is_over: Whether the query was stopped: nobody waits for a vote then. None if it is unknown.

    Raises:
        VoteGivenUp: The query was stopped.
        HeadraceError: A sink votes against the batch, or was unavailable until the timeout.
    """
    for sink in sinks:
        Writer(options.for_sink(sink), is_over).commit([each.get(sink) for each in written], batch)


def blocks_of(rows: Iterable[BlockRow]) -> Iterator[pa.RecordBatch]:
    """The blocks of rows for one sink, joined."""
    return (block for _, block in joined(("", row.batch) for row in rows))


def joined(blocks: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Joins consecutive blocks of each sink or table that have the same columns."""
    waiting: dict[str, list[pa.RecordBatch]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for sink, block in blocks:
        gathered = waiting.setdefault(sink, [])
        rows, size = sizes.get(sink, (0, 0))
        if gathered and (gathered[0].schema != block.schema or rows >= MAX_ROWS or size >= MAX_BYTES):
            yield sink, pa.concat_batches(gathered)
            gathered.clear()
            rows = size = 0
        gathered.append(block)
        sizes[sink] = rows + block.num_rows, size + block.nbytes
    for sink, gathered in waiting.items():
        yield sink, pa.concat_batches(gathered)
