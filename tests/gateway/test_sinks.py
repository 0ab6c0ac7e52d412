"""Sinks: parts, votes, and decisions that are the commit log's alone."""

import asyncio
from contextlib import suppress

import grpc
import grpc.aio
import pytest
from tests.gateway.sink_wire import (
    AT_LEAST_ONCE,
    IDEMPOTENT,
    SinkClient,
    Writer,
    part,
    serving_instances,
    sink_and_source,
    stage_and_vote,
    transaction,
)
from tests.gateway.wire import DEADLINE_S, frame, numbered, serve

from headrace.gateway import Limits
from headrace.protocol.v1 import engine_pb2, sink_pb2


async def until_pending(writer: Writer, committed: int, pending: int) -> None:
    """Settles until `pending` transactions are not visible yet."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if await writer.report_commits(committed) == pending:
                return


async def take_all(sink: SinkClient) -> None:
    """Stages whatever comes."""
    while True:
        await sink.take_part()


async def status_of(call: "asyncio.Task[object]") -> tuple[grpc.StatusCode, str]:
    """How a call failed."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code(), failed.value.details() or ""


async def test_a_transaction_is_staged_voted_for_and_committed_once_it_is_in_the_log() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        deliveries = [writer.deliver(0, [b"a", b"b"], partition=0), writer.deliver(0, [b"c"], partition=1)]
        taken = [await sink.take_part(), await sink.take_part()]
        assert sorted((p.partition, values) for p, values in taken) == [(0, [b"ab"]), (1, [b"c"])]
        await asyncio.gather(*deliveries)
        vote = writer.vote(0, writer.part(0, 0), writer.part(0, 1))
        prepare = await sink.vote()
        assert [p.partition for p in prepare.parts] == [0, 1]
        await vote
        assert await writer.report_commits() == 0, "nothing is in the log yet"
        assert await writer.report_commits(committed=0) == 1
        assert await sink.commit() == transaction(0)
        await until_pending(writer, committed=0, pending=0)
        for client in (sink, writer):
            await client.close()


async def test_only_the_commit_log_decides_whatever_a_reader_plans() -> None:
    async with serve() as (_, address), sink_and_source(address) as (sink, writer, source, reader):
        for batch in (0, 1):
            await source.send(frame=numbered(1, 10 * batch + 1, 10))
            await reader.plan_until("orders/0", 10 * batch + 10)
            await stage_and_vote(sink, writer, batch)
            await reader.plan({"orders/0": 10 * batch + 10}, wait_ms=0)
            assert await writer.report_commits(committed=batch - 1 if batch else None) == 0, "its entry may be another run's"
            assert await writer.report_commits(committed=batch) == 1
            assert await sink.commit() == transaction(batch)


async def test_an_older_plan_that_arrives_late_changes_nothing() -> None:
    async with serve() as (_, address), sink_and_source(address) as (_, _, source, reader):
        await source.send(frame=numbered(1, 1, 10))
        await reader.plan(wait_ms=0)
        await reader.plan_until("orders/0", 10)
        last = reader.plans
        await reader.plan(wait_ms=0, number=last)
        with pytest.raises(grpc.aio.AioRpcError, match="has asked for a plan again since it sent this") as late:
            await reader.plan({"orders/0": 10}, wait_ms=0, number=last - 1)
        assert late.value.code() is grpc.StatusCode.NOT_FOUND
        await reader.plan({"orders/0": 10}, wait_ms=0, number=last + 1)


@pytest.mark.parametrize("restarted", [False, True], ids=["gateway remembers", "gateway restarted"])
@pytest.mark.parametrize("in_log", [True, False])
async def test_a_sink_that_comes_back_learns_what_was_decided(restarted: bool, in_log: bool) -> None:
    holds = {"staged": [part(4)], "prepared": [transaction(4)]}
    async with serve() as (_, address):
        writer = Writer(address) if not restarted else Writer(address, first_batch=4)
        sink = SinkClient(address)
        if not restarted:
            await sink.hello()
            await writer.report_commits(committed=3)
            await stage_and_vote(sink, writer, 4)
            await sink.close()
        later = writer if in_log else Writer(address, run="r2", first_batch=4)
        await later.report_commits(committed=4 if in_log else 3)
        back = SinkClient(address)
        await back.hello(**holds)
        if in_log:
            assert await back.commit() == transaction(4)
        else:
            delivery = later.deliver(4)
            assert (await back.expect("abort")).transaction == transaction(4)
            await back.take_part()
            await delivery
        for client in (back, writer, later):
            await client.close()


