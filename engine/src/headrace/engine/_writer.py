"""The writer that Spark calls: `write` in executors, `commit` and `abort` next to the driver."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.engine._connection import Connection
from headrace.engine._delivery import Delivery, vote
from headrace.engine._encode import frames
from headrace.engine._errors import HeadraceError, SinkRefused
from headrace.engine._sink_options import SinkOptions
from headrace.protocol.v1 import sink_pb2

QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
BATCH = "streaming.sql.batchId"
_SHOWN = 3
"""So many refused messages are named in a log entry."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class Task:
    """A task of a streaming query."""

    pipeline: str
    """The query's id, which its checkpoint keeps."""
    run: str
    batch: int
    partition: int

    @property
    def transaction(self) -> sink_pb2.Transaction:
        """What the batch writes, as the gateway knows it."""
        return sink_pb2.Transaction(pipeline=self.pipeline, batch=self.batch)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has delivered, if it had rows. Spark brings it from the executor to the driver."""

    task: Task | None = None
    attempt: str = ""
    messages: int = 0
    refused: tuple[tuple[int, str], ...] = ()
    """Messages that the sink refuses for good, by their place in the part, and why."""

    @property
    def part(self) -> sink_pb2.Part | None:
        """The part, as the gateway knows it; None where the task had no rows."""
        if self.task is None:
            return None
        return sink_pb2.Part(transaction=self.task.transaction, partition=self.task.partition, attempt=self.attempt)


class Writer(DataSourceStreamArrowWriter):
    """Writes the batches of a query to a sink. Spark makes it anew for each batch, and pickles it to executors."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._connection = Connection.of(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Delivers the rows of one task.

        Raises:
            HeadraceError: the sink cannot take them, or could not be reached for too long.
        """
        task = _this_task()
        with Delivery(self._options, self._connection, task.transaction, task.partition, task.run) as delivery:
            for batch in iterator:
                for frame in frames(batch, delivery.spool.messages):
                    delivery.send(frame)
            messages = delivery.spool.messages
            if not messages:
                return Written()
            refused = tuple((r.sequence, r.reason) for r in delivery.finish())
            if refused:
                self._report(refused, task)
            return Written(task, delivery.part.attempt, messages, refused)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Waits for the sink's vote. Spark writes `commits/N` afterwards, and that is what decides.

        Raises:
            HeadraceError: the sink votes against the batch, or could not be reached for too long.
        """
        written = [message for message in messages if isinstance(message, Written)]
        parts = [part for w in written if (part := w.part) is not None]
        if parts:
            parts.sort(key=lambda part: part.partition)
            vote(self._options, self._connection, parts[0].transaction, parts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: the sink drops these parts when it prepares the batch, or when the query starts again."""
        log.warning("batch %d is not written to sink %s; its parts do not count", batchId, self._options.sink)

    def _report(self, refused: tuple[tuple[int, str], ...], task: Task) -> None:
        place, reason = refused[0]
        if not self._options.skip_refused:
            raise SinkRefused(
                f"sink {self._options.sink} refuses {len(refused)} messages of batch {task.batch}, first the one at place "
                f"{place} of partition {task.partition}: {reason}. Mend them in the query, or set onRefused to skip"
            )
        shown = "; ".join(f"{place}: {reason}" for place, reason in refused[:_SHOWN])
        more = "" if len(refused) <= _SHOWN else "; ..."
        log.warning(
            "sink %s refuses %d messages of batch %d, partition %d, which are skipped: %s%s",
            self._options.sink,
            len(refused),
            task.batch,
            task.partition,
            shown,
            more,
        )


def _this_task() -> Task:
    """The task that this process runs.

    Raises:
        HeadraceError: it belongs to no streaming query.
    """
    context = TaskContext.get()
    query, run, batch = (context.getLocalProperty(name) if context is not None else None for name in (QUERY, RUN, BATCH))
    if context is None or query is None or run is None or batch is None:
        raise HeadraceError("only streaming queries write to sinks; use df.writeStream")
    return Task(query, run, int(batch), context.partitionId())
