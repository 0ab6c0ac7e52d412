"""Plans micro-batches: acknowledges what is committed, and asks the gateway how far the next batch may read."""

import json
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import grpc
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from headrace.engine._errors import CheckpointError, FrameError, GatewayAway, GatewayError, NotAttached
from headrace.engine.checkpoint.position import Offset, Position, ended, left_out, moved, to_stream_positions
from headrace.engine.codec import Columns
from headrace.engine.source.bootstraps import Bootstraps
from headrace.engine.source.confirmation import Confirmation
from headrace.engine.source.fetch import PipelineRun, fetch_once
from headrace.engine.source.missing_connectors import MAX_PAUSE_S, MissingConnectors, sinks_away
from headrace.engine.source.options import Options
from headrace.engine.source.parallelism import Parallelism
from headrace.engine.source.present import PresentClock
from headrace.engine.source.ranges import Ends, Range, begins_of, ranges_of, split
from headrace.engine.source.running_clock import RunningClock
from headrace.engine.wire.connection import Connection, to_error
from headrace.engine.wire.lease import LeaseRenewal
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import engine_pb2 as pb

PLAN_WAIT_MS = 100
CALL_TIMEOUT_S = 5.0
INLINE_TIMEOUT_S = 2.0
DETACH_TIMEOUT_S = 1.0
MAX_WAIT_FOR_SINKS_S = 60.0
"""The longest time, in seconds, that a planned batch waits for its sinks: Spark cannot stop the query during this time."""

log = logging.getLogger("headrace.engine")


