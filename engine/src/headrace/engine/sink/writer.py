"""The writer that Spark calls: `write` in executors, `commit` and `abort` next to the driver.

Messages that a sink rejected go to the dead-letter sink: unchanged, with additional headers that state the reason.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.contract.counts import counted
from headrace.contract.errors import HeadraceError
from headrace.engine._errors import SinkRefused
from headrace.engine.codec import ERROR
from headrace.engine.collector import freeze_modules
from headrace.engine.sink.dead_letters import dead_letters, divided
from headrace.engine.sink.delivery import Attempt, Delivery
from headrace.engine.sink.options import RUN_NUMBER, SinkOptions
from headrace.engine.sink.spool import Spool
from headrace.engine.sink.vote import vote
from headrace.engine.wire.connection import Connection
from headrace.logs.output import configure_from_environment
from headrace.protocol.v1 import sink_pb2

QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
BATCH = "streaming.sql.batchId"
_SHOWN = 3
"""The number of rejected messages that a log entry lists."""

log = logging.getLogger("headrace.engine")

Part = tuple[sink_pb2.Part, str]
"""A part, and the sink's instance that has staged it."""
Refused = tuple[tuple[int, str], ...]
"""Messages that the sink permanently rejects: their index in the part, and the reason."""


@dataclass(frozen=True)
class Task:
    """A task of a streaming query."""

    query_id: str
    """Spark's id of the query, which is the same for the life of its checkpoint."""
    run_id: str
    """Spark's id of the run."""
    batch: int
    partition: int
    run_number: int
    """The number of the run in the checkpoint."""

    @property
    def transaction(self) -> sink_pb2.Transaction:
        """The transaction of the batch."""
        return sink_pb2.Transaction(pipeline=self.query_id, batch=self.batch)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The delivery of a task that had rows. Spark sends it from the executor to the driver."""

    task: Task | None = None
    attempt: Attempt | None = None
    """The attempt that the sink has staged; None for rows that it has written at once."""
    messages: int = 0
    refused: Refused = ()
    dead_attempt: Attempt | None = None
    """The attempt that the dead-letter sink has staged; None if no message was rejected."""

    @property
    def part(self) -> Part | None:
        """The part that the sink has staged; None if the task had no rows."""
        return self._part(self.attempt)

    @property
    def dead_part(self) -> Part | None:
        """The part that the dead-letter sink has staged; None if no message was rejected."""
        return self._part(self.dead_attempt)

    def _part(self, attempt: Attempt | None) -> Part | None:
        if self.task is None or attempt is None:
            return None
        part = sink_pb2.Part(transaction=self.task.transaction, partition=self.task.partition, attempt=attempt.name)
        return part, attempt.instance


class Writer(DataSourceStreamArrowWriter):
    """Writes the batches of a query to a sink. Spark creates one for each batch, and pickles it for executors.

    Args:
        options: The options of the sink.
        is_over: Whether the query was stopped: nobody waits for a vote then. None if it is unknown.
    """

    def __init__(self, options: SinkOptions, is_over: Callable[[], bool] | None = None) -> None:
        self._options = options
        self._is_over = is_over or _is_never_over
        self._connection = Connection.of(options)
        freeze_modules()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Delivers the rows of one task.

        Raises:
            HeadraceError: The sink cannot accept them, or was unavailable until the timeout.
        """
        with self.task_writer(this_task()) as writer:
            for batch in iterator:
                writer.send(batch)
            return writer.finish()

    def task_writer(self, task: Task) -> "TaskWriter":
        """Returns a context manager that delivers the rows of a task."""
        return TaskWriter(self._options, self._connection, task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Waits for the sink's vote. The batch is committed when Spark writes `commits/N` afterwards.

        Raises:
            VoteGivenUp: The query was stopped.
            HeadraceError: The sink votes against the batch, or was unavailable until the timeout.
        """
        freeze_modules()
        configure_from_environment()
        written = [message for message in messages if isinstance(message, Written)]
        numbers = {w.task.run_number for w in written if w.task is not None}
        if not numbers:
            return
        options = self._options.for_dead_letters()
        if options is not None:
            self._vote(options, [w.dead_part for w in written], max(numbers))
        self._vote(self._options, [w.part for w in written], max(numbers))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Only logs: the sink drops these parts when it prepares the batch, or when the query starts again."""
        # The query fails with the reason, or was stopped: neither needs a warning.
        fields = {"sink": self._options.sink, "batch": batchId}
        log.info("batch %d was not written to sink %s; the sink discards its parts", batchId, self._options.sink, extra=fields)

    def _vote(self, options: SinkOptions, parts: list[Part | None], run_number: int) -> None:
        there = sorted((part for part in parts if part is not None), key=lambda part: part[0].partition)
        if there:
            vote(options, self._connection, there[0][0].transaction, there, run_number, self._is_over)


def _is_never_over() -> bool:
    return False


class TaskWriter:
    """Delivers the rows of one task to one sink, and handles rejected rows according to the options."""

    def __init__(self, options: SinkOptions, connection: Connection, task: Task) -> None:
        self._options = options
        self._connection = connection
        self._task = task
        self._failed = Spool()
        """Rows whose values the source could not decode."""
        self._delivery = Delivery(options, connection, task.transaction, task.partition, task.run_id, task.run_number)

    def __enter__(self) -> "TaskWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._failed.close()
        self._delivery.__exit__(kind, error, trace)

    def send(self, batch: pa.RecordBatch) -> None:
        """Delivers the next rows.

        Raises:
            HeadraceError: The sink cannot accept them, or was unavailable until the timeout.
        """
        sound, failed = divided(batch)
        if failed.num_rows:
            self._failed.append(failed)
        if sound.num_rows:
            self._delivery.send(sound)

    def finish(self) -> Written:
        """Waits until the sink has staged the rows.

        Raises:
            HeadraceError: The sink cannot accept them, or was unavailable until the timeout.
        """
        messages = self._delivery.spool.messages
        if not messages and not self._failed.messages:
            return Written()
        refused = tuple((r.sequence, r.reason) for r in self._delivery.finish()) if messages else ()
        dead_attempt = (
            self.handle_refused(refused, self._task, self._delivery.spool) if refused or self._failed.messages else None
        )
        return Written(self._task, self._delivery.attempt if messages else None, messages, refused, dead_attempt)

    def handle_refused(self, refused: Refused, task: Task, spool: Spool) -> Attempt | None:
        """Handles rejected messages according to the options; returns the attempt at the dead-letter sink, if there is one.

        Raises:
            HeadraceError: The options require the query to fail, or the dead-letter sink cannot accept the messages.
        """
        options = self._options.for_dead_letters()
        if options is not None:
            return self._deliver_dead_letters(refused, task, spool, options)
        if self._failed.messages:
            self._log_undecoded(task)
        if refused and not self._options.skip_refused:
            place, reason = refused[0]
            raise SinkRefused(
                f"sink {self._options.sink} rejected {counted(len(refused), 'message')} of batch {task.batch}; the first one is "
                f"row {place} of partition {task.partition}: {reason}. Correct them in the query, set the option "
                "deadLetters to a sink for them, or set onRefused to skip"
            )
        if refused:
            self._log_skipped(refused, task)
        return None

    def _deliver_dead_letters(self, refused: Refused, task: Task, spool: Spool, options: SinkOptions) -> Attempt:
        """Delivers refused messages to the dead-letter sink, in the transaction of the others; returns the attempt."""
        reasons = iter([reason for _, reason in refused])
        with Delivery(options, self._connection, task.transaction, task.partition, task.run_id, task.run_number) as delivery:
            for rows in spool.pick([place for place, _ in refused]):
                of_these = list(itertools.islice(reasons, rows.num_rows))
                delivery.send(dead_letters(rows, of_these, self._options.sink, task.batch))
            for rows in self._failed:
                delivery.send(dead_letters(rows, rows.column(ERROR).to_pylist(), self._options.sink, task.batch))
            again = delivery.finish()
            if again:
                raise SinkRefused(
                    f"dead-letter sink {options.sink} rejected {counted(len(again), 'message')} of sink {self._options.sink}: "
                    f"{again[0].reason}. A dead-letter sink must accept all messages"
                )
            return delivery.attempt

    def _log_undecoded(self, task: Task) -> None:
        first = next(iter(self._failed)).column(ERROR)[0].as_py()
        log.warning(
            "batch %d, partition %d: skipped %s that could not be decoded, the first because: %s",
            task.batch,
            task.partition,
            counted(self._failed.messages, "message"),
            first,
            extra={"sink": self._options.sink, "batch": task.batch, "partition": task.partition},
        )

    def _log_skipped(self, refused: Refused, task: Task) -> None:
        shown = "; ".join(f"{place}: {reason}" for place, reason in refused[:_SHOWN])
        more = "" if len(refused) <= _SHOWN else "; ..."
        log.warning(
            "sink %s rejected %s of batch %d, partition %d; skipped: %s%s",
            self._options.sink,
            counted(len(refused), "message"),
            task.batch,
            task.partition,
            shown,
            more,
            extra={"sink": self._options.sink, "batch": task.batch, "partition": task.partition},
        )


def this_task() -> Task:
    """The task that this worker process runs.

    Raises:
        HeadraceError: The task does not belong to a streaming query, or its query is not monitored.
    """
    freeze_modules()
    context = TaskContext.get()
    names = (QUERY, RUN, BATCH, RUN_NUMBER)
    query, run, batch, number = (context.getLocalProperty(name) if context is not None else None for name in names)
    if context is None or query is None or run is None or batch is None:
        raise HeadraceError("only streaming queries can write to sinks; use df.writeStream")
    if number is None:
        raise HeadraceError("the driver does not monitor this query, so its run has no number; restart the query")
    return Task(query, run, int(batch), context.partitionId(), int(number))
