"""The reader that Spark calls: planning in one planner process, reading in executors, small batches in the planner."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from headrace.engine._collector import freeze_modules
from headrace.engine._connection import Connection
from headrace.engine._decode import Columns, record_batches
from headrace.engine._fetch import fetch
from headrace.engine._options import Options
from headrace.engine._patience import Patience
from headrace.engine._planner import Planner
from headrace.engine._ranges import NO_ENDS, Ends, Range
from headrace.protocol.v1 import engine_pb2 as pb

try:
    # Spark takes record batches from the planner only of this private class. Without it, executors read every batch.
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _PrefetchingReader
except ImportError:  # pragma: no cover
    _PrefetchingReader = None  # type: ignore[assignment, misc]

LONGEST_PAUSE_S = 1.0

ToRows = Callable[..., Iterator[pa.RecordBatch]]
"""Makes the rows of messages that Spark gets; with the time as `now`, where that is asked for, at which they were planned."""
EndsToRows = Callable[[Ends], Iterator[pa.RecordBatch]]
"""Makes the rows that tell of the end of streams."""


class ReadTask(InputPartition):
    """What one Spark task reads, as wire bytes: to pickle a thousand ranges takes longer than to read them."""

    def __init__(
        self, pipeline: pb.Pipeline, ranges: Sequence[Range], ends: Ends = NO_ENDS, planned_at: int | None = None
    ) -> None:
        self.ends, self.planned_at = ends, planned_at
        self._request = pb.FetchRequest(pipeline=pipeline, ranges=[r.to_proto() for r in ranges]).SerializeToString()

    @property
    def request(self) -> pb.FetchRequest:
        """Who reads, and what."""
        return pb.FetchRequest.FromString(self._request)

    def __repr__(self) -> str:
        return f"ReadTask({self.request.pipeline.name}, {len(self.request.ranges)} ranges)"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams of a gateway. Spark pickles it to executors, so that the planner is made where it is first needed."""

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
            self._planner = Planner(self._options, self._connection)
            # Spark ends the planner with SIGTERM and calls stop() only on an orderly exit.
            signal.signal(signal.SIGTERM, _exit)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Spark asks once in the life of a checkpoint."""
        return self.planner.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark asks once for each run."""
        return self.planner.read_limit()

    def prepareForTriggerAvailableNow(self) -> None:
        """Spark calls it first in a run with trigger(availableNow=True)."""
        self.planner.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Spark polls it; `start` is committed."""
        return self.planner.latest_offset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One partition for each task of a batch."""
        if start == end:
            return []
        return self._tasks(start, end, self.planner.plan_reads(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in executors: the messages of one task."""
        freeze_modules()
        task = cast(ReadTask, partition)
        request = task.request
        ranges = [Range.from_proto(wire) for wire in request.ranges]
        patience = Patience(self._options.gateway_timeout_s, LONGEST_PAUSE_S)
        yield from self._rows(fetch(self._connection, request.pipeline, ranges, patience), task.ends, task.planned_at)

    def _tasks(self, start: dict[str, Any], end: dict[str, Any], lists: Sequence[Sequence[Range]]) -> list[ReadTask]:
        """A task for each list of ranges; the last one tells what ends with the batch."""
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

        Spark calls it only while it builds the next batch with data, and a source that waits for its acknowledgement sends no
        such data. `latestOffset` learns of every commit at once.
        """

    def stop(self) -> None:
        """Spark calls it when the planner ends."""
        if self._planner is not None:
            # Spark closes the planner's socket and then signals; the second must not cut the leave-taking short.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._planner.stop()


def _exit(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


if _PrefetchingReader is None:  # pragma: no cover
    Reader = StreamReader
else:

    class PrefetchingReader(StreamReader, _PrefetchingReader):
        """Hands small batches to Spark from the planner, which saves starting a task's Python worker.

        Of the private class it keeps nothing but the type, which Spark's planner looks for.
        """

        def __init__(self, options: Options, to_rows: ToRows = record_batches, ends_to_rows: EndsToRows | None = None) -> None:
            StreamReader.__init__(self, options, to_rows, ends_to_rows)
            # Where Spark looks for `prepareForTriggerAvailableNow`.
            self.simple_reader = self  # type: ignore[assignment]
            self._inline: Iterator[pa.RecordBatch] | None = None

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            """One partition for each task of a batch; exactly one, as Spark demands, where the batch is here already."""
            self._inline = None
            if start == end:
                return []
            lists = self.planner.plan_reads(start, end)
            frames = self.planner.read_inline(start, end, lists)
            if frames is not None:
                self._inline = self._rows(frames, self._ends(start, end), self.planner.planned_at(end))
            return self._tasks(start, end, lists)

        def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
            """Spark calls it right after `partitions`, for the same batch."""
            inline, self._inline = self._inline, None
            return inline

    Reader = PrefetchingReader  # type: ignore[misc]
