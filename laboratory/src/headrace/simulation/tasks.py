"""A model of Spark's tasks: attempts, of which some are doubled or given up and continue, fetch their ranges and deliver rows."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import grpc

from headrace.engine.checkpoint.position import Position
from headrace.engine.source.ranges import Range
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2, sink_pb2
from headrace.sdk import Message
from headrace.sdk.wire import decode_frame, fill_frame, pack
from headrace.simulation.calls import CallFailed, answer, engine_call, responses
from headrace.simulation.engine import Engine, QueryFailed, Retry
from headrace.simulation.pipe import Status
from headrace.simulation.planner import Planner

PROGRESS_TIMEOUT_S = 10.0
INLINE_TIMEOUT_S = 2.0
MAX_PAUSE_S = 1.0
MAX_FAILURES = 4
"""A task fails its query after this many failed attempts."""
LATE_KILL_S = 5.0
"""How long an attempt that was given up may continue, in seconds."""
ROWS_IN_FRAME = 5


@dataclass(frozen=True)
class Task:
    """A task of a batch.

    Attributes:
        partition: Its number.
        ranges: The ranges that it reads.
        rows: The rows that the planner has fetched for it; None if it fetches itself.
    """

    partition: int
    ranges: Sequence[Range]
    rows: Sequence[bytes] | None = None


@dataclass(frozen=True)
class Delivered:
    """A part that a sink has staged.

    Attributes:
        attempt: The name of the attempt.
        instance: The sink's instance that has staged it.
    """

    attempt: str
    instance: str


@dataclass(frozen=True)
class Result:
    """The work of an attempt of a task.

    Attributes:
        partition: The task.
        rows: Its rows.
        delivered: Where they are, by sink; empty if there are none.
    """

    partition: int
    rows: tuple[bytes, ...]
    delivered: Mapping[str, Delivered]


class Tasks:
    """Runs the tasks of a run."""

    def __init__(self, engine: Engine, planner: Planner, run_id: str, run_number: int) -> None:
        self._engine = engine
        self._planner = planner
        self._run_id = run_id
        self._run_number = run_number
        self._attempts = itertools.count(1)

    async def run(self, batch: int, tasks: Sequence[Task]) -> list[Result]:
        """Runs the tasks of a batch, and returns the results of the attempts that count, by partition.

        Raises:
            QueryFailed: A task has failed too often.
        """
        working = [asyncio.create_task(self._task(batch, task)) for task in tasks]
        try:
            return list(await asyncio.gather(*working))
        finally:
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    async def _task(self, batch: int, task: Task) -> Result:
        """Runs attempts until one succeeds; sometimes two at a time, of which the first one counts."""
        engine = self._engine
        running = [asyncio.create_task(self._attempt(batch, task))]
        failures = 0
        try:
            if engine.random.random() < engine.conditions.doubled:
                await asyncio.sleep(engine.random.random() * 0.2)
                running.append(asyncio.create_task(self._attempt(batch, task)))
            while True:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for each in [each for each in running if each.done()]:
                    error = each.exception()
                    if error is None:
                        return each.result()
                    running.remove(each)
                    failures += 1
                    if failures >= MAX_FAILURES:
                        raise QueryFailed(f"task {task.partition}: {error}")
                if not running:
                    running.append(asyncio.create_task(self._attempt(batch, task)))
        finally:
            for each in running:
                self._give_up(each)

    def _give_up(self, attempt: "asyncio.Task[Result]") -> None:
        """Kills an attempt, as Spark does: sometimes not at once."""
        engine = self._engine
        attempt.add_done_callback(lambda done: done.cancelled() or done.exception())
        if engine.random.random() < 0.5:
            attempt.cancel()
        else:
            engine.loop.call_later(engine.random.random() * LATE_KILL_S, attempt.cancel)

    async def _attempt(self, batch: int, task: Task) -> Result:
        engine = self._engine
        await asyncio.sleep(engine.random.random() * engine.conditions.task_s)
        rows = task.rows if task.rows is not None else await self._fetch(task.ranges)
        await engine.record.point("fetched")
        if not rows:
            return Result(task.partition, (), {})
        delivered = {sink: await self._deliver(sink, batch, task.partition, rows) for sink in engine.query.sinks}
        await engine.record.point("delivered")
        return Result(task.partition, tuple(rows), delivered)

    # Reading.

    async def fetch_inline(self, ranges: Sequence[Range]) -> Sequence[bytes] | None:
        """Fetches ranges in one call with a deadline, as the planner does; None if that fails."""
        reading = _Reading(ranges)
        try:
            async with asyncio.timeout(INLINE_TIMEOUT_S):
                async for index, frame in self._call_fetch(ranges, INLINE_TIMEOUT_S):
                    reading.take(index, frame)
            reading.check_whole()
        except (CallFailed, TimeoutError, QueryFailed):
            return None
        return reading.rows()

    async def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes]:
        """Fetches ranges, in as many calls as necessary."""
        reading = _Reading(ranges)
        retry = Retry(self._engine, MAX_PAUSE_S)
        numbers = list(range(len(ranges)))
        while numbers:
            try:
                async for index, frame in self._call_fetch([reading.left[n] for n in numbers], PROGRESS_TIMEOUT_S):
                    retry.reset()
                    reading.take(numbers[index], frame)
                reading.check_whole()
                break
            except CallFailed as error:
                # An attempt that was given up, or of a run that was replaced, may read what is committed and deleted.
                checkpoint = self._engine.checkpoint
                is_stale = all(checkpoint.has_committed(each.stream, each.end) for each in ranges)
                if error.code is grpc.StatusCode.DATA_LOSS and not is_stale:
                    self._engine.record.violation("data-loss", f"fetch: {error}")
                if not error.is_away:
                    raise QueryFailed(f"fetch: {error}") from None
                numbers = [n for n in numbers if reading.left[n].low < reading.left[n].end.sequence]
                await retry.wait(error)
        return reading.rows()

    async def _call_fetch(self, ranges: Sequence[Range], progress_s: float) -> AsyncIterator[tuple[int, frame_pb2.Frame]]:
        request = pb.FetchRequest(
            pipeline=self._planner.pipeline(),
            ranges=[each.to_proto() for each in ranges],
            progress_timeout_ms=int(progress_s * 1000),
        )
        async with engine_call(self._engine.network, "Fetch") as call:
            await call.write(request.SerializeToString())
            call.done_writing()
            async for response in responses(call, pb.FetchResponse):
                for found in response.frames:
                    yield found.range, found.frame
                    if self._engine.conditions.slow_tasks_s:
                        await asyncio.sleep(self._engine.random.random() * self._engine.conditions.slow_tasks_s)

    # Writing.

    async def _deliver(self, sink: str, batch: int, partition: int, rows: Sequence[bytes]) -> Delivered:
        """Delivers a part, in as many attempts as necessary."""
        transaction = sink_pb2.Transaction(pipeline=self._engine.checkpoint.query, batch=batch)
        retry = Retry(self._engine, MAX_PAUSE_S)
        while True:
            attempt = f"{self._run_id}/{next(self._attempts)}"
            start = pb.DeliveryStart(
                sink=sink,
                part=sink_pb2.Part(transaction=transaction, partition=partition, attempt=attempt),
                wait_ms=int(self._engine.conditions.sink_timeout_s * 1000),
                run_number=self._run_number,
            )
            try:
                response = await self._call_deliver(start, rows)
                return Delivered(attempt, response.instance)
            except CallFailed as error:
                check_sink(self._engine, error, is_over=batch in self._engine.checkpoint.commits)
                await retry.wait(error)

    async def _call_deliver(self, start: pb.DeliveryStart, rows: Sequence[bytes]) -> pb.DeliverResponse:
        timeout_s, loop = self._engine.conditions.gateway_timeout_s, self._engine.loop
        size = min(ROWS_IN_FRAME, self._engine.conditions.max_frame_messages)
        try:
            async with asyncio.timeout(timeout_s) as limit, engine_call(self._engine.network, "Deliver") as call:
                await call.write(pb.DeliverRequest(start=start).SerializeToString())
                for first in range(0, len(rows), size):
                    request = pb.DeliverRequest(frame=_frame(rows[first : first + size], first))
                    await call.write(request.SerializeToString())
                    limit.reschedule(loop.now + timeout_s)
                await call.write(pb.DeliverRequest(end=pb.DeliveryEnd(messages=len(rows))).SerializeToString())
                call.done_writing()
                return await answer(call, pb.DeliverResponse)
        except TimeoutError:
            raise CallFailed(Status(grpc.StatusCode.UNAVAILABLE, "a delivery made no progress")) from None


def check_sink(engine: Engine, error: CallFailed, *, is_over: bool = False) -> None:
    """Judges a failed call that concerns a sink.

    Args:
        engine: Whose call it is.
        error: How it failed.
        is_over: Whether its batch is committed: such an attempt, which was given up, may meet another gateway, which knows of
            later commits from the sink and not yet from the run.

    Raises:
        QueryFailed: It is not worth another attempt.
    """
    if error.code is grpc.StatusCode.DATA_LOSS:
        engine.oracle.sink_lost(str(error))
    if not is_over and error.code is grpc.StatusCode.FAILED_PRECONDITION and "ended without DeliveryEnd" not in str(error):
        engine.record.violation("older-checkpoint", str(error))
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED or not error.is_away:
        raise QueryFailed(f"sink: {error}")


class _Reading:
    """Takes the rows of ranges from frames, each once."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.left = list(ranges)
        """What is still to be read of each range."""
        self._rows: dict[int, list[bytes]] = {}

    def take(self, index: int, frame: frame_pb2.Frame) -> None:
        """Takes what a range contains of a frame."""
        wanted, last = self.left[index], None
        for message in decode_frame(frame):
            assert message.sequence is not None
            assert message.value is not None
            if wanted.low < message.sequence <= wanted.end.sequence:
                row = message.value + f"|{wanted.end.epoch}|{message.sequence}".encode()
                self._rows.setdefault(index, []).append(row)
                last = message.sequence
        if last is not None:
            self.left[index] = replace(wanted, start=Position(wanted.end.epoch, last))

    def check_whole(self) -> None:
        """Checks that the last message of each range has arrived.

        Raises:
            QueryFailed: A range ended early.
        """
        for each in self.left:
            must_arrive = each.end.epoch == 0 or each.batch_end.begin is not None
            if must_arrive and each.end == each.batch_end and each.low < each.end.sequence:
                raise QueryFailed(f"{each.stream}: the messages after {each.low} up to {each.end.sequence} did not arrive")

    def rows(self) -> list[bytes]:
        """Returns all rows, by range."""
        return [row for index in sorted(self._rows) for row in self._rows[index]]


def _frame(rows: Sequence[bytes], first: int) -> frame_pb2.Frame:
    columns = pack([Message(row) for row in rows], first, None)
    assert columns is not None
    frame = frame_pb2.Frame()
    fill_frame(frame, columns, 0, 0, columns.count)
    return frame
