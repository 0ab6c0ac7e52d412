"""Batch-idempotent sinks: parts are buffered until Spark has chosen the parts that count, and then written atomically."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._errors import InvalidMessage, InvalidOutcomes
from headrace.sdk._settings import Settings
from headrace.sdk.sinks.async_sinks import AsyncIdempotentSink
from headrace.sdk.sinks.driver import SinkDriver
from headrace.sdk.sinks.handler import Fail, Say
from headrace.sdk.sinks.hold import HeldPart, Hold
from headrace.sdk.sinks.in_order import InOrderHandler, check_whole
from headrace.sdk.sinks.rows import Rows
from headrace.sdk.sinks.sink import IdempotentSink
from headrace.sdk.sinks.types import Part, Transaction, refusals


@dataclass(slots=True)
class _Arriving:
    """A part, and the rows of it that have arrived."""

    part: Part
    held: HeldPart
    messages: int = 0
    refused: list[pb.Staged.Refused] = field(default_factory=list)
    whole: bool = False


class IdempotentHandler(InOrderHandler):
    """Buffers parts, and writes each transaction when its vote is requested."""

    def __init__(
        self, sink: IdempotentSink | AsyncIdempotentSink, driver: SinkDriver, settings: Settings, say: Say, fail: Fail
    ) -> None:
        """Starts the handler's task."""
        super().__init__(driver, settings, say, fail)
        self._sink = sink
        self._hold = Hold(settings.hold_bytes)
        self._parts: dict[int, _Arriving] = {}
        self._voted: dict[str, int] = {}

    def start(self, id_: int, part: Part) -> None:
        """As `InOrderHandler.start`."""
        self._driver.saw(part.transaction.pipeline)
        self._parts[id_] = _Arriving(part, HeldPart(self._hold))

    async def rows(self, id_: int, rows: Rows) -> None:
        """As `InOrderHandler.rows`."""
        if (arriving := self._parts.get(id_)) is None:
            return
        try:
            refused = refusals(await self._call(self._sink.check, rows), rows.first, len(rows))
            kept = rows.without({message.sequence for message in refused}) if refused else rows
            if kept is not None:
                await arriving.held.add(kept)
            arriving.refused += refused
            arriving.messages += len(rows)
        except Exception as error:
            self.drop(id_)
            await self._answers.part_failed(id_, arriving.part, error)

    async def end(self, id_: int, messages: int) -> None:
        """As `InOrderHandler.end`."""
        if (arriving := self._parts.get(id_)) is None:
            return
        try:
            check_whole(arriving.messages, messages)
        except InvalidMessage as error:
            self.drop(id_)
            await self._answers.part_failed(id_, arriving.part, error)
        else:
            arriving.whole = True
            await self._answers.staged(id_, arriving.refused)

    def drop(self, id_: int) -> None:
        """As `InOrderHandler.drop`."""
        if (arriving := self._parts.pop(id_, None)) is not None:
            arriving.held.release()

    async def prepare(self, transaction: Transaction, parts: list[Part]) -> None:
        """As `InOrderHandler.prepare`; if it fails, the parts are kept for another attempt."""
        try:
            if self._voted.get(transaction.pipeline) != transaction.batch:
                await self._write(transaction, parts)
        except Exception as error:
            await self._answers.transaction_failed(transaction, "writing", error)
            return
        self._voted[transaction.pipeline] = transaction.batch
        self._release(transaction)
        await self._answers.prepared(transaction)

    def abort(self, transaction: Transaction) -> None:
        """As `InOrderHandler.abort`; written rows remain."""
        self._release(transaction)

    async def close(self) -> None:
        """As `SinkHandler.close`."""
        await super().close()
        for id_ in list(self._parts):
            self.drop(id_)

    async def _write(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Calls the sink to write a transaction, unless it already has.

        Raises:
            InvalidMessage: A part is not in the buffer.
            InvalidOutcomes: The sink refused a message.
        """
        if await self._call(self._sink.last, transaction.pipeline) == transaction.batch:
            return
        whole = {arriving.part: arriving.held for arriving in self._parts.values() if arriving.whole}
        if missing := [part for part in parts if part not in whole]:
            raise InvalidMessage(f"partition {missing[0].partition}, attempt {missing[0].attempt}, is no longer stored")
        held = [whole[part] for part in parts]
        rows = _rows(held) if self._driver.blocks else _rows_on_loop(held)
        outcomes = await self._call(self._sink.write, transaction, rows)
        if refused := refusals(outcomes, 0, sum(part.messages for part in held)):
            raise InvalidOutcomes(f"write() refused a message, which only check() can: {refused[0].reason}")

    def _release(self, transaction: Transaction) -> None:
        """Forgets the parts of a transaction."""
        for id_ in [id_ for id_, arriving in self._parts.items() if arriving.part.transaction == transaction]:
            self.drop(id_)


def _rows(held: Sequence[HeldPart]) -> Iterator[Rows]:
    """Yields the rows of all parts."""
    for part in held:
        yield from part.rows()


async def _rows_on_loop(held: Sequence[HeldPart]) -> AsyncIterator[Rows]:
    """Yields the rows of all parts."""
    for part in held:
        async for rows in part.rows_on_loop():
            yield rows
