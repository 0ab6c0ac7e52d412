"""A sink that comes back without what it voted for: that is noticed, fails the query, and is gone on from only when told to."""

import asyncio
from typing import Any

import grpc
import pytest
from tests.gateway.sink_wire import IDEMPOTENT, TWO_PHASE, SinkClient, Writer, serving_instances, transaction
from tests.gateway.test_sinks import stage_and_vote, status_of, until_pending
from tests.gateway.wire import DEADLINE_S, Engine, serve

from headrace.protocol.v1 import engine_pb2, source_pb2

VOTE = engine_pb2.SinkVote(sink="out", instance="i", batch=0)


async def committed_batch(address: str, writer: Writer, mode: Any = TWO_PHASE) -> None:
    """Has an instance vote for batch 0, which is in the commit log then, and commit it; its session ends."""
    sink = SinkClient(address)
    await sink.hello(mode=mode)
    await writer.report_commits()
    await stage_and_vote(sink, writer, 0)
    await writer.report_commits(0)
    if mode == TWO_PHASE:
        await sink.commit()
        await until_pending(writer, 0, 0)
    await sink.close()
    await serving_instances(address, [])


async def until_lost(engine: Engine, instances: list[str]) -> None:
    """Waits until these instances have lost something."""
    async with asyncio.timeout(DEADLINE_S):
        while [lost.instance for sink in (await engine.status()).sinks for lost in sink.lost] != instances:
            pass


async def until_compared(address: str) -> None:
    """Waits until instance `i` is attached: without heartbeats, it has been compared then."""
    await serving_instances(address, ["i"])


async def test_a_sink_that_lost_a_committed_batch_fails_the_query_until_that_is_accepted() -> None:
    async with serve() as (_, address):
        writer, engine = Writer(address), Engine(address)
        await committed_batch(address, writer)
        empty = SinkClient(address)
        await empty.hello()
        await until_compared(address)
        code, details = await status_of(writer.deliver(1))
        assert code is grpc.StatusCode.DATA_LOSS
        assert "instance i of sink out voted for batch 0 of pipeline query" in details
        settled = await writer.commit_report(0)
        assert (settled.pending, list(settled.lost), list(settled.votes)) == (0, [VOTE], [VOTE])
        (shown,) = (await engine.status()).sinks
        assert ([(lost.instance, lost.transaction) for lost in shown.lost], shown.losses) == ([("i", transaction(0))], 1)
        accepted = await writer.commit_report(0, accept_lost=True)
        assert (list(accepted.lost), list(accepted.votes)) == ([], [])
        await stage_and_vote(empty, writer, 1)
        (shown,) = (await engine.status()).sinks
        assert (list(shown.lost), shown.losses) == ([], 1)
        for client in (empty, writer, engine):
            await client.close()


async def test_the_hello_of_an_instance_with_heartbeats_shows_no_loss_before_its_next_message() -> None:
    async with serve() as (_, address):
        writer = Writer(address)
        await committed_batch(address, writer)
        late = SinkClient(address)
        await late.hello(capabilities=[source_pb2.CAPABILITY_HEARTBEAT])
        await until_compared(address)
        assert list((await writer.commit_report(0)).lost) == [], "its process may be gone"
        await late.send(report={})
        engine = Engine(address)
        await until_lost(engine, [VOTE.instance])
        assert list((await writer.commit_report(0)).lost) == [VOTE]
        empty = SinkClient(address)
        await empty.hello(capabilities=[source_pb2.CAPABILITY_HEARTBEAT], committed=[transaction(0)])
        await serving_instances(address, ["i"])
        assert list((await writer.commit_report(0)).lost) == [VOTE], "its process may be gone, too"
        await empty.send(report={})
        await until_lost(engine, [])
        for client in (late, empty, writer, engine):
            await client.close()


async def test_a_delivery_may_accept_what_a_sink_has_lost() -> None:
    async with serve() as (_, address):
        writer = Writer(address)
        await committed_batch(address, writer)
        empty = SinkClient(address)
        await empty.hello()
        delivery = writer.deliver(1, accept_lost=True)
        await empty.take_part()
        await delivery
        for client in (empty, writer):
            await client.close()


async def test_a_sink_that_lost_its_vote_before_the_log_had_the_batch_is_noticed_once_it_has() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        await stage_and_vote(sink, writer, 0)
        await sink.close()
        await serving_instances(address, [])
        empty = SinkClient(address)
        await empty.hello()
        await until_compared(address)
        assert list((await writer.commit_report()).lost) == [], "nothing is decided yet"
        assert list((await writer.commit_report(0)).lost) == [VOTE]
        for client in (empty, writer):
            await client.close()


