"""What queries do in a script: they read streams and commit, and deliver to sinks and vote."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio
import pytest
from google.protobuf.json_format import ParseDict
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Engine, values_of
from tests.vectors.packing import pack

from headrace.protocol.v1 import sink_pb2
from headrace.protocol.v1.engine_pb2 import PlannedRange
from headrace.protocol.v1.frame_pb2 import Position


class Queries:
    """The queries of one script."""

    def __init__(self, address: str, stack: AsyncExitStack, epochs: dict[int, int]) -> None:
        """`epochs` are the gateway's, by the labels of the script."""
        self._address = address
        self._stack = stack
        self._epochs = epochs
        self._readers: dict[str, Engine] = {}
        self._committed: dict[tuple[str, str], Position] = {}
        self._writer: Writer | None = None
        self._deliveries: list[tuple[asyncio.Task[Any], dict[str, Any]]] = []
        self._votes: list[asyncio.Task[Any]] = []

    async def do(self, what: dict[str, Any]) -> None:
        """Does what a step of the script says."""
        ((does, how),) = what.items()
        match does:
            case "attach":
                await self._attach(how)
            case "commit":
                await self._commit(how)
            case "begins":
                await self._begin(how)
            case "deliver":
                part, rows = ParseDict(how["part"], sink_pb2.Part()), how["rows"]
                self._deliveries.append((self._writing.deliver_packed(part, pack(rows)), how))
            case "vote":
                await self.finish()
                parts = [ParseDict(part, sink_pb2.Part()) for part in how["parts"]]
                vote = self._writing.vote(parts[0].transaction.batch, *parts, instances=["instance-0"] * len(parts))
                if "fails" in how:
                    await _failing(vote, how["fails"])
                else:
                    self._votes.append(vote)
            case "committed":
                await asyncio.gather(*self._votes)
                self._votes.clear()
                await self._writing.report_commits(committed=int(how))
            case _:
                raise AssertionError(f"no query does {does}")

    async def finish(self) -> None:
        """Waits for what was delivered; it must have gone as the script says."""
        for delivery, how in self._deliveries:
            if "fails" in how:
                await _failing(delivery, how["fails"])
            else:
                refused = [str(each.sequence) for each in (await delivery).refused]
                assert refused == how.get("refused", []), refused
        self._deliveries.clear()

    @property
    def _writing(self) -> Writer:
        assert self._writer is not None, "a query that writes begins first"
        return self._writer

    async def _attach(self, how: dict[str, Any]) -> None:
        name = how["query"]
        query = self._readers[name] = Engine(
            self._address, name, streams=how["streams"][0], skip_lost=how.get("skip_lost", False)
        )
        self._stack.push_async_callback(query.close)
        committed = {entry["stream"]: ParseDict(entry["position"], Position()) for entry in how.get("committed", ())}
        self._committed |= {(name, stream): position for stream, position in committed.items()}
        await query.attach(committed)  # type: ignore[arg-type]

    async def _commit(self, how: dict[str, Any]) -> None:
        """A batch that ends at a position is read, and then in the commit log."""
        query, stream = self._readers[how["query"]], how["stream"]
        end = Position(epoch=self._epochs.get(int(how.get("epoch", 0)), 0), sequence=int(how["sequence"]))
        planned = await _planned(query, stream, end)
        if "values" in how:
            start = self._committed.get((how["query"], stream))
            values = [value.hex() for value in values_of(await query.fetch(stream, start, planned.end))]
            assert values == how["values"], values
        self._committed[how["query"], stream] = planned.end
        await query.plan({stream: planned.end}, wait_ms=0)

    async def _begin(self, how: dict[str, Any]) -> None:
        self._writer = Writer(self._address, run=how["run"], number=how["number"])
        self._stack.push_async_callback(self._writer.close)
        await self._writer.report_commits()


async def _failing(call: "asyncio.Task[Any]", status: str) -> None:
    """Waits for a call, which must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    assert failed.value.code().name == status, failed.value


async def _planned(query: Engine, stream: str, end: Position) -> PlannedRange:
    """Plans until the range of a stream reaches a position."""
    while True:
        for planned in (await query.plan(wait_ms=1000)).ranges:
            if planned.stream == stream and (planned.end.epoch, planned.end.sequence) >= (end.epoch, end.sequence):
                return planned
