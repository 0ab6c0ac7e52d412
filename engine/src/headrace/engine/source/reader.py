"""The reader that Spark calls: planning in one planner process, reading in executors, small batches in the planner."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from headrace.engine.codec import Columns, record_batches
from headrace.engine.collector import freeze_modules
from headrace.engine.source.fetch import fetch
from headrace.engine.source.options import Options
from headrace.engine.source.planner import Planner
from headrace.engine.source.ranges import NO_ENDS, Ends, Range
from headrace.engine.wire.connection import Connection
from headrace.engine.wire.retry import Retry
from headrace.logs.output import configure_from_environment
from headrace.protocol.v1 import engine_pb2 as pb

try:
    # Spark accepts record batches from the planner only for this private class. Without it, executors read every batch.
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _PrefetchingReader
except ImportError:  # pragma: no cover
    _PrefetchingReader = None  # type: ignore[assignment, misc]

MAX_PAUSE_S = 1.0

ToRows = Callable[..., Iterator[pa.RecordBatch]]
"""Converts messages to Spark's rows. `now` is when they were planned, if a step needs it."""
EndsToRows = Callable[[Ends], Iterator[pa.RecordBatch]]
"""Makes the rows for streams that end or are forgotten."""


class ReadTask(InputPartition):
    """What one Spark task reads, as protobuf bytes: pickling a thousand ranges takes longer than reading them."""

    def __init__(
        self, pipeline: pb.Pipeline, ranges: Sequence[Range], ends: Ends = NO_ENDS, planned_at: int | None = None
    ) -> None:
        self.ends, self.planned_at = ends, planned_at
        self._request = pb.FetchRequest(pipeline=pipeline, ranges=[r.to_proto() for r in ranges]).SerializeToString()

    @property
    def request(self) -> pb.FetchRequest:
        """The pipeline and the ranges."""
        return pb.FetchRequest.FromString(self._request)

    def __repr__(self) -> str:
        return f"ReadTask({self.request.pipeline.name}, {len(self.request.ranges)} ranges)"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams of a gateway. Spark pickles it for executors, so the planner is created on first use."""

    def __init__(self, options: Options, to_rows: ToRows = record_batches, ends_to_rows: EndsToRows | None = None) -> None:
        self._options = options
        self._to_rows = to_rows
        self._ends_to_rows = ends_to_rows
        self._connection = Connection.of(options)
        self._planner: Planner | None = None

    @property
    def planner(self) -> Planner:
        """The planner, in the one process where Spark plans."""
        if self._planner is None:
            # Spark does not start the process of the planner with Headrace's daemon.
            configure_from_environment()
            self._planner = self._new_planner()
            # Spark ends the planner process with SIGTERM, and calls stop() only on a regular exit.
            signal.signal(signal.SIGTERM, _exit)
        return self._planner

    def _new_planner(self) -> Planner:
        return Planner(self._options, self._connection)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch. Spark calls this once for a checkpoint."""
        return self.planner.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of each batch. Spark calls this once for each run."""
        return self.planner.read_limit()

    def prepareForTriggerAvailableNow(self) -> None:
        """Prepares a bounded run. Spark calls this first with trigger(availableNow=True)."""
        self.planner.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch may end. Spark polls this; `start` is committed."""
        return self.planner.latest_offset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One partition for each task of a batch."""
        if start == end:
            return []
        return self._tasks(start, end, self.planner.plan_reads(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task, as record batches. Spark calls this in executors."""
        freeze_modules()
        task = cast(ReadTask, partition)
        request = task.request
        ranges = [Range.from_proto(wire) for wire in request.ranges]
        retry = Retry(self._options.gateway_timeout_s, MAX_PAUSE_S, fields={"pipeline": request.pipeline.name})
        yield from self._rows(fetch(self._connection, request.pipeline, ranges, retry), task.ends, task.planned_at)

    def _tasks(self, start: dict[str, Any], end: dict[str, Any], lists: Sequence[Sequence[Range]]) -> list[ReadTask]:
        """A task for each list of ranges. The last one also emits what ends with the batch."""
        pipeline, ends = self.planner.pipeline_run.to_proto(self._options), self._ends(start, end)
        planned_at = self.planner.planned_at(end)
        given = lists or [[]] * bool(ends)
        last = len(given) - 1
        return [ReadTask(pipeline, some, ends if at == last else NO_ENDS, planned_at) for at, some in enumerate(given)]

    def _ends(self, start: dict[str, Any], end: dict[str, Any]) -> Ends:
        return NO_ENDS if self._ends_to_rows is None else self.planner.ends(start, end)

    def _rows(self, frames: Iterable[Columns], ends: Ends, planned_at: int | None) -> Iterator[pa.RecordBatch]:
        yield from self._to_rows(frames) if planned_at is None else self._to_rows(frames, now=planned_at)
        if ends and self._ends_to_rows is not None:
            yield from self._ends_to_rows(ends)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing.

        Spark calls this only when it builds the next batch with data, and a source that waits for an acknowledgement may send
        no such data. `latestOffset` acknowledges commits earlier.
        """

    def stop(self) -> None:
        """Detaches the planner from the gateway. Spark calls this when the planner ends."""
        if self._planner is not None:
            # Spark closes the planner's socket and then sends SIGTERM, which must not interrupt the detaching.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._planner.stop()


def _exit(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


if _PrefetchingReader is None:  # pragma: no cover
    Reader = StreamReader
else:

    class PrefetchingReader(StreamReader, _PrefetchingReader):
        """Passes small batches to Spark from the planner, which saves a Python worker for each task.

        It inherits from the private class only for its type, which Spark checks.
        """

        def __init__(self, options: Options, to_rows: ToRows = record_batches, ends_to_rows: EndsToRows | None = None) -> None:
            StreamReader.__init__(self, options, to_rows, ends_to_rows)
            # Where Spark looks for `prepareForTriggerAvailableNow`.
            self.simple_reader = self  # type: ignore[assignment]
            self._inline: Iterator[pa.RecordBatch] | None = None

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            """One partition for each task of a batch; exactly one, as Spark requires, if the planner has fetched the batch."""
            self._inline = None
            if start == end:
                return []
            lists = self.planner.plan_reads(start, end)
            frames = self.planner.read_inline(start, end, lists)
            if frames is not None:
                self._inline = self._rows(frames, self._ends(start, end), self.planner.planned_at(end))
            return self._tasks(start, end, lists)

        def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
            """The batch that the planner has fetched, if any. Spark calls this right after `partitions`, for the same batch."""
            inline, self._inline = self._inline, None
            return inline

    Reader = PrefetchingReader  # type: ignore[misc]
