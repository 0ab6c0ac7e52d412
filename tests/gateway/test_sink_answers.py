"""A sink's answers are checked, one that reads nothing is ended, and what was withdrawn meanwhile may still be answered."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
from tests.gateway.patience import PATIENCE_MS, Patience
from tests.gateway.sink_wire import SinkClient, Writer, transaction
from tests.gateway.test_sinks import stage_and_vote, status_of
from tests.gateway.wire import DEADLINE_S, frame, serve

from headrace.gateway.config import Limits
from headrace.protocol.v1 import engine_pb2, sink_pb2

REFUSALS = {
    "beyond the part": [3],
    "far beyond the part": [2**63],
    "twice": [1, 1],
    "descending": [2, 0],
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_refusals_that_are_not_messages_of_the_part_in_order_end_the_session(case: str) -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        delivery = writer.deliver(0, [b"a", b"b", b"c"])
        await sink.take_part(refused=REFUSALS[case])
        code, details = await sink.ended()
        assert (code, "partition 0 of batch 0" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        assert (await status_of(delivery))[0] is grpc.StatusCode.UNAVAILABLE, "another attempt may do better"
        for client in (sink, writer):
            await client.close()


async def test_staged_before_the_end_of_the_part_ends_the_session() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        call = writer.stub.Deliver()
        await call.write(engine_pb2.DeliverRequest(start=writer.start(0)))
        start = await sink.expect("start_part")
        await sink.send(staged=sink_pb2.Staged(id=start.id))
        code, details = await sink.ended()
        assert (code, "before EndPart" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        call.cancel()
        for client in (sink, writer):
            await client.close()


@pytest.mark.parametrize(
    "answer",
    [
        {"staged": sink_pb2.Staged(id=1)},
        {"staged": sink_pb2.Staged(id=0)},
        {"failed": sink_pb2.Failed(part_id=7, reason="none")},
        {"prepared": sink_pb2.Prepared(transaction=transaction(0))},
        {"committed": sink_pb2.Committed(transaction=transaction(0))},
    ],
    ids=["staged", "staged 0", "failed part", "prepared", "committed"],
)
async def test_an_answer_to_nothing_ends_the_session_and_changes_nothing(answer: dict[str, object]) -> None:
    async with serve() as (gateway, address):
        sink = SinkClient(address)
        await sink.hello(prepared=[transaction(0)])
        await sink.send(**answer)
        assert (await sink.ended())[0] is grpc.StatusCode.FAILED_PRECONDITION
        assert not gateway.sinks["out"].committed
        await sink.close()


@pytest.mark.parametrize(
    "again",
    [
        {"staged": sink_pb2.Staged(id=1)},
        {"prepared": sink_pb2.Prepared(transaction=transaction(0))},
        {"committed": sink_pb2.Committed(transaction=transaction(0))},
    ],
    ids=["staged", "prepared", "committed"],
)
async def test_a_second_answer_ends_the_session(again: dict[str, object]) -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        await stage_and_vote(sink, writer, 0)
        await writer.report_commits(committed=0)
        await sink.commit()
        await sink.send(**again)
        assert (await sink.ended())[0] is grpc.StatusCode.FAILED_PRECONDITION
        for client in (sink, writer):
            await client.close()


@pytest.mark.parametrize("late", ["staged", "failed"])
async def test_an_answer_to_a_part_that_was_dropped_meanwhile_is_ignored(late: str) -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        given_up = writer.deliver(0)
        start = await sink.expect("start_part")
        await sink.expect("frame")
        await sink.expect("end_part")
        given_up.cancel()
        assert (await sink.expect("drop_part")).id == start.id
        answers = {"staged": sink_pb2.Staged(id=start.id), "failed": sink_pb2.Failed(part_id=start.id, reason="late")}
        await sink.send(**{late: answers[late]})
        await writer.report_commits()
        again = writer.deliver(0, attempt="b")
        await sink.take_part()
        await again
        for client in (sink, writer):
            await client.close()


@pytest.mark.parametrize("late", ["prepared", "failed"])
async def test_an_answer_to_a_vote_that_was_aborted_meanwhile_is_ignored(late: str) -> None:
    async with serve() as (_, address):
        sink, first = SinkClient(address), Writer(address)
        await sink.hello()
        await first.report_commits()
        delivery = first.deliver(0)
        await sink.take_part()
        await delivery
        vote = first.vote(0)
        await sink.expect("prepare")
        second = Writer(address, run="r2")
        await second.report_commits()
        assert (await status_of(vote))[0] is grpc.StatusCode.ABORTED
        delivery = second.deliver(0)
        await sink.expect("abort")
        answers = {
            "prepared": sink_pb2.Prepared(transaction=transaction(0)),
            "failed": sink_pb2.Failed(transaction=transaction(0), reason="late"),
        }
        await sink.send(**{late: answers[late]})
        await sink.take_part()
        await delivery
        again = second.vote(0)
        await sink.vote()
        await again
        for client in (sink, first, second):
            await client.close()


async def test_a_part_that_failed_in_the_middle_ends_its_delivery_at_once() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()

        await writer.report_commits()

        async def endless() -> AsyncIterator[engine_pb2.DeliverRequest]:
            yield engine_pb2.DeliverRequest(start=writer.start(0))
            for n in itertools.count():
                yield engine_pb2.DeliverRequest(frame=frame(0, n, [b"v"]))

        delivery = asyncio.ensure_future(writer.stub.Deliver(endless(), timeout=DEADLINE_S))
        start = await sink.expect("start_part")
        await sink.send(failed=sink_pb2.Failed(part_id=start.id, reason="the disk is full"))
        code, details = await status_of(delivery)
        assert (code, "the disk is full" in details) == (grpc.StatusCode.ABORTED, True)
        for client in (sink, writer):
            await client.close()


async def test_a_sink_that_reads_nothing_is_ended_and_its_deliveries_may_go_elsewhere() -> None:
    async with serve(Limits(write_timeout_seconds=0.5)) as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        assert (await sink.hello()).read_timeout_ms == 500
        deliveries = [writer.deliver(0, [b"v" * 2**20] * 3, partition=n) for n in range(8)]
        for delivery in deliveries:
            assert (await status_of(delivery))[0] is grpc.StatusCode.UNAVAILABLE
        code, details = await sink.ended()
        assert (code, "SinkBusy" in details) == (grpc.StatusCode.DEADLINE_EXCEEDED, True)
        for client in (sink, writer):
            await client.close()


async def test_a_sink_that_says_that_it_is_busy_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience(monkeypatch)
    async with serve(Limits(write_timeout_seconds=PATIENCE_MS / 1000)) as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        deliveries = [writer.deliver(0, [b"v" * 2**20] * 3, partition=n) for n in range(8)]

        async def tell_busy() -> None:
            while True:
                await sink.send(busy=sink_pb2.SinkBusy())
                await asyncio.sleep(0.01)

        telling = asyncio.create_task(tell_busy())
        await patience.granted(10)
        telling.cancel()
        for _ in deliveries:
            await sink.take_part()
        await asyncio.gather(*deliveries)
        for client in (sink, writer):
            await client.close()