async def test_what_another_run_left_is_aborted_before_its_batch_is_delivered_again() -> None:
    async with serve() as (_, address):
        sink, second = SinkClient(address), Writer(address, run="r2")
        await sink.hello(staged=[part(0, attempt="r1/x")], prepared=[transaction(0)])
        delivery = second.deliver(0)
        assert (await sink.expect("abort")).transaction == transaction(0)
        await sink.take_part()
        await delivery
        for client in (sink, second):
            await client.close()


async def test_a_prepared_transaction_of_another_run_is_not_committed_for_the_present_one() -> None:
    async with serve() as (_, address):
        absent, present, second = SinkClient(address), SinkClient(address), Writer(address, run="r2")
        await present.hello("present")
        await second.report_commits()
        await stage_and_vote(present, second, 0)
        await second.report_commits(committed=0)
        await present.commit()
        await absent.hello("absent", staged=[part(0, 1, "r1/x")], prepared=[transaction(0)])
        assert (await absent.expect("abort")).transaction == transaction(0)
        for client in (absent, present, second):
            await client.close()


async def test_a_delivery_ends_when_the_sink_is_lost_and_another_attempt_waits_for_it() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        delivery = writer.deliver(0)
        await sink.expect("start_part")
        await sink.close()
        assert (await status_of(delivery))[0] is grpc.StatusCode.UNAVAILABLE
        again = writer.deliver(0, attempt="b")
        back = SinkClient(address)
        await back.hello()
        taken, _ = await back.take_part()
        assert taken.attempt == "r1/b"
        await again
        for client in (back, writer):
            await client.close()


async def test_a_vote_waits_for_an_instance_that_has_staged_durably() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        vote = writer.vote(0)
        await sink.hello(staged=[writer.part(0)])
        assert [p.attempt for p in (await sink.vote()).parts] == ["r1/a"]
        await vote
        for client in (sink, writer):
            await client.close()


async def test_parts_that_only_a_lost_session_had_fail_the_vote() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello(mode=IDEMPOTENT)
        delivery = writer.deliver(0)
        await sink.take_part()
        await delivery
        await sink.close()
        back = SinkClient(address)
        await back.hello(mode=IDEMPOTENT)
        code, details = await status_of(writer.vote(0))
        assert (code, "run the batch again" in details) == (grpc.StatusCode.ABORTED, True)
        for client in (back, writer):
            await client.close()


async def test_parts_that_are_written_already_are_voted_for_though_their_session_is_lost() -> None:
    async with serve() as (gateway, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello(mode=AT_LEAST_ONCE)
        delivery = writer.deliver(0)
        await sink.take_part()
        await delivery
        await sink.close()
        back = SinkClient(address)
        await back.hello(mode=AT_LEAST_ONCE)
        await writer.vote(0)
        assert [each.outcomes["committed"] for each in gateway.sinks.values()] == [1]
        for client in (back, writer):
            await client.close()


async def test_what_a_sink_cannot_do_is_told_with_its_reason_and_the_pipeline() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address, readers=["totals"])
        await sink.hello()
        delivery = writer.deliver(0)
        start = await sink.expect("start_part")
        await sink.send(failed=sink_pb2.Failed(part_id=start.id, reason="the disk is full"))
        code, details = await status_of(delivery)
        assert (code, "of pipeline query (totals): the disk is full" in details) == (grpc.StatusCode.ABORTED, True)
        sink_again = SinkClient(address)
        await sink_again.hello("other")
        await sink.close()
        delivery = writer.deliver(0, partition=1)
        await sink_again.take_part()
        await delivery
        vote = writer.vote(0, writer.part(0, 1))
        prepare = await sink_again.expect("prepare")
        await sink_again.send(failed=sink_pb2.Failed(transaction=prepare.transaction, reason="no such table"))
        code, details = await status_of(vote)
        assert (code, "batch 0 of pipeline query (totals): no such table" in details) == (grpc.StatusCode.ABORTED, True)
        for client in (sink_again, writer):
            await client.close()


