"""The reader and the planner of a query in real-time mode: the worker decides where a micro-batch ends."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from headrace.engine._errors import CheckpointError, GatewayError
from headrace.engine.applications.real_time.service import ServedWorker
from headrace.engine.applications.real_time.worker import Reached
from headrace.engine.applications.stages.plan import BlockRow
from headrace.engine.applications.stages.source_stage import batches_of
from headrace.engine.checkpoint.position import Offset, Position
from headrace.engine.source.options import Options
from headrace.engine.source.planner import Planner
from headrace.engine.source.reader import PrefetchingReader
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb


class ProcessedTask(InputPartition):
    """A task whose messages were processed before it was planned."""

    def __repr__(self) -> str:
        return "ProcessedTask()"


class RealTimeReader(PrefetchingReader):
    """Passes to Spark what the worker has done."""

    def _new_planner(self) -> "RealTimePlanner":
        return RealTimePlanner(self._options, self._connection)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The one task of a micro-batch that the worker has processed; the tasks of one that is repeated."""
        planner = self.planner
        assert isinstance(planner, RealTimePlanner)
        rows = planner.processed(start, end)
        if rows is None:
            return super().partitions(start, end)
        self._inline = batches_of(rows)
        return [ProcessedTask(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task of a micro-batch that is repeated.

        Raises:
            CheckpointError: Spark has lost what the worker has done.
        """
        if isinstance(partition, ProcessedTask):
            raise CheckpointError("Spark has lost the result of a micro-batch in real-time mode; the next run repeats it")
        yield from super().read(partition)


class RealTimePlanner(Planner):
    """Plans micro-batches that end where the worker is."""

    def __init__(self, options: Options, connection: Connection) -> None:
        super().__init__(options, connection)
        assert options.real_time is not None, "the option has the path of the worker's socket"
        self._worker = ServedWorker(options.real_time)
        self._has_begun = self._is_paused = False
        self._is_new = True
        self._rows: list[BlockRow] | None = None
        """The rows of the last micro-batch."""

    def latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As `Planner.latest_offset`; the micro-batch ends where the worker is."""
        end = super().latest_offset(start, limit)
        if self._is_paused:
            self._is_paused = False
            if end == start:
                self._worker.resume()
            else:
                self._rows = self._worker.close(self.ends(start, end))
        return end

    def processed(self, start: dict[str, Any], end: dict[str, Any]) -> list[BlockRow] | None:
        """The rows of a micro-batch; None if another run has planned it."""
        return self._rows if self._rows is not None and start != end and self._planned_here(start, end) else None

    def _ticks(self, offset: Offset, response: pb.PlanResponse) -> bool:
        """As `Planner._ticks`; never where the worker has not stopped."""
        return self._is_paused and super()._ticks(offset, response)

    def _plan(self, offset: Offset, limit: ReadLimit) -> pb.PlanResponse | None:
        response = super()._plan(offset, limit)
        if response is None or response.sinks_away:
            return response
        if offset.run_number is None and self._is_new:
            # Spark runs the first micro-batch of a checkpoint even if it has no messages, so it is an ordinary one.
            self._is_new = False
            return response
        if not self._has_begun:
            self._worker.begin(self.pipeline_run.to_proto(self._options).SerializeToString())
            self._has_begun = True
        begun = _followed(offset, response)
        followed = {name: at for name, at in begun.items() if not self._bootstraps.holds(name, offset)}
        reached = self._worker.pause(followed, offset.awaited | set(response.opened))
        if reached is None:
            return pb.PlanResponse(streams_away=response.streams_away)
        self._is_paused = True
        return _ended_where_reached(response, {name: _since(begun.get(name), at) for name, at in reached.items()})


def _followed(offset: Offset, response: pb.PlanResponse) -> dict[str, Position | None]:
    """The streams to follow, each with the position after which it is read.

    Raises:
        GatewayError: A stream is redelivering.
    """
    found: dict[str, Position | None] = dict(offset.streams)
    for each in response.ranges:
        if each.end.epoch:
            raise GatewayError(
                f"stream {each.stream}: its source delivers messages again under new sequences, and real-time mode needs "
                "replayable sources; run the application without it"
            )
        if each.start:
            found[each.stream] = Position.from_proto(each.end)
        else:
            found.setdefault(each.stream, None)
    return found


def _since(before: Position | None, reached: Reached) -> Reached:
    """How far the worker is, with the cursor of the last micro-batch if none has come since."""
    return reached if before is None else replace(reached, position=reached.position.with_cursor_of(before))


def _ended_where_reached(response: pb.PlanResponse, reached: dict[str, Reached]) -> pb.PlanResponse:
    """The response, with the ranges that the worker has processed instead of the ranges that the gateway has planned."""
    ends = {each.stream: each.end.sequence for each in response.ranges if each.ended}
    ranges = [each for each in response.ranges if each.start]
    # Those of streams that end, or whose cursor moves.
    ranges += (each for each in response.ranges if not (each.start or each.messages) and each.stream not in reached)
    ranges += (
        pb.PlannedRange(
            stream=stream,
            end=at.position.to_proto(),
            messages=at.messages,
            ended=ends.get(stream) == at.position.sequence,
        )
        for stream, at in reached.items()
    )
    is_behind = any(
        each.stream not in reached or reached[each.stream].position.sequence < each.end.sequence
        for each in response.ranges
        if each.messages
    )
    # Event time waits for streams whose first messages the worker has yet to process.
    there = {each.stream for each in ranges}
    return pb.PlanResponse(
        ranges=ranges,
        all_ended=response.all_ended and not is_behind,
        forgotten=response.forgotten,
        opened=[*response.opened, *(each.stream for each in response.ranges if each.stream not in there)],
        ended_unread=response.ended_unread,
        streams_away=response.streams_away,
        bootstrapped=() if is_behind else response.bootstrapped,
    )