class Planner:
    """Plans for one run of a query, in Spark's planner process, which calls it from one thread.

    Spark calls `latest_offset(start)` only after the batch that ended at `start` is in the commit log, and polls it while the
    query is idle: `start` proves that the batch is committed, and everything up to it is acknowledged.
    """

    def __init__(self, options: Options, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self._name = options.pipeline
        self._fields: dict[str, object] = {"pipeline": self._name}
        """The fields of log lines about the query."""
        self._run: PipelineRun | None = None
        """Known after Spark's first call with an offset of the checkpoint."""
        self._available_now = False
        self._attached = False
        self._committed: dict[str, Position] = {}
        """The committed positions that the gateway knows."""
        self._initial: dict[str, Any] | None = None
        self._last_start: dict[str, Any] | None = None
        self._last_end: dict[str, Any] | None = None
        self._read_end: dict[str, Any] | None = None
        """Where the last batch ends that this run has planned and read: nobody has read it otherwise if it is committed."""
        self._calls = 0
        """How many times it has called Plan."""
        self._answered = 0
        """The last of these calls that was answered since it has attached."""
        self._parsed: list[tuple[dict[str, Any], Offset]] = []
        """The last offsets: with many streams, parsing them again takes longer than comparing the documents."""
        self._sizes: dict[str, int] = {}
        """The size of each range of the last planned batch, in bytes."""
        self._parallelism = Parallelism(options.read_tasks, options.interval_s)
        self._retry = Retry(options.gateway_timeout_s, MAX_PAUSE_S, fields=self._fields)
        self._bootstraps = Bootstraps(options.bootstraps, self._fields)
        self._missing_connectors = MissingConnectors(options, self._fields)
        self._clock = RunningClock(options.tick_s, options.interval_s)
        self._present = PresentClock(self._fields)
        self._confirmation = Confirmation()
        self._lease = LeaseRenewal(connection, lambda: self.pipeline_run.to_proto(options))

    def initial_offset(self) -> dict[str, Any]:
        """The offset before all messages. The first batch fixes the pipeline's name for the life of the checkpoint."""
        if self._options.resume_at is not None:
            return dict(json.loads(self._options.resume_at))
        name = self._options.pipeline or f"pipeline-{uuid.uuid4().hex[:12]}"
        self._initial = Offset(name, {}, checkpoint=uuid.uuid4().hex).to_json()
        return self._initial

    def prepare_available_now(self) -> None:
        """Makes this a bounded run, which ends once it has read everything that exists now."""
        self._available_now = True

    def read_limit(self) -> ReadLimit:
        """The limit that Spark passes to `latest_offset`. Spark supports only one; `latest_offset` applies the other one too."""
        if self._options.max_messages is not None:
            return ReadMaxRows(self._options.max_messages)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Acknowledges everything up to `start`, and returns how far the next batch may read; `start` if there is nothing new.

        Returns soon even if the gateway is unavailable: Spark calls again.

        Raises:
            CheckpointError: `start` is not where the last batch ended.
            GatewayError: The gateway rejected a call, it, a sink or a stream was unavailable until the timeout, or a source
                lost messages.
        """
        if self._options.resume_at is not None:
            return start
        self._check_start(start)
        if start == self._last_end:
            self._parallelism.end()
        offset = self._offset(start)
        if start != self._read_end:
            offset = offset.taken_as_unread()
        self._last_start, self._last_end, self._sizes = start, start, {}
        self._confirmation.look(start)
        while True:
            response = self._plan(offset, limit)
            self._clock.look(is_complete=response is not None and not (response.sinks_away or response.streams_away))
            if response is not None:
                self._bootstraps.note(response, offset)
                self._missing_connectors.note(response, awaits_streams=self._available_now)
            if response is not None and (
                response.ranges
                or self._finishes(offset, response)
                or self._forgets(offset, response)
                or self._ticks(offset, response)
                or self._confirms(offset, response)
            ):
                break
            # A bounded run must not report "nothing new" before the gateway has planned everything.
            if not self._available_now or (response is not None and response.exhausted):
                return start
        self._sizes = {r.stream: r.bytes for r in response.ranges}
        moved_to = {r.stream: Position.from_proto(r.end, start=r.start, ended=r.ended) for r in response.ranges}
        finishes = self._finishes(offset, response)
        forgotten = self._forgets(offset, response)
        known = offset.taken_as_read().streams
        streams = {name: position for name, position in {**known, **moved_to}.items() if name not in forgotten}
        awaited = (offset.awaited | set(response.opened)) - set(response.ended_unread) - streams.keys()
        # A batch that only forgets streams contains nothing new.
        finished = finishes or (offset.finished and not response.ranges)
        end = self._ended(offset, streams=streams, finish=offset.finish + finishes, finished=finished, awaited=awaited)
        return self._note(start, offset, end)

    def _ended(self, offset: Offset, **changes: Any) -> Offset:
        """The offset at which a batch of this run ends that begins at another one."""
        run = self.pipeline_run
        present: dict[str, int | None] = {"planned_at": None, "wall_at": None}
        if self._options.asks_for_present:
            now, wall = self._present.now(offset.planned_at)
            # The application did not ask for the present time when the checkpoint began.
            began_at = offset.began_at if offset.began_at is not None else 0 if offset.streams else now
            present = {"planned_at": now, "wall_at": None if wall == now else wall, "began_at": began_at}
        if self._clock.is_needed:
            present["clock"] = (offset.clock or 0) + self._clock.take()
        changes["bootstrapped"] = self._bootstraps.done(offset)
        changes |= {"run_number": run.number, "run_id": run.run_id, "checkpoint": run.checkpoint, **present}
        return replace(offset, **changes)

    def _note(self, start: dict[str, Any], offset: Offset, end: Offset) -> dict[str, Any]:
        """Remembers the batch that was planned last; returns where it ends."""
        self._last_start, self._last_end = start, end.to_json()
        self._parsed = [(start, offset), (self._last_end, end)]
        return self._last_end

    def _finishes(self, offset: Offset, response: pb.PlanResponse) -> bool:
        """Whether event time ends with a batch: all streams have ended, and messages have arrived since it last ended."""
        wanted = self._available_now if self._options.finish is None else self._options.finish
        news = any(r.messages for r in response.ranges) or not offset.finished
        return self._keeps_ends and wanted and response.all_ended and news and bool(response.ranges or offset.streams)

    def _ticks(self, offset: Offset, response: pb.PlanResponse) -> bool:
        """Whether a batch without messages is due, by which event time of quiet streams advances."""
        is_complete = not (response.sinks_away or response.streams_away)
        return self._clock.is_due and is_complete and bool(offset.streams) and not self._available_now

    def _confirms(self, offset: Offset, response: pb.PlanResponse) -> bool:
        """Whether a batch without messages is due that records that the last one was read as it was planned."""
        if offset.is_read:
            return False
        return response.exhausted if self._available_now else self._confirmation.is_due

    def _forgets(self, offset: Offset, response: pb.PlanResponse) -> set[str]:
        """The streams that the next offset omits."""
        return offset.streams.keys() & set(response.forgotten) - {r.stream for r in response.ranges}

    @property
    def _keeps_ends(self) -> bool:
        """Whether the end of a stream matters: it does for the event time of an application."""
        return self._options.application is not None

    def _await_sinks(self) -> None:
        """Waits until the query's sinks have connectors, so that the batch's tasks do not occupy slots while they wait.

        Raises:
            SinkAway: A sink had no connector until the timeout.
        """
        timeout_s = min(self._options.gateway_timeout_s, MAX_WAIT_FOR_SINKS_S)
        deadline = time.monotonic() + timeout_s
        request = pb.AwaitSinksRequest(pipeline=self.pipeline_run.to_proto(self._options), wait_ms=int(timeout_s * 1000))
        stub = self._connection.stub()
        try:
            response = stub.AwaitSinks(request, timeout=timeout_s + CALL_TIMEOUT_S, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            # Each task also waits for the gateway and the sink.
            why = to_error(error, self._connection)
            log.warning("cannot wait for the query's sinks before its tasks: %s", why, extra=self._fields)
            return
        if response.away and time.monotonic() >= deadline:
            raise sinks_away(response.away)

    def _check_start(self, start: dict[str, Any]) -> None:
        known = (self._last_start, self._last_end)
        if self._last_start is not None and start not in known:
            raise CheckpointError(
                "Spark asked for a batch from an offset at which no batch of this run ended; nothing was acknowledged for it. "
                f"It asked from {Offset.from_json(start).streams}, the last batch ended at "
                f"{Offset.from_json(self._last_end).streams}"
            )

    def _offset(self, document: dict[str, Any]) -> Offset:
        for known, offset in self._parsed:
            if document == known:
                return offset
        offset = Offset.from_json(document)
        self._name = self._fields["pipeline"] = self._name or offset.pipeline
        if offset.pipeline != self._name and document != self._initial:
            raise CheckpointError(
                f"option pipeline is {self._name!r}, but the checkpoint belongs to pipeline {offset.pipeline!r}; "
                "remove the option or use a new checkpointLocation"
            )
        if self._run is None:
            self._run = PipelineRun(self._name, (offset.run_number or 0) + 1, uuid.uuid4().hex, offset.checkpoint)
        return offset

    def _plan(self, offset: Offset, limit: ReadLimit) -> pb.PlanResponse | None:
        """The gateway's response; None, after a pause, if the gateway is unavailable."""
        try:
            try:
                self._attach(offset.streams, {})
                response = self._call_plan(offset, limit)
            except NotAttached:
                self._attached = False
                self._attach(offset.streams, {})
                response = self._call_plan(offset, limit)
        except NotAttached as error:
            # Another gateway has answered, or the gateway has restarted again.
            self._attached = False
            self._retry.wait(GatewayAway(str(error)))
            return None
        except GatewayAway as away:
            self._retry.wait(away)
            return None
        self._retry.reset()
        return response

    def _call_plan(self, offset: Offset, limit: ReadLimit) -> pb.PlanResponse:
        max_messages, max_bytes = self._limits(limit)
        self._calls += 1
        news = moved(offset.streams, self._committed)
        request = pb.PlanRequest(
            pipeline=self.pipeline_run.to_proto(self._options),
            committed=to_stream_positions(news),
            ended=ended(news),
            forgotten=to_stream_positions(left_out(offset.streams, self._committed)),
            awaits_streams=not self._options.accept_away if self._available_now else self._clock.is_needed,
            tell_ends=self._keeps_ends,
            awaited=sorted(offset.awaited),
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=PLAN_WAIT_MS,
            number=self._calls,
            follows=self._answered,
            bootstraps=[table.to_proto() for table in self._bootstraps.pending(offset)],
        )
        try:
            response = self._connection.stub().Plan(
                request, timeout=CALL_TIMEOUT_S + PLAN_WAIT_MS / 1000, metadata=self._connection.metadata
            )
        except grpc.RpcError as error:
            raise to_error(error, self._connection) from None
        self._committed, self._answered = dict(offset.streams), self._calls
        return response

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxBytes):
            return self._options.max_messages, limit.max_bytes
        return None, None

    def _attach(self, committed: Mapping[str, Position], planned: Mapping[str, Position]) -> None:
        if self._attached:
            return
        # A gateway that knows a lower number learns from it that the run was at another one meanwhile.
        self._run = replace(self.pipeline_run, attachment=self.pipeline_run.attachment + 1)
        request = pb.AttachRequest(
            pipeline=self.pipeline_run.to_proto(self._options),
            committed=to_stream_positions(committed),
            ended=ended(committed),
            planned=to_stream_positions(planned),
            available_now=self._available_now,
        )
        try:
            response = self._connection.stub().Attach(request, timeout=CALL_TIMEOUT_S, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            raise to_error(error, self._connection) from None
        self._attached, self._committed, self._answered = True, dict(committed), 0
        self._lease.start(response.lease_ms)

    @property
    def pipeline_run(self) -> PipelineRun:
        """The pipeline and its run that this planner plans for."""
        assert self._run is not None, "Spark's first call gives an offset, which has the pipeline and the last run"
        return self._run

    def plan_reads(self, start: dict[str, Any], end: dict[str, Any]) -> list[list[Range]]:
        """Divides a batch into one list of ranges for each task.

        If an earlier run planned the batch and did not commit it, the gateway is informed that it is read again.
        """
        # The end first: if batch 0 is read again, Spark has requested a new initial offset, and only the end has the name.
        finish, begin = self._offset(end), self._offset(start)
        is_planned_here = self._planned_here(start, end)
        ranges = ranges_of(begin.streams, finish.streams, as_planned=is_planned_here)
        self._read_end = end if is_planned_here else None
        if not is_planned_here or not begin.streams:
            # When the gateway planned a query's first batch, it did not know the query's sinks yet.
            self._await_sinks()
        if is_planned_here:
            weights = [max(1, self._sizes.get(r.stream, 1)) for r in ranges]
            tasks = self._parallelism.tasks(sum(weights))
            self._parallelism.begin(sum(weights), tasks)
            return split(ranges, weights, tasks)
        self._announce_replay(begin, finish)
        return split(ranges, [max(1, r.end.sequence - r.low) for r in ranges], self._options.read_tasks)

    def ends(self, start: dict[str, Any], end: dict[str, Any]) -> Ends:
        """The streams that open and end with a batch; the same if the batch is read again."""
        finish, begin = self._offset(end), self._offset(start)
        begins, ends_here = begins_of(begin.streams, finish.streams), finish.streams
        if not self._planned_here(start, end):
            # What ends with a range that is given up ends later.
            ends_here = finish.taken_as_unread().streams
        known = set(ended(begins))
        names = tuple(name for name in ended(ends_here) if name not in known)
        forgotten = tuple(left_out(finish.streams, begin.streams))
        before, after = begin.streams.keys() | begin.awaited, finish.streams.keys() | finish.awaited
        names += tuple(sorted(begin.awaited - after))
        opened = tuple(sorted(after - before))
        elapsed = 0 if finish.planned_at is None or finish.began_at is None else max(0, finish.planned_at - finish.began_at)
        # With every batch: a level that a later version adds has not heard of it.
        read = finish.bootstrapped
        return Ends(names, finish.finish != begin.finish, forgotten, opened, elapsed, finish.clock, finish.planned_at, read)

    def planned_at(self, end: dict[str, Any]) -> int | None:
        """The machine's clock when a batch was planned, in microseconds since 1970; None if no step needs it.

        It is the same if the batch is read again. A clock that once was wrong does not permit event times that are.
        """
        offset = self._offset(end)
        return offset.planned_at if offset.wall_at is None else offset.wall_at

    def _planned_here(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        # For the first batch, Spark has requested the initial offset once more, which differs by the checkpoint's id.
        last = self._last_start
        return end == self._last_end and last is not None and start["streams"] == last["streams"]

    def _announce_replay(self, start: Offset, end: Offset) -> None:
        try:
            begins = begins_of(start.streams, end.streams)
            self._attach(begins, moved(end.taken_as_unread().streams, begins))
        except GatewayError as error:
            # Each task also sends its ranges to the gateway, and waits for it.
            log.warning("cannot announce a batch that is read again: %s", error, extra=self._fields)

    def read_inline(self, start: dict[str, Any], end: dict[str, Any], lists: list[list[Range]]) -> list[Columns] | None:
        """The messages of a small batch, fetched by the planner; None if executors should read it.

        For a small batch, this is cheaper than a Python worker for each task.
        """
        small = self._options.inline_bytes > 0 and sum(self._sizes.values()) <= self._options.inline_bytes
        if not small or len(lists) != 1 or start == end or not self._planned_here(start, end):
            return None
        try:
            return fetch_once(self._connection, self.pipeline_run.to_proto(self._options), lists[0], INLINE_TIMEOUT_S)
        except (GatewayError, FrameError) as error:
            log.warning("executors read a small batch, which the planner could not fetch: %s", error, extra=self._fields)
            return None

    def stop(self) -> None:
        """Detaches this run from the gateway. Commits and acknowledgements remain."""
        self._lease.stop()
        if not self._attached:
            return
        self._attached = False
        request = pb.DetachRequest(pipeline=self.pipeline_run.to_proto(self._options))
        try:
            self._connection.stub().Detach(request, timeout=DETACH_TIMEOUT_S, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            log.info("could not detach from the gateway: %s", to_error(error, self._connection), extra=self._fields)
