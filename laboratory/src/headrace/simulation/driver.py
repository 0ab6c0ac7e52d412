"""A model of Spark's driver: one run of a query, from its announcement to its end.

Of the engine, it contains the real `RunLog`, `Votes`, offsets and division into tasks; what calls the gateway is modelled after
`headrace.engine.spark.listener` and `headrace.engine.spark.reporting`, which run in threads.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import grpc

from headrace.contract.errors import HeadraceError
from headrace.engine.checkpoint.position import Offset, to_stream_positions
from headrace.engine.checkpoint.runs import Run, RunLog, Segment, covering, extended
from headrace.engine.checkpoint.votes import Votes
from headrace.engine.source.ranges import Range, split
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import sink_pb2
from headrace.simulation.calls import CallFailed, ask
from headrace.simulation.checkpoint import Commit
from headrace.simulation.engine import Engine, QueryFailed, Retry
from headrace.simulation.planner import Planner
from headrace.simulation.tasks import Result, Task, Tasks, check_sink

CALL_TIMEOUT_S = 2.0
INTERVAL_S = 1.0
LAST_INTERVAL_S = 0.1
LAST_S = 5.0
"""How long a run that ends waits for what is pending, in seconds."""
MAX_PAUSE_S = 0.5
LAST_SEGMENTS = 8
MAX_UNDECIDED = 200
REST_S = 1.0
"""How often an idle query polls once everything is done, in seconds."""


class Driver:
    """One run of one query."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        """Creates a run.

        Args:
            engine: The engine that runs it.
            run_id: Spark's id of the run.
        """
        checkpoint = engine.checkpoint
        self._engine = engine
        self._run_id = run_id
        self._runs = RunLog(checkpoint.runs)
        self._run: Run | None = None
        self._votes = Votes(lambda: checkpoint.votes, checkpoint.store_votes)
        self._planner = Planner(engine, f"plan-{run_id}")
        self._undecided: set[int] = set()
        self._committed: int | None = None
        """The last batch of the commit log that it has read."""
        self._segments: tuple[Segment, ...] = ()
        """The runs that have committed the batches up to there."""
        self._is_replaced = False
        self._due = asyncio.Event()
        self._failed: asyncio.Future[Exception] = engine.loop.create_future()
        self.stopping = asyncio.Event()
        """Set to stop the run."""

    async def run(self) -> None:
        """Runs until the query fails or is stopped."""
        try:
            run = await self._announce()
        except (QueryFailed, CallFailed, HeadraceError) as error:
            self._engine.log(f"does not start: {error}")
            return
        reporting = asyncio.create_task(self._report_forever())
        query = asyncio.create_task(self._query(run))
        stop = asyncio.create_task(self.stopping.wait())
        await asyncio.wait(list[asyncio.Future[Any]]([query, stop, self._failed]), return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            self._engine.log(f"fails: {self._failed.result()}")
        elif query.done():
            self._engine.log(f"fails: {query.exception()}")
            if not isinstance(query.exception(), QueryFailed):
                self._engine.record.violation("exception", f"{self._engine.process.name}: {query.exception()!r}")
        for task in (query, reporting, stop):
            task.cancel()
        await asyncio.gather(query, reporting, stop, return_exceptions=True)
        await self._end()
        self._planner.stop()

    # The work of the listener.

    async def _announce(self) -> Run:
        """Numbers the run, and reports it to the gateway.

        Raises:
            QueryFailed: The gateway refuses the run, or was away for too long, or a sink has lost rows.
            HeadraceError: Another run is the current one.
        """
        engine, checkpoint = self._engine, self._engine.checkpoint
        self._run = self._runs.begin(self._run_id, checkpoint.last, checkpoint.owner, engine.query.sinks)
        self._segments, self._committed = self._run.earlier, checkpoint.last
        await engine.record.point("run begun")
        self._read_again()
        self._votes.load()
        retry = Retry(engine, MAX_PAUSE_S)
        while True:
            try:
                await self._report_commits()
                break
            except CallFailed as error:
                if not error.is_away:
                    raise QueryFailed(f"announce: {error}") from None
                await retry.wait(error)
        if self._read_again():
            await self._report_commits()
        self._votes.check()
        return self._run

    def _read_again(self) -> bool:
        """Reads the commit log before the first batch; True if it has grown since the run's file was written."""
        before = self._committed
        self._read_up_to(self._engine.checkpoint.last)
        return self._committed != before

    async def _end(self) -> None:
        """Reports the last commits, then detaches."""
        self._read_up_to(self._engine.checkpoint.last)
        if not self._check_replaced():
            self._votes.save()
        ends = self._engine.loop.now + LAST_S
        while self._engine.loop.now < ends and not self._is_replaced:
            try:
                if not await self._report_commits():
                    break
            except CallFailed as error:
                if error.code is grpc.StatusCode.ABORTED:
                    break
            await asyncio.sleep(LAST_INTERVAL_S)
        await self._detach()

    async def _detach(self) -> None:
        """Detaches the run of the last committed batch, unless another run has taken over."""
        checkpoint = self._engine.checkpoint
        if checkpoint.last is None or self._run is None:
            return
        offset = checkpoint.offsets[checkpoint.last]
        if self._check_replaced():
            return
        committed = to_stream_positions(offset.streams)
        request = pb.DetachRequest(pipeline=self._planner.pipeline(offset), committed=committed)
        with contextlib.suppress(CallFailed):
            await ask(self._engine.network, "Detach", request, pb.DetachResponse, CALL_TIMEOUT_S)

    # The reports.

    async def _report_forever(self) -> None:
        is_unavailable, check_due = False, 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_INTERVAL_S if is_unavailable else INTERVAL_S):
                    await self._due.wait()
            self._due.clear()
            try:
                assert self._run is not None
                if self._engine.loop.now >= check_due:
                    check_due = self._engine.loop.now + INTERVAL_S
                    self._runs.check(self._run)
                await self._report_commits()
                self._record_first()
                is_unavailable = False
            except HeadraceError as error:
                self._replace(error)
                return
            except CallFailed as error:
                if error.code is grpc.StatusCode.ABORTED:
                    self._replace(error)
                    return
                is_unavailable = True

    def _replace(self, error: Exception) -> None:
        self._is_replaced = True
        if not self._failed.done():
            self._failed.set_result(error)

    def _check_replaced(self) -> bool:
        try:
            if self._run is not None:
                self._runs.check(self._run)
        except HeadraceError:
            self._is_replaced = True
        return self._is_replaced

    def _read_up_to(self, last: int | None) -> None:
        """Reads entries of the commit log, and who has written them."""
        for batch in range(-1 if self._committed is None else self._committed, -1 if last is None else last):
            self._committed = batch + 1
            owner = self._engine.checkpoint.owner(self._committed)
            self._segments = extended(self._segments, self._committed, owner or "")

    def _first_own(self) -> int | None:
        """Returns the first batch that this run has committed."""
        return next((segment.first_batch for segment in self._segments if segment.run == self._run_id), None)

    def _record_first(self) -> None:
        first = self._first_own()
        if self._run is not None and self._run.first_batch is None and first is not None:
            earlier = tuple(segment for segment in self._segments if segment.last_batch < first)
            self._run = self._runs.confirm(self._run, first, earlier)

    async def _report_commits(self) -> int:
        """Reports the commit log; returns how many transactions are pending.

        Raises:
            CallFailed: The gateway refuses the report, or is away.
        """
        assert self._run is not None
        query, run = self._engine.query, self._run
        known, first = self._segments, self._first_own()
        wanted = {*known[-LAST_SEGMENTS:], *covering(known, sorted(self._undecided)[:MAX_UNDECIDED])}
        segments = sorted(wanted, key=lambda segment: segment.first_batch)
        request = pb.ReportCommitsRequest(
            pipeline=query.name,
            committed=self._committed,
            readers=[self._engine.checkpoint.pipeline],
            sinks=query.sinks,
            run=run.id,
            first_batch=(-1 if self._committed is None else self._committed) + 1 if first is None else first,
            run_number=run.number,
            segments=[pb.RunSegment(run=s.run, first_batch=s.first_batch, last_batch=s.last_batch) for s in segments],
            votes=self._votes.for_sinks(query.sinks, self._committed),
            awaited=query.sinks,
        )
        response = await ask(self._engine.network, "ReportCommits", request, pb.ReportCommitsResponse, CALL_TIMEOUT_S)
        self._undecided = {*self._undecided, *response.undecided} if response.pending else set()
        self._votes.update(response)
        if response.lost:
            self._engine.oracle.sink_lost(f"{query.name}: {list(response.lost)}")
        return response.pending

    # The query.

    async def _query(self, run: Run) -> None:
        """Runs micro-batches, as Spark does: first the one that was planned and not committed.

        Raises:
            QueryFailed: A batch has failed.
        """
        engine, checkpoint = self._engine, self._engine.checkpoint
        tasks = Tasks(engine, self._planner, self._run_id, run.number)
        planned = max(checkpoint.offsets, default=None)
        if planned is None or planned < checkpoint.next:
            batch, end = checkpoint.next, None
        else:
            batch, end = planned, checkpoint.offsets[planned]
        start = checkpoint.offsets[batch - 1] if batch else checkpoint.begin()
        await engine.record.point("query started")
        while True:
            is_new = end is None
            if end is None:
                self._planner.identify(start)
                end = await self._plan(batch, start)
            self._planner.identify(end)
            await self._batch(tasks, batch, start, end, is_new=is_new)
            start, batch, end = end, batch + 1, None

    async def _plan(self, batch: int, start: Offset) -> Offset:
        """Polls until there is something new, and writes `offsets/N`."""
        engine, checkpoint = self._engine, self._engine.checkpoint
        while True:
            end = await self._planner.latest_offset(start)
            # Spark compares the texts: a cursor that has moved makes a new offset, though no position is greater.
            if end.to_json() != start.to_json():
                break
            await asyncio.sleep(REST_S if engine.oracle.is_done else engine.conditions.poll_s)
        await engine.record.point("before offsets")
        if batch in checkpoint.offsets:
            raise QueryFailed(f"another driver has written offsets/{batch}")
        checkpoint.offsets[batch] = end
        engine.log(f"writes offsets/{batch}: {_short(end)}")
        engine.oracle.planned(engine.query, start, end)
        await engine.record.point("offsets written")
        return end

    async def _batch(self, tasks: Tasks, batch: int, start: Offset, end: Offset, *, is_new: bool) -> None:
        engine, checkpoint = self._engine, self._engine.checkpoint
        ranges = self._planner.reads(start, end, as_planned=is_new)
        if not is_new or not start.streams:
            await self._planner.await_sinks()
        if not is_new:
            await self._planner.announce_replay(start, end)
        results = await tasks.run(batch, await self._divide(tasks, ranges, is_new=is_new))
        for sink in engine.query.sinks:
            await self._vote(sink, batch, [result for result in results if result.delivered])
        await engine.record.point("voted")
        assert self._run is not None
        try:
            self._runs.check(self._run)
        except HeadraceError as error:
            raise QueryFailed(f"does not write commits/{batch}: {error}") from None
        # In an object store, the entry may be put at any time after that.
        await engine.record.point("before the entry")
        if batch in checkpoint.commits:
            raise QueryFailed(f"another driver has written commits/{batch}")
        rows = tuple(row for result in results for row in result.rows)
        engine.oracle.committed(checkpoint, batch, Commit(self._run_id, rows))
        engine.log(f"writes commits/{batch}: {len(rows)} rows")
        await engine.record.point("commit written")
        engine.loop.call_later(engine.random.random() * engine.conditions.progress_s, self._on_progress, batch)

    def _on_progress(self, batch: int) -> None:
        self._read_up_to(batch)
        self._due.set()

    async def _divide(self, tasks: Tasks, ranges: Sequence[Range], *, is_new: bool) -> list[Task]:
        """Divides a batch into tasks; the planner sometimes fetches a single one."""
        engine = self._engine
        if not ranges:
            return []
        sizes = self._planner.sizes
        weights = [max(1, sizes.get(each.stream, 1) if is_new else each.end.sequence - each.low) for each in ranges]
        divided = [Task(number, some) for number, some in enumerate(split(ranges, weights, engine.conditions.tasks))]
        if len(divided) == 1 and is_new and engine.random.random() < engine.conditions.inline:
            return [Task(0, divided[0].ranges, await tasks.fetch_inline(divided[0].ranges))]
        return divided

    async def _vote(self, sink: str, batch: int, results: Sequence[Result]) -> None:
        """Asks a sink for its vote.

        Raises:
            QueryFailed: The sink votes against the batch, or does not answer.
        """
        if not results or self._run is None:
            return
        engine = self._engine
        transaction = sink_pb2.Transaction(pipeline=engine.query.name, batch=batch)
        delivered = [(result.partition, result.delivered[sink]) for result in results]
        request = pb.VoteRequest(
            sink=sink,
            transaction=transaction,
            parts=[sink_pb2.Part(transaction=transaction, partition=p, attempt=d.attempt) for p, d in delivered],
            instances=[d.instance for _, d in delivered],
            run_number=self._run.number,
        )
        retry = Retry(engine, 1.0)
        while True:
            try:
                await ask(engine.network, "Vote", request, pb.VoteResponse, engine.conditions.gateway_timeout_s)
                return
            except CallFailed as error:
                check_sink(engine, error)
                await retry.wait(error)


def _short(offset: Offset) -> str:
    return ", ".join(f"{name} {position}{' (ended)' if position.ended else ''}" for name, position in offset.streams.items())
