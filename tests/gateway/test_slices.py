"""Calls of operators hold the event loop for a bounded number of entries, however much there is to show."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import grpc.aio
import pytest
from tests.gateway.http_server import get, serve_http
from tests.gateway.wire import DEADLINE_S, serve

from headrace.contract.limits import MAX_BATCH_STREAMS, MAX_BATCHES, MAX_DEAD_LETTERS
from headrace.contract.position import Position
from headrace.gateway import Http, Limits, Peek
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.bounds import MAX_SINKS
from headrace.gateway.core.base.turns import ENTRIES_OF_SLICE, in_slices, sorted_items
from headrace.gateway.core.pipelines.batch import BatchStream
from headrace.gateway.core.pipelines.pipeline import Pipeline
from headrace.gateway.core.sinks.dead_letters import SinkLetters
from headrace.gateway.core.status.snapshot import snapshot
from headrace.gateway.observer import Observer
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

MAX_AT_ONCE = ENTRIES_OF_SLICE + 2 * MAX_BATCH_STREAMS
"""A slice ends with the first step that fills it."""


class Turns:
    """How many entries are taken in each turn of the event loop."""

    def __init__(self) -> None:
        self.entries = Counter[int]()
        self.turn = 0

    def counting(self, take: Callable[..., Any]) -> Callable[..., Any]:
        """A function that takes an entry, and counts that."""

        def taken(*args: Any, **more: Any) -> Any:
            self.entries[self.turn] += 1
            return take(*args, **more)

        return taken

    async def run(self, work: Any) -> Any:
        """Runs work, and another task meanwhile."""
        working = asyncio.ensure_future(work)
        async with asyncio.timeout(DEADLINE_S):
            while not working.done():
                self.turn += 1
                await asyncio.sleep(0)
        return working.result()

    def counted(self, module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Counts the calls of a function."""
        of = import_module(module)
        monkeypatch.setattr(of, name, self.counting(getattr(of, name)))

    def check(self, entries: int) -> None:
        """Checks that it took `entries` entries, and few at a time."""
        assert self.entries.total() >= entries
        assert max(self.entries.values()) <= MAX_AT_ONCE, self.entries.most_common(3)


def with_batches(gateway: Gateway) -> Pipeline:
    """A pipeline with as many micro-batches, of as many streams, as are kept."""
    pipeline = gateway.pipelines["totals"] = Pipeline("totals")
    for batch in range(MAX_BATCHES):
        ends = [(f"orders/{n}", Position(0, batch), Position(0, batch + 1)) for n in range(MAX_BATCH_STREAMS)]
        pipeline.timeline.plan([BatchStream(name, after, end, 1) for name, after, end in ends])
        pipeline.timeline._open = None  # as if it were committed
    return pipeline


async def test_short_work_is_one_slice_and_long_work_lets_others_have_their_turn() -> None:
    short, long = Turns(), Turns()
    take = short.counting(lambda: 1)
    await short.run(in_slices(take() for _ in range(ENTRIES_OF_SLICE - 1)))
    assert list(short.entries.values()) == [ENTRIES_OF_SLICE - 1]
    take = long.counting(lambda: 100)
    await long.run(in_slices(take() for _ in range(50)))
    assert set(long.entries.values()) == {ENTRIES_OF_SLICE // 100}


@pytest.mark.parametrize("count", [0, 1, 4_999, 5_000, 12_345])
def test_items_are_by_name_however_many_there_are(count: int) -> None:
    items = {f"{n * 7919 % 100_003}": n for n in range(count)}
    assert list(sorted_items(items)) == sorted(items.items())


async def test_micro_batches_are_listed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        with_batches(gateway)
        options = {"timeout": DEADLINE_S}
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        turns = Turns()
        turns.counted("headrace.gateway.core.status.listing", "_stream", monkeypatch)
        answer = await turns.run(stub.ListBatches(admin_pb2.ListBatchesRequest(pipeline="totals"), **options))
        assert sum(len(batch.streams) for batch in answer.batches) == MAX_BATCHES * MAX_BATCH_STREAMS
        turns.check(MAX_BATCHES * MAX_BATCH_STREAMS)
        async with serve_http(gateway) as http:
            code, document = await turns.run(get(http, "/api/v1/pipelines/totals/batches"))
        assert (code, len(document["batches"])) == (200, MAX_BATCHES)
        turns.check(2 * MAX_BATCHES * MAX_BATCH_STREAMS)


async def test_a_status_is_taken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, turns = Gateway(Limits()), Turns()
    gateway.pipelines["p"] = pipeline = Pipeline("p")
    for number in range(4_000):
        gateway.stream(f"orders/{number}")
        pipeline.committed[f"orders/{number}"] = Position(0, number)
    for name in ("add_stream", "sink_status", "_session"):
        turns.counted("headrace.gateway.core.status.snapshot", name, monkeypatch)
    position = import_module("headrace.gateway.core.base.position")
    monkeypatch.setattr(position.pb, "StreamPosition", turns.counting(position.pb.StreamPosition))
    status = await turns.run(snapshot(gateway))
    assert [stream.stream for stream in status.streams] == sorted(gateway.streams)
    assert [told.stream for told in status.pipelines[0].committed] == sorted(gateway.streams)
    turns.check(8_000)
    observed = await turns.run(Observer(gateway, Http()).current())
    assert len(observed.status.streams) == 4_000


async def test_dead_letters_are_listed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        gateway.peek = Peek(enabled=True)
        for number in range(MAX_SINKS):
            letters = SinkLetters()
            letters.last.extend(admin_pb2.DeadLetter(reason="r") for _ in range(MAX_DEAD_LETTERS))
            gateway.dead_letters._of_sinks[f"s{number}"] = letters
        turns, kept = Turns(), gateway.dead_letters

        def last(sink: str, limit: int, found: Callable[[str, int], list[Any]] = kept.last) -> list[Any]:
            return list(each(found(sink, limit)))

        def each(found: list[Any]) -> Iterator[Any]:
            for letter in found:
                yield turns.counting(lambda letter=letter: letter)()

        monkeypatch.setattr(kept, "last", last)
        request = admin_pb2.ListDeadLettersRequest()
        answer = await turns.run(admin_pb2_grpc.AdminServiceStub(channel).ListDeadLetters(request, timeout=DEADLINE_S))
        assert len(answer.sinks) == MAX_SINKS
        turns.check(MAX_SINKS * MAX_DEAD_LETTERS)
