"""Runs of a query: the present one is heard, and no other changes anything, however late its calls come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from tests.gateway.sink_wire import IDEMPOTENT, SinkClient, Writer, part, stage_and_vote, transaction
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.protocol.v1 import admin_pb2, engine_pb2, sink_pb2, source_pb2

ABORTED = grpc.StatusCode.ABORTED
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@asynccontextmanager
async def world() -> AsyncIterator[tuple[str, SinkClient]]:
    """A gateway's address, and a sink that has said Hello."""
    async with serve() as (_, address):
        sink = SinkClient(address)
        await sink.hello()
        yield address, sink
        await sink.close()


async def stage(sink: SinkClient, writer: Writer, batch: int) -> None:
    delivery = writer.deliver(batch)
    await sink.take_part()
    await delivery


async def refused(call: "asyncio.Future[object]", reason: str = "superseded") -> str:
    """Why a call of a run that is not the present one, or was stopped, failed."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    assert failed.value.code() is ABORTED, failed.value
    assert dict(failed.value.trailing_metadata())["headrace-reason"] == reason
    return failed.value.details() or ""


def segment(run: str, first: int, last: int) -> engine_pb2.RunSegment:
    return engine_pb2.RunSegment(run=run, first_batch=first, last_batch=last)


async def test_an_older_runs_settle_leaves_what_the_present_run_has_prepared() -> None:
    async with world() as (address, sink):
        older, present = Writer(address, "r1"), Writer(address, "r2", first_batch=8)
        await older.report_commits(committed=7)
        await present.report_commits(committed=7)
        await stage_and_vote(sink, present, 8)
        for committed in (7, None, 9):
            details = await refused(asyncio.ensure_future(older.commit_report(committed)))
            assert "run r2, number 2, has taken over" in details
            assert "onOlderCheckpoint" in details
        assert await present.report_commits(committed=8) == 1
        assert await sink.commit() == transaction(8)
        for client in (older, present):
            await client.close()


@pytest.mark.parametrize("call", ["deliver", "vote"])
async def test_an_older_runs_late_task_changes_nothing(call: str) -> None:
    async with world() as (address, sink):
        older, present = Writer(address, "r1"), Writer(address, "r2", first_batch=8)
        await older.report_commits(committed=7)
        await stage(sink, older, 8)
        await present.report_commits(committed=7)
        delivery = present.deliver(8)
        assert (await sink.expect("abort")).transaction == transaction(8)
        await sink.take_part()
        await delivery
        late = older.deliver(8, attempt="late") if call == "deliver" else older.vote(8)
        assert "has taken over" in await refused(late)
        vote = present.vote(8)
        assert [p.attempt for p in (await sink.vote()).parts] == ["r2/a"], (
            "the next that the sink hears is the present run's vote"
        )
        await vote
        for client in (older, present):
            await client.close()


async def test_a_gateway_that_has_restarted_delivers_nothing_before_it_is_told_the_present_run() -> None:
    async with world() as (address, sink):
        older, present = Writer(address, "r1"), Writer(address, "r2", first_batch=8)
        older.assume_others_reported()
        present.assume_others_reported()
        late, waiting, vote = older.deliver(8), present.deliver(8), older.vote(8)
        await present.report_commits(committed=7)
        taken, _ = await sink.take_part()
        assert taken.attempt == "r2/a"
        await waiting
        for stale in (late, vote):
            assert "has taken over" in await refused(stale)
        for client in (older, present):
            await client.close()


async def test_what_an_older_run_is_delivering_ends_when_a_newer_one_reports() -> None:
    async with world() as (address, sink):
        older, present = Writer(address, "r1"), Writer(address, "r2", first_batch=8)
        call = older.stub.Deliver()
        await older.report_commits(committed=7)
        await call.write(engine_pb2.DeliverRequest(start=older.start(8)))
        opened = await sink.expect("start_part")
        waiting = older.deliver(8, partition=1)
        for _ in range(3):
            await sink.receive()
        await present.report_commits(committed=7)
        dropped = {(await sink.expect("drop_part")).id, (await sink.expect("drop_part")).id}
        assert opened.id in dropped
        for stale in (asyncio.ensure_future(_answer(call)), waiting):
            assert "has taken over" in await refused(stale)
        for client in (older, present):
            await client.close()


async def _answer(call: grpc.aio.StreamUnaryCall) -> object:  # type: ignore[type-arg]
    await call.write(engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=0)))
    return await call


async def test_a_vote_that_an_older_run_waits_for_is_not_given_to_it() -> None:
    async with world() as (address, sink):
        older, present = Writer(address, "r1"), Writer(address, "r2", first_batch=8)
        await older.report_commits(committed=7)
        await stage(sink, older, 8)
        vote, lost = older.vote(8), older.vote(9, older.part(9))
        prepare = await sink.expect("prepare")
        await present.report_commits(committed=7)
        await sink.send(prepared=sink_pb2.Prepared(transaction=prepare.transaction))
        for stale in (vote, lost):
            assert "has taken over" in await refused(stale)
        for client in (older, present):
            await client.close()


@pytest.mark.parametrize("call", ["delivery", "vote", "instance"])
async def test_what_a_run_waits_for_ends_once_it_is_stopped_and_nothing_else_changes(call: str) -> None:
    async with world() as (address, sink):
        writer = Writer(address, "r1")
        await writer.report_commits()
        await stage_and_vote(sink, writer, 0)
        if call == "vote":
            await stage(sink, writer, 1)
            waiting: asyncio.Future[object] = writer.vote(1)
            await sink.expect("prepare")
        elif call == "delivery":
            waiting = writer.deliver(1)
            await sink.expect("start_part")
        else:
            await sink.close()
            waiting = writer.vote(0)
        await writer.report_commits(stopped=True)
        assert "run 1 of query query was stopped" in await refused(waiting, "stopped")
        # A report that is older does not start it again.
        await writer.report_commits(stopped=False)
        assert "was stopped" in await refused(writer.vote(0), "stopped")
        assert "was stopped" in await refused(writer.deliver(1), "stopped")
        if call == "instance":
            await writer.close()
            return
        if call == "delivery":
            await sink.expect("frame")
        await writer.report_commits(committed=0, stopped=True)
        while (told := await sink.receive()).WhichOneof("message") != "commit":
            pass
        assert told.commit.transaction == transaction(0)
        following = Writer(address, "r2", first_batch=1)
        await following.report_commits(committed=0, segments=[segment("r1", 0, 0)])
        delivery = following.deliver(1)
        while (told := await sink.receive()).WhichOneof("message") != "end_part":
            pass
        await sink.send(staged=sink_pb2.Staged(id=told.end_part.id))
        await delivery
        for client in (writer, following):
            await client.close()


async def test_what_another_run_has_prepared_is_not_aborted_before_the_present_one_runs_the_batch_again() -> None:
    """A run that ends may still write the commit entry of what it was voted for."""
    async with world() as (address, sink):
        first, second = Writer(address, "r1"), Writer(address, "r2", first_batch=8)
        await first.report_commits(committed=7)
        await stage_and_vote(sink, first, 8)
        assert await second.report_commits(committed=7) == 0
        await stage(sink, second, 9)
        # It begins with batch 9: the run before it has committed batch 8 after all.
        second.first_batch = 9
        assert await second.report_commits(committed=8, segments=[segment("r1", 0, 8)]) == 1
        assert await sink.commit() == transaction(8)
        for client in (first, second):
            await client.close()


async def test_a_batch_that_is_in_the_log_is_not_delivered_again() -> None:
    async with world() as (address, sink):
        writer = Writer(address)
        await writer.report_commits()
        await stage_and_vote(sink, writer, 0)
        assert await writer.report_commits(committed=0) == 1
        for late in (writer.deliver(0, attempt="late"), writer.vote(0)):
            assert "batch 0 of pipeline query is already in the commit log" in await refused(late)
        assert await sink.commit() == transaction(0)
        await writer.close()


@pytest.mark.parametrize(("owner", "told"), [("r1", "commit"), ("r2", "abort"), ("", "commit")])
async def test_what_is_prepared_is_decided_by_the_run_that_committed_the_batch(owner: str, told: str) -> None:
    """Two runs later: run 1 left batch 8 prepared, and somebody has committed it."""
    async with world() as (address, _):
        third = Writer(address, "r3", first_batch=9)
        await third.report_commits(committed=8, segments=[segment("r1", 0, 7), segment(owner, 8, 8)])
        back = SinkClient(address)
        await back.hello("back", staged=[part(8, attempt="r1/x")], prepared=[transaction(8)])
        assert (await back.expect(told)).transaction == transaction(8)
        for client in (third, back):
            await client.close()


async def test_a_batch_without_a_segment_is_undecided_until_it_is_told() -> None:
    async with world() as (address, _):
        back, third = SinkClient(address), Writer(address, "r3", first_batch=9)
        held = [part(5, attempt="r1/x"), part(8, attempt="r1/x")]
        await back.hello("back", staged=held, prepared=[p.transaction for p in held])
        answer = await third.commit_report(8, segments=[segment("r2", 8, 8)])
        assert (await back.expect("abort")).transaction == transaction(8)
        assert (answer.pending, list(answer.undecided)) == (1, [5])
        await third.commit_report(8, segments=[segment("r1", 0, 5), segment("r2", 8, 8)])
        assert await back.commit() == transaction(5)
        for client in (third, back):
            await client.close()


async def test_a_log_that_is_closed_leaves_nothing_open() -> None:
    async with world() as (address, _):
        back, later = SinkClient(address), Writer(address, "r2", first_batch=8)
        await back.hello("back", staged=[part(8, attempt="r1/x")], prepared=[transaction(8)])
        assert await later.report_commits(committed=7, closed=True) == 0
        assert (await back.expect("abort")).transaction == transaction(8)
        for client in (later, back):
            await client.close()


async def test_a_checkpoint_that_was_set_back_takes_over_only_where_that_is_accepted() -> None:
    async with world() as (address, _):
        first, present = Writer(address, "r1"), Writer(address, "r9", first_batch=50)
        back = Writer(address, "other", first_batch=3, number=9)
        again = Writer(address, "z9", first_batch=50, number=9)
        await first.report_commits()
        await present.report_commits(committed=49)
        assert "set onOlderCheckpoint to accept" in await refused(asyncio.ensure_future(back.commit_report(2)))
        await refused(asyncio.ensure_future(first.commit_report(2, accept_older=True)))
        assert await back.report_commits(committed=2, accept_older=True) == 0
        await refused(asyncio.ensure_future(present.commit_report(49, accept_older=True)))
        assert await again.report_commits(committed=49) == 0, "of two with one number, the one with the higher id"
        await refused(asyncio.ensure_future(back.commit_report(2, accept_older=True)))
        for client in (first, present, back, again):
            await client.close()


async def test_a_run_is_told_by_a_number_and_an_id_and_few_segments() -> None:
    async with serve() as (_, address):
        writer = Writer(address, "r1")
        good = {"pipeline": "query", "run": "r1", "run_number": 1, "sinks": ["out"]}
        for wrong in (
            {"run": ""},
            {"run": "a/b"},
            {"run": "x" * 256},
            {"run_number": 0},
            {"segments": [segment("x" * 256, 0, 0)]},
            {"segments": [segment("r", 3, 2)]},
        ):
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await writer.stub.ReportCommits(engine_pb2.ReportCommitsRequest(**good | wrong), timeout=DEADLINE_S)
            assert failed.value.code() is INVALID, wrong
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await writer.stub.ReportCommits(
                engine_pb2.ReportCommitsRequest(**good, segments=[segment("r", 0, 0)] * 257), timeout=DEADLINE_S
            )
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        mixed = [part(0, 0, "r1/a"), part(0, 1, "r2/a")]
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await writer.vote(0, *mixed)
        assert failed.value.code() is INVALID
        await writer.close()


async def test_a_reader_that_was_replaced_never_comes_back() -> None:
    async with serve() as (_, address):
        runs = [Engine(address, run=number, run_id=name) for number, name in [(1, "a"), (2, "b"), (2, "c")]]
        source = Connector(address)
        await source.hello()
        for run in runs:
            await run.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 10))
        present = runs.pop()
        await present.plan_until("orders/0", 10)
        for stale in runs:
            for call in (stale.attach(), stale.plan(wait_ms=0), stale.fetch("orders/0", None, 10), stale.detach()):
                assert "(c) has taken over" in await refused(asyncio.ensure_future(call))
        assert sum(len(f.value_lengths) // 4 for f in await present.fetch("orders/0", None, 10)) == 10
        for client in (*runs, present, source):
            await client.close()


async def test_a_plan_that_waits_ends_when_another_run_of_the_same_number_attaches() -> None:
    async with serve() as (_, address):
        older, newer = Engine(address, run=2, run_id="b"), Engine(address, run=2, run_id="c")
        source = Connector(address)
        await source.hello()
        await older.attach()
        waiting = asyncio.ensure_future(older.plan(wait_ms=20_000))
        await older.status()
        await newer.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 10))
        await refused(waiting)
        for client in (older, newer, source):
            await client.close()


async def test_numbers_of_another_checkpoint_do_not_compare() -> None:
    async with serve() as (_, address):
        old = Engine(address, run=1_795_000_000_000_000_123)
        going_on = Engine(address, run=1_795_000_000_000_000_124, run_id="b")
        anew = Engine(address, run=1, run_id="c", checkpoint="other")
        for run in (old, going_on, anew):
            await run.attach()
        for stale in (old, going_on):
            await refused(asyncio.ensure_future(stale.attach()))
        await anew.plan(wait_ms=0)
        for client in (old, going_on, anew):
            await client.close()


async def test_a_batch_idempotent_sink_is_delivered_to_by_the_present_run_only() -> None:
    async with serve() as (_, address):
        sink, older, present = SinkClient(address), Writer(address, "r1"), Writer(address, "r2")
        await sink.hello(mode=IDEMPOTENT)
        await older.report_commits()
        await present.report_commits()
        await refused(older.deliver(0))
        await stage_and_vote(sink, present, 0)
        for client in (sink, older, present):
            await client.close()


async def test_a_run_that_was_detached_plans_and_fetches_nothing_before_it_has_attached_again() -> None:
    async with serve() as (_, address):
        run, other, source = Engine(address, run=3, run_id="new"), Engine(address, "other"), Connector(address)
        await source.hello()
        await run.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 0, 3))
        await run.plan_until("orders/0", 2)
        waits = asyncio.ensure_future(run.fetch("orders/0", 2, 9))
        await run.status_once(lambda status: status.pipelines[0].state == admin_pb2.PIPELINE_STATE_ATTACHED)
        # A driver that was replaced ends, and names the run of the last committed offset: the one that has replaced it.
        await run.detach()
        for call in (run.plan(wait_ms=100), run.fetch("orders/0", None, 2), run.renew(), waits):
            with pytest.raises(grpc.aio.AioRpcError, match="is not attached to this gateway") as failed:
                await call
            assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        # What another pipeline has committed is dropped meanwhile. The run attaches again, and its source sends it again.
        await other.attach({"orders/0": 2})
        await source.send(frame=numbered(1, 3, 3))
        await other.plan_until("orders/0", 5)
        await other.plan({"orders/0": 5}, wait_ms=0)
        # The fetch has told that the run has committed that much.
        assert (await source.expect("ack")).streams[0].position.sequence == 2
        await run.attach({"orders/0": 2})
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert (await source.expect("stream_opened")).resume.sequence == 2
        await source.send(frame=numbered(2, 3, 3))
        assert (await run.plan_until("orders/0", 5)).messages == 3
        for client in (run, other, source):
            await client.close()
