"""A model of the planner: it attaches a run, commits with each plan, and returns where a batch ends.

It repeats `headrace.engine.source.planner.Planner`, which blocks a thread.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace

import grpc
from google.protobuf.message import Message

from headrace.contract.errors import HeadraceError
from headrace.engine.checkpoint.position import Offset, Position, ended, left_out, moved, to_stream_positions
from headrace.engine.source.bootstraps import Bootstraps
from headrace.engine.source.confirmation import Confirmation
from headrace.engine.source.ranges import Range, begins_of, ranges_of
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.simulation.calls import CallFailed, ask
from headrace.simulation.engine import Engine, QueryFailed, Retry

PLAN_WAIT_MS = 100
CALL_TIMEOUT_S = 5.0
MAX_PAUSE_S = 1.0
AWAIT_SINKS_MS = 3_000
LATE_S = (0.1, 1.0, 5.0)
"""By how many seconds a call is late at most."""


class Planner:
    """Plans for one run of a query."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._number: int | None = None
        self._checkpoint = ""
        self._attached = False
        self._attachment = 0
        """How many times it has attached."""
        self._calls = 0
        """How many times it has called Plan."""
        self._answered = 0
        """The last of these calls that was answered since it has attached."""
        self._known: dict[str, Position] = {}
        """The committed positions that the gateway knows."""
        self._retry = Retry(engine, MAX_PAUSE_S)
        self._bootstraps = Bootstraps(engine.bootstraps, {"pipeline": engine.checkpoint.pipeline})
        self._renewing: asyncio.Task[None] | None = None
        self._confirmation = Confirmation(lambda: engine.loop.now)
        self._read_end: Offset | None = None
        """Where the last batch ends that this run has planned and read."""
        self.sizes: dict[str, int] = {}
        """The size of each range of the last batch, in bytes."""

    def identify(self, offset: Offset) -> None:
        """Takes the number of the run from the first offset that Spark gives."""
        if self._number is None:
            self._number = (offset.run_number or 0) + 1
            self._checkpoint = offset.checkpoint

    def pipeline(self, offset: Offset | None = None) -> pb.Pipeline:
        """Identifies this run to the gateway, or the one that has planned an offset."""
        return pb.Pipeline(
            name=self._engine.checkpoint.pipeline,
            run=(self._number if offset is None else offset.run_number) or 0,
            streams=self._engine.streams,
            run_id=self._run_id if offset is None else offset.run_id,
            checkpoint=self._checkpoint,
            attachment=self._attachment if offset is None else 0,
            driver=self._engine.process.name,
        )

    def stop(self) -> None:
        """Renews the lease no more."""
        if self._renewing is not None:
            self._renewing.cancel()

    async def latest_offset(self, start: Offset) -> Offset:
        """Commits up to `start`, and returns how far the next batch reads; `start` if there is nothing new.

        Raises:
            QueryFailed: The gateway refuses the run, or was away for too long, or a source has lost messages.
        """
        stored = start
        self._confirmation.look(stored.to_json())
        if stored is not self._read_end:
            start = stored.taken_as_unread()
        response = await self._plan(start, is_stale=self._is_stale(stored))
        if response is None:
            return stored
        try:
            self._bootstraps.note(response, start)
        except HeadraceError as error:
            raise QueryFailed(f"plan: {error}") from None
        forgotten = start.streams.keys() & set(response.forgotten) - {r.stream for r in response.ranges}
        if not response.ranges and not forgotten and (start.is_read or not self._confirmation.is_due):
            return stored
        self.sizes = {r.stream: r.bytes for r in response.ranges}
        to = {r.stream: Position.from_proto(r.end, start=r.start, ended=r.ended) for r in response.ranges}
        known = start.taken_as_read().streams
        streams = {name: position for name, position in {**known, **to}.items() if name not in forgotten}
        end = Offset(start.pipeline, streams, bootstrapped=self._bootstraps.done(start))
        return replace(end, run_number=self._number, run_id=self._run_id, checkpoint=self._checkpoint)

    async def announce_replay(self, start: Offset, end: Offset) -> None:
        """Tells the gateway that a batch is read again."""
        with contextlib.suppress(CallFailed):
            begins = begins_of(start.streams, end.streams)
            await self._attach(begins, moved(end.taken_as_unread().streams, begins))

    def reads(self, start: Offset, end: Offset, *, as_planned: bool) -> list[Range]:
        """Returns what a batch reads; of what another run has planned, nothing of feeds."""
        self._read_end = end if as_planned else None
        return ranges_of(start.streams, end.streams, as_planned=as_planned)

    async def await_sinks(self) -> None:
        """Waits until the sinks are there, though not for long."""
        request = pb.AwaitSinksRequest(pipeline=self.pipeline(), wait_ms=AWAIT_SINKS_MS)
        with contextlib.suppress(CallFailed):
            await ask(self._engine.network, "AwaitSinks", request, pb.AwaitSinksResponse, AWAIT_SINKS_MS / 1000 + CALL_TIMEOUT_S)

    async def _plan(self, offset: Offset, *, is_stale: bool) -> pb.PlanResponse | None:
        """Returns the gateway's response; None, after a pause, if it is away."""
        try:
            try:
                await self._attach(offset.streams, {})
                response = await self._call_plan(offset)
            except CallFailed as error:
                if error.code is not grpc.StatusCode.NOT_FOUND:
                    raise
                self._attached = False
                await self._attach(offset.streams, {})
                response = await self._call_plan(offset)
        except CallFailed as error:
            if error.code is grpc.StatusCode.DATA_LOSS and not is_stale:
                self._engine.record.violation("data-loss", f"plan: {error}")
            if error.code is grpc.StatusCode.NOT_FOUND:
                self._attached = False
            elif not error.is_away:
                raise QueryFailed(f"plan: {error}") from None
            await self._retry.wait(error)
            return None
        self._retry.reset()
        return response

    def _is_stale(self, offset: Offset) -> bool:
        """Returns whether another run has committed more than this one knows of, which a source may have deleted."""
        checkpoint = self._engine.checkpoint
        return checkpoint.last is not None and offset != checkpoint.offsets[checkpoint.last]

    async def _call_plan(self, offset: Offset) -> pb.PlanResponse:
        self._calls += 1
        news = moved(offset.streams, self._known)
        request = pb.PlanRequest(
            pipeline=self.pipeline(),
            committed=to_stream_positions(news),
            ended=ended(news),
            forgotten=to_stream_positions(left_out(offset.streams, self._known)),
            tell_ends=self._engine.conditions.tell_ends,
            max_messages=self._engine.conditions.max_messages,
            wait_ms=PLAN_WAIT_MS,
            number=self._calls,
            follows=self._answered,
            bootstraps=[table.to_proto() for table in self._bootstraps.pending(offset)],
        )
        self._repeat("Plan", request, pb.PlanResponse)
        response = await ask(self._engine.network, "Plan", request, pb.PlanResponse, CALL_TIMEOUT_S + PLAN_WAIT_MS / 1000)
        self._known, self._answered = dict(offset.streams), self._calls
        return response

    async def _attach(self, committed: Mapping[str, Position], planned: Mapping[str, Position]) -> None:
        if self._attached:
            return
        self._attachment += 1
        request = pb.AttachRequest(
            pipeline=self.pipeline(),
            committed=to_stream_positions(committed),
            ended=ended(committed),
            planned=to_stream_positions(planned),
        )
        self._repeat("Attach", request, pb.AttachResponse)
        response = await ask(self._engine.network, "Attach", request, pb.AttachResponse, CALL_TIMEOUT_S)
        self._attached, self._known, self._answered = True, dict(committed), 0
        if response.lease_ms and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(response.lease_ms / 4000))

    def _repeat(self, method: str, request: Message, response: type[Message]) -> None:
        """Sometimes lets a call arrive once more, late: a proxy has held it back, and nobody waits for the answer."""
        engine = self._engine
        if engine.conditions.repeats == 0 or engine.random.random() >= engine.conditions.repeats:
            return

        async def send() -> None:
            await asyncio.sleep(engine.random.random() * engine.random.choice(LATE_S))
            with contextlib.suppress(CallFailed):
                await ask(engine.network, method, request, response, CALL_TIMEOUT_S)

        engine.process.spawn(send(), name=f"late {method}")

    async def _renew(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            request = pb.RenewRequest(pipeline=self.pipeline())
            with contextlib.suppress(CallFailed):
                await ask(self._engine.network, "Renew", request, pb.RenewResponse, max(1.0, interval_s))
