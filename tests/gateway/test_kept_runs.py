"""A sink that keeps what several runs have prepared of one batch apart: the commit log alone decides whose it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.gateway.sink_wire import SinkClient, Writer, part, serving_instances
from tests.gateway.wire import Connector, Engine, numbered, serve

from headrace.protocol.v1 import engine_pb2, sink_pb2, source_pb2

RUNS = source_pb2.CAPABILITY_RUNS


def of_run(run: str, batch: int = 8) -> sink_pb2.Transaction:
    return sink_pb2.Transaction(pipeline="query", batch=batch, run=run)


def kept(run: str, batch: int = 8) -> sink_pb2.Part:
    """A part that an instance has staged, as it lists it."""
    return sink_pb2.Part(transaction=of_run(run, batch), partition=0, attempt=f"{run}/a")


def segment(run: str, first: int, last: int) -> engine_pb2.RunSegment:
    return engine_pb2.RunSegment(run=run, first_batch=first, last_batch=last)


@asynccontextmanager
async def world() -> AsyncIterator[tuple[str, SinkClient]]:
    async with serve() as (_, address):
        sink = SinkClient(address)
        welcome = await sink.hello(capabilities=[RUNS])
        assert RUNS in welcome.capabilities
        yield address, sink
        await sink.close()


async def stage(sink: SinkClient, writer: Writer, batch: int = 8) -> None:
    delivery = writer.deliver(batch)
    taken, _ = await sink.take_part()
    assert taken == kept(writer.run, batch)
    await delivery


async def prepare(sink: SinkClient, writer: Writer, batch: int = 8) -> None:
    await stage(sink, writer, batch)
    vote = writer.vote(batch)
    prepared = await sink.vote()
    assert (prepared.transaction, list(prepared.parts)) == (of_run(writer.run, batch), [kept(writer.run, batch)])
    await vote


@pytest.mark.parametrize(("owner", "second_votes"), [("r1", True), ("r1", False), ("r2", True)])
async def test_the_run_that_has_written_the_entry_is_committed_and_the_other_one_dropped(owner: str, second_votes: bool) -> None:
    """The second run starts while the first one has its votes; then one of them writes the entry."""
    async with world() as (address, sink):
        first, second, third = (Writer(address, f"r{n}", first_batch=9) for n in (1, 2, 3))
        await first.report_commits(committed=7)
        await prepare(sink, first)
        await second.report_commits(committed=7)
        if second_votes:
            await prepare(sink, second)
        else:
            await stage(sink, second)
        # The second one dies at this moment, or is stopped, and the third one reads in the log who has committed the batch.
        assert await third.report_commits(committed=8, segments=[segment("r1", 0, 7), segment(owner, 8, 8)]) == 1
        told = [await sink.receive(), await sink.receive()]
        commits = [m.commit.transaction for m in told if m.WhichOneof("message") == "commit"]
        aborts = [m.abort.transaction for m in told if m.WhichOneof("message") == "abort"]
        assert commits == [of_run(owner)]
        assert aborts == [of_run("r2" if owner == "r1" else "r1")]
        await sink.send(committed=sink_pb2.Committed(transaction=commits[0]))
        for client in (first, second, third):
            await client.close()


async def test_what_another_run_has_only_staged_is_dropped_once_the_present_one_delivers() -> None:
    async with world() as (address, sink):
        first, second = (Writer(address, f"r{n}", first_batch=8) for n in (1, 2))
        await first.report_commits(committed=7)
        await stage(sink, first)
        await second.report_commits(committed=7)
        delivery = second.deliver(8)
        assert (await sink.expect("abort")).transaction == of_run("r1"), "without a vote it cannot be in the commit log"
        await sink.take_part()
        await delivery
        for client in (first, second):
            await client.close()


async def test_an_instance_that_comes_back_with_what_two_runs_have_prepared_learns_which_one_counts() -> None:
    async with world() as (address, _):
        third = Writer(address, "r3", first_batch=9)
        answer = await third.commit_report(8, segments=[segment("r1", 0, 7)])
        assert answer.pending == 0
        back = SinkClient(address)
        holds = {"staged": [kept("r1"), kept("r2")], "prepared": [of_run("r1"), of_run("r2")]}
        await back.hello("back", capabilities=[RUNS], **holds)
        await serving_instances(address, ["back", "i"])
        answer = await third.commit_report(8, segments=[segment("r1", 0, 7)])
        assert (answer.pending, list(answer.undecided)) == (2, [8]), "nothing is told before the entry's run is known"
        await third.commit_report(8, segments=[segment("r1", 0, 7), segment("r2", 8, 8)])
        assert (await back.expect("abort")).transaction == of_run("r1")
        assert await back.commit() == of_run("r2")
        for client in (third, back):
            await client.close()


async def test_of_a_batch_whose_run_nobody_knows_the_latest_is_committed_by_all_instances() -> None:
    async with world() as (address, first):
        other = SinkClient(address)
        await other.hello("other", capabilities=[RUNS], staged=[kept("r1")], prepared=[of_run("r1")])
        writers = [Writer(address, f"r{n}", first_batch=8) for n in (1, 2)]
        for writer in writers:
            await writer.report_commits(committed=7)
        third = SinkClient(address)
        holds = {"staged": [kept("r1"), kept("r2")], "prepared": [of_run("r1"), of_run("r2")]}
        await third.hello("third", capabilities=[RUNS], **holds)
        await serving_instances(address, ["i", "other", "third"])
        later = Writer(address, "r3", first_batch=9)
        assert await later.report_commits(committed=8, segments=[segment("", 0, 8)]) == 1
        assert (await other.expect("abort")).transaction == of_run("r1")
        assert (await third.expect("abort")).transaction == of_run("r1")
        assert await third.commit() == of_run("r2")
        for client in (first, other, third, later, *writers):
            await client.close()


async def test_a_vote_of_a_run_whose_batch_another_one_has_committed_is_no_loss() -> None:
    async with world() as (address, sink):
        first, second = (Writer(address, f"r{n}", first_batch=9) for n in (1, 2))
        await first.report_commits(committed=7)
        await prepare(sink, first)
        await second.report_commits(committed=7)
        await prepare(sink, second)
        await second.report_commits(committed=8, segments=[segment("r1", 0, 7), segment("r2", 8, 8)])
        assert (await sink.expect("abort")).transaction == of_run("r1")
        assert await sink.commit() == of_run("r2")
        await sink.close()
        back = SinkClient(address)
        await back.hello(capabilities=[RUNS], committed=[of_run("", 8)])
        answer = await second.commit_report(8, segments=[segment("r1", 0, 7), segment("r2", 8, 8)])
        assert (answer.pending, list(answer.lost)) == (0, [])
        assert [(vote.instance, vote.batch) for vote in answer.votes] == [("i", 8)]
        # The same batch of the run that counts is missing: that is a loss.
        await second.commit_report(8, segments=[segment("r1", 0, 7), segment("r2", 8, 8)])
        await back.close()
        empty = SinkClient(address)
        await empty.hello(capabilities=[RUNS], prepared=[of_run("r1")], staged=[kept("r1")])
        assert (await empty.expect("abort")).transaction == of_run("r1")
        answer = await second.commit_report(8, segments=[segment("r1", 0, 7), segment("r2", 8, 8)])
        assert [(vote.instance, vote.batch) for vote in answer.lost] == [("i", 8)]
        for client in (first, second, empty):
            await client.close()


async def test_no_vote_of_an_ended_run_is_credited_with_what_the_next_run_of_its_driver_has_planned() -> None:
    async with world() as (address, sink):
        source, first = Connector(address), Writer(address, "r1", first_batch=0, readers=["p"])
        planner = Engine(address, "p", run=2, run_id="planner of r2", driver="driver")
        await source.hello()
        await first.report_commits()
        # The query has started again, and its reports go to another gateway. Then the vote arrives that the run before had sent.
        await planner.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 0, 10))
        await planner.plan_until("orders/0", 9)
        await prepare(sink, first, 0)
        await planner.plan({"orders/0": 9}, wait_ms=0)
        second = Writer(address, "r2", first_batch=0, readers=["p"])
        await second.report_commits(committed=0, segments=[segment("r2", 0, 0)])
        assert (await sink.expect("abort")).transaction == of_run("r1", 0)
        for client in (source, planner, first, second):
            await client.close()


async def test_a_sink_that_keeps_runs_apart_must_name_them() -> None:
    async with world() as (address, sink):
        writer = Writer(address, "r1")
        await writer.report_commits()
        await stage(sink, writer)
        vote = asyncio.ensure_future(writer.vote(8))
        await sink.expect("prepare")
        await sink.send(prepared=sink_pb2.Prepared(transaction=of_run("")))
        code, text = await sink.ended()
        assert "Prepared answers no request" in text, code
        vote.cancel()
        await asyncio.wait([vote])
        await writer.close()


async def test_a_sink_without_the_capability_sees_no_runs() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address, "r1")
        await sink.hello()
        delivery = writer.deliver(0)
        taken, _ = await sink.take_part()
        await delivery
        assert taken == part(0)
        vote = writer.vote(0)
        assert not (await sink.vote()).transaction.run
        await vote
        await writer.report_commits(committed=0)
        assert not (await sink.commit()).run
        for client in (sink, writer):
            await client.close()
