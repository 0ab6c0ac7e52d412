"""The base class of handlers that process messages strictly in order, and the handler of at-least-once sinks."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._errors import InvalidMessage
from headrace.sdk._settings import Settings
from headrace.sdk.sinks.async_sinks import AsyncSink
from headrace.sdk.sinks.driver import SinkDriver, part_from_wire, parts_from_wire, transaction_from_wire
from headrace.sdk.sinks.handler import Answers, Fail, Say, report_failure
from headrace.sdk.sinks.handoff import Dropped, Handoff
from headrace.sdk.sinks.rows import Rows
from headrace.sdk.sinks.sink import Sink
from headrace.sdk.sinks.types import Part, Transaction, refusals


class InOrderHandler(ABC):
    """A handler with one queue, and one task that processes it."""

    def __init__(self, driver: SinkDriver, settings: Settings, say: Say, fail: Fail) -> None:
        """Starts the handler's task."""
        self._driver = driver
        self._call = driver.caller.call
        self._answers = Answers(driver, say)
        self._queue: Handoff[pb.SinkServiceAttachResponse] = Handoff(settings.queue_bytes)
        self._working = report_failure(asyncio.create_task(self._work()), fail)

    async def take(self, message: pb.SinkServiceAttachResponse) -> None:
        """As `SinkHandler.take`."""
        await self._queue.put(message, message.ByteSize())

    async def finish(self) -> None:
        """As `SinkHandler.finish`."""
        self._queue.end()
        await asyncio.wait({self._working})

    async def close(self) -> None:
        """As `SinkHandler.close`."""
        self._queue.drop()
        self._working.cancel()
        await asyncio.wait({self._working})
        # This call returns only after the running method has returned.
        await self._call(nothing if self._driver.blocks else nothing_on_loop)

    async def _work(self) -> None:
        """Processes the queued messages, one after the other."""
        with contextlib.suppress(Dropped):
            async for message in self._queue.items_on_loop():
                await self._do(message)

    async def _do(self, message: pb.SinkServiceAttachResponse) -> None:
        """Processes a message."""
        match message.WhichOneof("message"):
            case "start_part":
                self.start(message.start_part.id, part_from_wire(message.start_part.part))
            case "frame":
                await self.rows(message.frame.id, Rows(message.frame.frame))
            case "end_part":
                await self.end(message.end_part.id, message.end_part.messages)
            case "drop_part":
                self.drop(message.drop_part.id)
            case "prepare":
                prepare = message.prepare
                await self.prepare(transaction_from_wire(prepare.transaction), list(parts_from_wire(prepare.parts)))
            case "commit":
                await self._answers.committed(transaction_from_wire(message.commit.transaction))
            case "abort":
                self.abort(transaction_from_wire(message.abort.transaction))

    @abstractmethod
    def start(self, id_: int, part: Part) -> None:
        """Begins a part."""

    @abstractmethod
    async def rows(self, id_: int, rows: Rows) -> None:
        """Handles rows of a part."""

    @abstractmethod
    async def end(self, id_: int, messages: int) -> None:
        """Ends a part of `messages` messages."""

    @abstractmethod
    def drop(self, id_: int) -> None:
        """Drops a part."""

    @abstractmethod
    async def prepare(self, transaction: Transaction, parts: list[Part]) -> None:
        """Answers with the vote for the parts of a transaction."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Aborts a transaction."""


@dataclass(slots=True)
class _Writing:
    """A part that is being written."""

    part: Part
    messages: int = 0
    refused: list[pb.Staged.Refused] = field(default_factory=list)


class AtLeastOnceHandler(InOrderHandler):
    """Writes rows as they arrive."""

    def __init__(self, sink: Sink | AsyncSink, driver: SinkDriver, settings: Settings, say: Say, fail: Fail) -> None:
        """Starts the handler's task."""
        super().__init__(driver, settings, say, fail)
        self._sink = sink
        self._parts: dict[int, _Writing] = {}

    def start(self, id_: int, part: Part) -> None:
        """As `InOrderHandler.start`."""
        self._parts[id_] = _Writing(part)

    async def rows(self, id_: int, rows: Rows) -> None:
        """As `InOrderHandler.rows`; rows of a failed part are dropped."""
        if (writing := self._parts.get(id_)) is None:
            return
        try:
            outcomes = await self._call(self._sink.write, Rows(rows.frame, writing.part))
            writing.refused += refusals(outcomes, rows.first, len(rows))
            writing.messages += len(rows)
        except Exception as error:
            del self._parts[id_]
            await self._answers.part_failed(id_, writing.part, error)

    async def end(self, id_: int, messages: int) -> None:
        """As `InOrderHandler.end`."""
        if (writing := self._parts.pop(id_, None)) is None:
            return
        try:
            check_whole(writing.messages, messages)
            await self._call(self._sink.flush)
        except Exception as error:
            await self._answers.part_failed(id_, writing.part, error)
        else:
            await self._answers.staged(id_, writing.refused)

    def drop(self, id_: int) -> None:
        """As `InOrderHandler.drop`; written rows remain."""
        self._parts.pop(id_, None)

    async def prepare(self, transaction: Transaction, parts: list[Part]) -> None:
        """As `InOrderHandler.prepare`; everything is already written."""
        await self._answers.prepared(transaction)

    def abort(self, transaction: Transaction) -> None:
        """As `InOrderHandler.abort`; written rows remain."""
        self._parts = {id_: writing for id_, writing in self._parts.items() if writing.part.transaction != transaction}


def check_whole(arrived: int, messages: int) -> None:
    """Checks that a part has arrived completely.

    Raises:
        InvalidMessage: Messages are missing.
    """
    if arrived != messages:
        raise InvalidMessage(f"messages of a part: {messages} expected, {arrived} arrived")


def nothing() -> None:
    """Does nothing. Called in order, it returns after all earlier calls."""


async def nothing_on_loop() -> None:
    """Does nothing. Called in order, it returns after all earlier calls."""