async def test_what_was_lost_before_another_run_did_the_batch_again_is_no_loss() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        await stage_and_vote(sink, writer, 0)
        await sink.close()
        await serving_instances(address, [])
        empty, other, second = SinkClient(address), SinkClient(address), Writer(address, run="r2")
        await second.report_commits()
        await other.hello("other")
        await stage_and_vote(other, second, 0)
        await empty.hello()
        await serving_instances(address, ["i", "other"])
        settled = await second.commit_report(0)
        assert list(settled.lost) == []
        assert [vote.instance for vote in settled.votes] == ["other"]
        for client in (empty, other, writer, second):
            await client.close()


@pytest.mark.parametrize(
    ("holds", "lost"),
    [
        ({}, True),
        ({"committed": [transaction(3)]}, True),
        ({"committed": [transaction(4)]}, False),
        ({"committed": [transaction(5)]}, False),
        ({"committed": [transaction(9, "other")]}, True),
        ({"prepared": [transaction(4)]}, False),
        ({"mode": IDEMPOTENT}, False),
        ({"mode": IDEMPOTENT, "committed": [transaction(3)]}, True),
    ],
)
async def test_a_gateway_without_memory_learns_from_the_engine_what_a_sink_must_have(holds: dict[str, Any], lost: bool) -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address, first_batch=6)
        await sink.hello(**holds)
        vote = engine_pb2.SinkVote(sink="out", instance="i", batch=4)
        settled = await writer.commit_report(5, votes=[vote])
        assert list(settled.lost) == ([vote] if lost else [])
        for client in (sink, writer):
            await client.close()


async def test_an_instance_that_is_new_to_a_query_has_nothing_to_show() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address, first_batch=6)
        await sink.hello("new")
        settled = await writer.commit_report(5, votes=[engine_pb2.SinkVote(sink="out", instance="i", batch=4)])
        assert list(settled.lost) == []
        await stage_and_vote(sink, writer, 6)
        for client in (sink, writer):
            await client.close()


async def test_a_sink_whose_storage_was_restored_is_taken_in_again() -> None:
    async with serve() as (_, address):
        writer = Writer(address)
        await committed_batch(address, writer)
        empty = SinkClient(address)
        await empty.hello()
        await until_compared(address)
        assert (await status_of(writer.deliver(1)))[0] is grpc.StatusCode.DATA_LOSS
        await empty.close()
        await serving_instances(address, [])
        restored = SinkClient(address)
        await restored.hello(committed=[transaction(0)])
        await until_compared(address)
        await stage_and_vote(restored, writer, 1)
        for client in (restored, writer):
            await client.close()


async def test_a_vote_that_was_lost_while_others_were_asked_is_none() -> None:
    async with serve() as (_, address):
        sink, other, writer = SinkClient(address), SinkClient(address), Writer(address)
        await sink.hello("a")
        await other.hello("b")
        deliveries = [writer.deliver(0, partition=n) for n in range(2)]
        await sink.take_part()
        await other.take_part()
        instances = [(await delivery).instance for delivery in deliveries]
        vote = writer.vote(0, writer.part(0, 0), writer.part(0, 1), instances=instances)
        await sink.vote()
        prepare = await other.expect("prepare")
        await sink.close()
        await serving_instances(address, ["b"])
        empty = SinkClient(address)
        await empty.hello("a")
        await serving_instances(address, ["a", "b"])
        await other.send(prepared={"transaction": prepare.transaction})
        code, details = await status_of(vote)
        assert (code, "were lost by instance a after its vote" in details) == (grpc.StatusCode.ABORTED, True)
        for client in (empty, other, writer):
            await client.close()


@pytest.mark.parametrize(
    "votes",
    [
        [engine_pb2.SinkVote(sink="other", instance="i", batch=0)],
        [engine_pb2.SinkVote(sink="out", instance="", batch=0)],
        [engine_pb2.SinkVote(sink="out", instance="i", batch=6)],
        [engine_pb2.SinkVote(sink="out", instance=f"i{n}", batch=0) for n in range(1025)],
    ],
    ids=["another sink", "no instance", "not in the log", "too many"],
)
async def test_votes_that_cannot_be_are_refused(votes: list[engine_pb2.SinkVote]) -> None:
    async with serve() as (_, address):
        writer = Writer(address)
        code, _ = await status_of(asyncio.ensure_future(writer.commit_report(5, votes=votes)))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        await writer.close()
