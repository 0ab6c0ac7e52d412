"""Two-phase sinks: parts are staged concurrently as they arrive; decisions are carried out in order."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._errors import InvalidOutcomes
from headrace.sdk._settings import Settings
from headrace.sdk.sinks.async_sinks import AsyncTwoPhaseSink
from headrace.sdk.sinks.driver import SinkDriver, describe, part_from_wire, parts_from_wire, transaction_from_wire
from headrace.sdk.sinks.file import FrameFile, Place
from headrace.sdk.sinks.handler import Answers, Fail, Say, report_failure
from headrace.sdk.sinks.handoff import Dropped, Handoff
from headrace.sdk.sinks.in_order import check_whole, nothing, nothing_on_loop
from headrace.sdk.sinks.rows import Rows
from headrace.sdk.sinks.sink import TwoPhaseSink
from headrace.sdk.sinks.types import Part, Transaction, refusals

log = logging.getLogger("headrace.sdk")

_MAX_DECISIONS = 1000


@dataclass(eq=False, slots=True)
class _Staging:
    """A part that is being staged, or is staged."""

    id: int
    part: Part
    incoming: Handoff[Rows | Place]
    file: FrameFile = field(default_factory=FrameFile)
    """Rows that exceed the queue's limit, so that other parts need not wait for them."""
    messages: int = 0
    """The number of its messages; known once all have arrived."""
    taken: int = 0
    """The number of messages that the sink has consumed."""
    exhausted: bool = False
    """Whether the sink has consumed the rows to the end."""
    staged: bool = False
    task: asyncio.Task[None] | None = None

    async def over(self) -> None:
        """Waits until the part's task has ended."""
        assert self.task is not None
        await asyncio.wait({self.task})


@dataclass(eq=False, slots=True)
class _Decision:
    """A decision from the gateway, and the parts that began before it."""

    message: pb.SinkServiceAttachResponse
    transaction: Transaction
    before: list[_Staging]
    done: asyncio.Event