async def test_an_older_checkpoint_is_noticed_and_can_be_accepted() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello(committed=[transaction(7)])
        code, details = await status_of(writer.deliver(7))
        assert (code, "older than the sink" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        accepted = writer.deliver(7, accept_older=True)
        await sink.take_part()
        await accepted
        for client in (sink, writer):
            await client.close()


async def test_an_idempotent_sink_may_be_given_its_last_batch_again() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello(mode=IDEMPOTENT, committed=[transaction(7)])
        assert (await status_of(writer.deliver(6)))[0] is grpc.StatusCode.FAILED_PRECONDITION
        await stage_and_vote(sink, writer, 7)
        for client in (sink, writer):
            await client.close()


async def test_a_delivery_that_is_given_up_is_dropped() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        delivery = writer.deliver(0)
        start = await sink.expect("start_part")
        await sink.expect("frame")
        await sink.expect("end_part")
        delivery.cancel()
        assert (await sink.expect("drop_part")).id == start.id
        for client in (sink, writer):
            await client.close()


async def test_refused_messages_are_told_to_who_delivered_them() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        delivery = writer.deliver(0, [b"a", b"b", b"c"])
        await sink.take_part(refused=[1])
        assert [(r.sequence, r.reason) for r in (await delivery).refused] == [(1, "bad")]
        for client in (sink, writer):
            await client.close()


async def test_instances_share_the_partitions() -> None:
    async with serve() as (_, address):
        instances, writer = [SinkClient(address), SinkClient(address)], Writer(address)
        for name, sink in zip("ab", instances, strict=True):
            await sink.hello(name)
        deliveries = [writer.deliver(0, partition=n) for n in range(4)]
        for n, sink in enumerate(instances):
            assert sorted([(await sink.take_part())[0].partition for _ in range(2)]) == [n, n + 2]
        await asyncio.gather(*deliveries)
        vote = writer.vote(0, *(writer.part(0, n) for n in range(4)))
        for sink in instances:
            await sink.vote()
        await vote
        for client in (*instances, writer):
            await client.close()


async def test_a_sink_that_does_not_read_stops_who_delivers() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        call = writer.stub.Deliver()
        await call.write(engine_pb2.DeliverRequest(start=writer.start(0)))
        written = 0
        with suppress(TimeoutError):
            for n in range(200):
                async with asyncio.timeout(2 if written >= 4 else 60):
                    await call.write(engine_pb2.DeliverRequest(frame=frame(0, n, [b"v" * 2**20])))
                written += 1
        assert 4 <= written < 50, f"{written} MB went into a gateway whose sink reads nothing"
        call.cancel()
        for client in (sink, writer):
            await client.close()


async def test_a_sessions_first_words_are_checked() -> None:
    async with serve() as (_, address):
        first = SinkClient(address)
        await first.hello("a")
        for hello, status in [
            ({"instance": "b", "mode": IDEMPOTENT}, grpc.StatusCode.FAILED_PRECONDITION),
            ({"sink": "no such/name"}, grpc.StatusCode.INVALID_ARGUMENT),
            ({"mode": 0}, grpc.StatusCode.INVALID_ARGUMENT),
        ]:
            client = SinkClient(address)
            words = {"protocol_version": 1, "connector": "test", "sink": "out", "instance": "b", "mode": 1} | hello
            await client.send(hello=sink_pb2.SinkHello(**words))  # type: ignore[arg-type]
            assert (await client.ended())[0] is status
            await client.close()
        newer = SinkClient(address)
        await newer.hello("a")
        assert (await first.ended())[0] is grpc.StatusCode.ABORTED
        for client in (first, newer):
            await client.close()


async def test_a_vote_for_a_part_without_which_its_instance_came_back_fails() -> None:
    async with serve() as (gateway, address):
        sink, other, writer = SinkClient(address), SinkClient(address), Writer(address)
        await sink.hello("a")
        await other.hello("b")
        deliveries = [writer.deliver(0, partition=n) for n in range(2)]
        await sink.take_part()
        await other.take_part()
        instances = [(await delivery).instance for delivery in deliveries]
        assert instances == ["a", "b"]
        await sink.close()
        vote = writer.vote(0, writer.part(0, 0), writer.part(0, 1), instances=instances)
        # It fails by a return that comes while it waits.
        async with asyncio.timeout(DEADLINE_S):
            while not any(each.voting for each in gateway.sinks.values()):  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)
        back = SinkClient(address)
        await back.hello("a")
        code, details = await status_of(vote)
        assert (code, "partitions 0 were staged by instance a, which has reconnected without them" in details) == (
            grpc.StatusCode.ABORTED,
            True,
        )
        for client in (back, other, writer):
            await client.close()


async def test_a_vote_that_waits_for_an_instance_ends_when_another_one_is_against_it() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello("a")
        vote = writer.vote(0)
        refusal = sink_pb2.Failed(transaction=transaction(0), reason="no such part")
        async with asyncio.timeout(DEADLINE_S):
            while not vote.done():
                await sink.send(failed=refusal)
                await asyncio.wait({vote}, timeout=0.05)
        code, details = await status_of(vote)
        assert (code, "instance a: no such part" in details) == (grpc.StatusCode.ABORTED, True)
        for client in (sink, writer):
            await client.close()