class TwoPhaseHandler:
    """Stages each part in a separate task, and carries out decisions in another one.

    A decision waits for the parts of its transaction that began before it; parts that begin after it wait for the decision.
    """

    def __init__(
        self, sink: TwoPhaseSink | AsyncTwoPhaseSink, driver: SinkDriver, settings: Settings, say: Say, fail: Fail
    ) -> None:
        """Starts the handler's task."""
        self._sink = sink
        self._driver = driver
        self._caller = driver.caller
        self._settings = settings
        self._answers = Answers(driver, say)
        self._stagings: dict[int, _Staging] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._decisions: Handoff[_Decision] = Handoff(_MAX_DECISIONS)
        self._last_decision: dict[Transaction, _Decision] = {}
        self._undecided: dict[_Decision, None] = {}
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._blocked = False
        self._moved = asyncio.Event()
        self._deciding = report_failure(asyncio.create_task(self._decide()), fail)

    async def take(self, message: pb.SinkServiceAttachResponse) -> None:
        """As `SinkHandler.take`."""
        match message.WhichOneof("message"):
            case "start_part":
                self._start(message.start_part.id, part_from_wire(message.start_part.part))
            case "frame":
                if (staging := self._stagings.get(message.frame.id)) is not None:
                    await self._take_rows(staging, Rows(message.frame.frame), message.frame.ByteSize())
            case "end_part":
                if (staging := self._stagings.get(message.end_part.id)) is not None:
                    staging.messages = message.end_part.messages
                    staging.incoming.end()
            case "drop_part":
                if (staging := self._stagings.get(message.drop_part.id)) is not None:
                    await self._enqueue(message, staging.part.transaction, [staging])
            case "prepare":
                await self._enqueue_for_all(message, message.prepare.transaction)
            case "commit":
                await self._enqueue_for_all(message, message.commit.transaction)
            case "abort":
                await self._enqueue_for_all(message, message.abort.transaction)

    async def finish(self) -> None:
        """As `SinkHandler.finish`."""
        for staging in self._stagings.values():
            if not staging.incoming.ended:
                staging.incoming.drop()
        if self._running:
            await asyncio.wait(self._running)
        self._decisions.end()
        await asyncio.wait({self._deciding})

    async def close(self) -> None:
        """As `SinkHandler.close`."""
        for staging in self._stagings.values():
            staging.incoming.drop()
        self._decisions.drop()
        self._deciding.cancel()
        # Parts must not wait for decisions that will not be carried out.
        for decision in self._undecided:
            decision.done.set()
        await asyncio.wait({self._deciding, *self._running})
        await self._caller.call(nothing if self._driver.blocks else nothing_on_loop)

    # Parts

    async def _take_rows(self, staging: _Staging, rows: Rows, size: int) -> None:
        """Queues rows of a part, then waits until there is room for more, or until another part waits for rows.

        A sink may stage one part only after another: the other part's rows must not wait because the first one's queue is full.
        """
        if staging.incoming.full:
            try:
                place = await asyncio.to_thread(staging.file.write, rows.frame)
            except OSError as error:
                # The part fails alone, and its task may send it again.
                staging.incoming.drop()
                await self._answers.part_failed(staging.id, staging.part, error)
                return
            staging.incoming.offer(place, 0)
        else:
            staging.incoming.offer(rows, size)
        self._blocked = True
        try:
            while staging.incoming.full and not any(other.incoming.waiting for other in self._stagings.values()):
                self._moved.clear()
                await self._moved.wait()
        finally:
            self._blocked = False

    def _note_moved(self) -> None:
        """Wakes `_take_rows` when a part has made progress."""
        if self._blocked:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing is waiting
                self._loop.call_soon_threadsafe(self._moved.set)

    def _start(self, id_: int, part: Part) -> None:
        """Starts staging a part."""
        staging = self._stagings[id_] = _Staging(id_, part, Handoff(self._settings.queue_bytes, self._note_moved))
        staging.task = asyncio.create_task(self._stage(staging, self._last_decision.get(part.transaction)))
        self._running.add(report_failure(staging.task, self._fail))
        staging.task.add_done_callback(self._running.discard)

    async def _stage(self, staging: _Staging, before: _Decision | None) -> None:
        """Calls the sink to stage a part; drops the part if that fails."""
        if before is not None:
            await before.done.wait()
        if staging.incoming.dropped:
            return
        try:
            rows = _rows(staging) if self._driver.blocks else _rows_on_loop(staging)
            outcomes = await self._caller.call_concurrently(self._sink.stage, staging.part, rows)
            if not staging.exhausted:
                raise InvalidOutcomes(f"stage() returned before the end of the part: it took {staging.taken} of its messages")
            refused = refusals(outcomes, 0, staging.taken)
        except Exception as error:
            staging.incoming.discard()
            await self._drop(staging.part)
            if not staging.incoming.dropped:
                await self._answers.part_failed(staging.id, staging.part, error)
        else:
            staging.staged = True
            if not staging.incoming.dropped:
                await self._answers.staged(staging.id, refused)
        finally:
            staging.file.close()

    async def _drop(self, part: Part) -> None:
        """Calls the sink to drop a part; logs an error."""
        try:
            await self._caller.call(self._sink.drop, part)
        except Exception as error:
            log.error("sink %s: dropping a part: %s", self._driver.name, describe(error), exc_info=error)
            self._driver.reports.add_error(f"dropping a part: {describe(error)}")

    # Decisions

    async def _enqueue_for_all(self, message: pb.SinkServiceAttachResponse, transaction: pb.Transaction) -> None:
        """Queues a decision that affects all parts of a transaction."""
        decided = transaction_from_wire(transaction)
        before = [staging for staging in self._stagings.values() if staging.part.transaction == decided]
        await self._enqueue(message, decided, before)

    async def _enqueue(self, message: pb.SinkServiceAttachResponse, transaction: Transaction, before: list[_Staging]) -> None:
        """Queues a decision; the parts that it affects accept no more rows."""
        counting = set(map(part_from_wire, message.prepare.parts)) if message.HasField("prepare") else set()
        for staging in before:
            del self._stagings[staging.id]
            if staging.part not in counting:
                staging.incoming.drop()
        decision = self._last_decision[transaction] = _Decision(message, transaction, before, asyncio.Event())
        self._undecided[decision] = None
        await self._decisions.put(decision, 1)

    async def _decide(self) -> None:
        """Carries out the queued decisions, one after the other."""
        with contextlib.suppress(Dropped):
            async for decision in self._decisions.items_on_loop():
                for staging in decision.before:
                    await staging.over()
                await self._carry_out(decision)
                decision.done.set()
                self._undecided.pop(decision, None)
                if self._last_decision.get(decision.transaction) is decision:
                    del self._last_decision[decision.transaction]

    async def _carry_out(self, decision: _Decision) -> None:
        """Calls the sink for a decision, and answers."""
        match decision.message.WhichOneof("message"):
            case "drop_part":
                for staging in decision.before:
                    if staging.staged:
                        await self._drop(staging.part)
            case "prepare":
                parts = parts_from_wire(decision.message.prepare.parts)
                if await self._completes(decision.transaction, "preparing", self._sink.prepare, decision.transaction, parts):
                    await self._answers.prepared(decision.transaction)
            case "commit":
                if await self._completes(decision.transaction, "committing", self._sink.commit, decision.transaction):
                    await self._answers.committed(decision.transaction)
            case "abort":
                try:
                    await self._caller.call(self._sink.abort, decision.transaction)
                except Exception as error:
                    self._answers.abort_failed(decision.transaction, "aborting", error)

    async def _completes(self, transaction: Transaction, doing: str, method: Callable[..., object], *arguments: object) -> bool:
        """Calls a method of the sink; sends a failure if it raises. Returns whether it succeeded."""
        try:
            await self._caller.call(method, *arguments)
        except Exception as error:
            await self._answers.transaction_failed(transaction, doing, error)
            return False
        return True


def _rows(staging: _Staging) -> Iterator[Rows]:
    """Yields and counts the rows of a part as they arrive."""
    for item in staging.incoming.items():
        rows = item if isinstance(item, Rows) else staging.file.read(item)
        staging.taken += len(rows)
        yield rows
    check_whole(staging.taken, staging.messages)
    staging.exhausted = True


async def _rows_on_loop(staging: _Staging) -> AsyncIterator[Rows]:
    """Yields and counts the rows of a part as they arrive."""
    async for item in staging.incoming.items_on_loop():
        rows = item if isinstance(item, Rows) else await asyncio.to_thread(staging.file.read, item)
        staging.taken += len(rows)
        yield rows
    check_whole(staging.taken, staging.messages)
    staging.exhausted = True