async def test_a_vote_names_an_instance_for_each_part_or_for_none() -> None:
    async with serve() as (_, address):
        writer = Writer(address)
        code, details = await status_of(writer.vote(0, writer.part(0, 0), writer.part(0, 1), instances=["a"]))
        assert (code, "2 parts and 1 instance" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        await writer.close()


async def test_one_instance_of_a_batch_idempotent_sink_takes_all_parts_of_a_transaction() -> None:
    async with serve() as (_, address):
        clients, writer = {name: SinkClient(address) for name in "ab"}, Writer(address)
        await clients["a"].hello("a", mode=IDEMPOTENT)
        first = writer.deliver(0, partition=0)
        await clients["a"].take_part()
        await first
        await clients["b"].hello("b", mode=IDEMPOTENT)
        rest = [writer.deliver(0, partition=n) for n in range(1, 6)]
        for _ in rest:
            await clients["a"].take_part()
        assert {(await delivery).instance for delivery in rest} == {"a"}, "a newcomer takes no part of what has begun"
        vote = writer.vote(0, *(writer.part(0, n) for n in range(6)), instances=["a"] * 6)
        assert [p.partition for p in (await clients["a"].vote()).parts] == list(range(6))
        await vote
        for client in (*clients.values(), writer):
            await client.close()


async def test_batches_of_a_pipeline_go_to_the_same_instance_of_a_batch_idempotent_sink() -> None:
    async with serve() as (_, address):
        clients, writer = {name: SinkClient(address) for name in "abc"}, Writer(address)
        for name, client in clients.items():
            await client.hello(name, mode=IDEMPOTENT)
        taking = [asyncio.ensure_future(take_all(client)) for client in clients.values()]
        deliveries = [writer.deliver(batch, partition=n) for batch in range(3) for n in range(4)]
        assert len({(await delivery).instance for delivery in deliveries}) == 1
        for task in taking:
            task.cancel()
        for client in (*clients.values(), writer):
            await client.close()


async def test_the_loss_of_the_instance_that_takes_a_transaction_fails_the_vote() -> None:
    async with serve() as (_, address):
        sink, other, writer = SinkClient(address), SinkClient(address), Writer(address)
        await sink.hello("a", mode=IDEMPOTENT)
        first = writer.deliver(0, partition=0)
        await sink.take_part()
        await first
        await other.hello("b", mode=IDEMPOTENT)
        await sink.close()
        await serving_instances(address, ["b"])
        second = writer.deliver(0, partition=1)
        await other.take_part()
        assert (await second).instance == "b"
        code, details = await status_of(writer.vote(0, writer.part(0, 0), writer.part(0, 1), instances=["a", "b"]))
        assert (code, "partitions 0 were lost with a session; run the batch again" in details) == (grpc.StatusCode.ABORTED, True)
        for client in (other, writer):
            await client.close()


@pytest.mark.parametrize("committed", [0, None], ids=["in the log", "not in the log yet"])
async def test_a_prepared_transaction_whose_parts_are_not_listed_is_committed(committed: int | None) -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await writer.report_commits(committed)
        await sink.hello(prepared=[transaction(0)])
        assert await writer.report_commits(0) == 1
        assert await sink.commit() == transaction(0)
        await until_pending(writer, committed=0, pending=0)
        for client in (sink, writer):
            await client.close()


@pytest.mark.parametrize("decided", ["prepared", "aborted"])
async def test_a_delivery_that_is_under_way_ends_when_its_transaction_is_decided_without_it(decided: str) -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        delivery = writer.deliver(0)
        await sink.take_part()
        await delivery
        late = writer.deliver(0, attempt="late")
        for kind in ("start_part", "frame", "end_part"):
            await sink.expect(kind)
        if decided == "prepared":
            vote = writer.vote(0)
            await sink.vote()
            await vote
        else:
            await writer.report_commits(closed=True)
            await sink.expect("abort")
        assert (await status_of(late))[0] is grpc.StatusCode.ABORTED
        for client in (sink, writer):
            await client.close()


async def test_the_largest_frame_reaches_a_sink_whose_channel_has_grpcs_default_limit() -> None:
    largest = Limits().max_frame_bytes
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        size = largest - frame(0, 0, [b"x" * largest]).ByteSize() + largest
        delivery = writer.deliver(0, [b"x" * size])
        _, values = await sink.take_part()
        await delivery
        assert [len(value) for value in values] == [size]
        code, details = await status_of(writer.deliver(0, [b"x" * (size + 1)], attempt="b"))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert str(largest) in details
        for client in (sink, writer):
            await client.close()


async def test_a_sink_that_a_query_no_longer_writes_to_is_told_what_was_decided_of_what_it_holds() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello(sink="old", staged=[writer.part(0)], prepared=[transaction(0)])
        assert await writer.report_commits(committed=0) == 0
        assert await writer.report_commits(committed=0, former_sinks=["old"]) == 1
        assert await sink.commit() == transaction(0)
        for client in (sink, writer):
            await client.close()
