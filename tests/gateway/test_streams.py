"""What a connector and a pipeline see of a stream: parking, resume, deduplication, acknowledgement, ownership, replays."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.gateway.wire import REDELIVERING, REPLAYABLE, Connector, Engine, frame, numbered, serve, values_of

from headrace.gateway.config import Limits, StreamRule
from headrace.protocol.v1 import admin_pb2, engine_pb2, frame_pb2, source_pb2

MakeConnector = Callable[[], Connector]
MakeEngine = Callable[..., Engine]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last + 1)]


async def catching_up(source: Connector, pipeline: Engine, kind: Any = REPLAYABLE) -> tuple[Connector, Engine]:
    """A source whose stream is open to a pipeline that ends once it has processed what exists."""
    await pipeline.attach(available_now=True)
    await source.hello()
    await source.open(kind=kind)
    await source.expect("stream_opened")
    return source, pipeline


async def test_a_stream_is_parked_until_a_pipeline_that_reads_it_attaches(connector: MakeConnector, engine: MakeEngine) -> None:
    source, other, pipeline = connector(), engine("other", streams="payments/*"), engine()
    await source.hello()
    await source.open("orders/0")
    await other.attach()
    status = (await other.status()).streams[0]
    assert (status.stream, status.state) == ("orders/0", admin_pb2.STREAM_STATE_PARKED)
    await pipeline.attach()
    opened = await source.expect("stream_opened")
    assert opened.stream_id == 1
    assert not opened.HasField("resume")
    assert not opened.HasField("acknowledged")


async def test_messages_are_planned_fetched_and_acknowledged_by_the_commit(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await source.hello()
    await source.open()
    await pipeline.attach()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 0, 10))
    planned = await pipeline.plan_until("orders/0", 9)
    assert (planned.messages, planned.end.cursor) == (10, b"10")
    assert values_of(await pipeline.fetch("orders/0", None, planned.end)) == numbers(0, 9)
    assert (await pipeline.status()).streams[0].lag_messages == 10
    await pipeline.plan({"orders/0": planned.end}, wait_ms=0)
    ack = (await source.expect("ack")).streams
    assert [(a.stream_id, a.position.sequence, a.position.cursor) for a in ack] == [(1, 9, b"10")]
    status = (await pipeline.status()).streams[0]
    assert (status.acknowledged_messages, status.lag_messages, status.lag_bytes) == (10, 0, 0)


async def test_the_checkpoint_says_where_to_resume_and_what_was_acknowledged(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach({"orders/0": 41})
    await source.hello()
    await source.open()
    opened = await source.expect("stream_opened")
    assert (opened.resume.sequence, opened.acknowledged.sequence) == (41, 41)


async def test_what_lies_at_or_below_the_resume_position_is_dropped_and_counted(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach({"orders/0": 41})
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 30, 10))
    await source.send(frame=numbered(1, 40, 10))
    planned = await pipeline.plan_until("orders/0", 49)
    assert planned.messages == 8
    assert values_of(await pipeline.fetch("orders/0", 41, planned.end)) == numbers(42, 49)
    assert (await pipeline.status()).streams[0].duplicate_messages == 12


async def test_a_new_session_of_the_instance_takes_over_and_resumes_after_what_was_received(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    older, newer, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    await older.hello()
    await older.open()
    await older.expect("stream_opened")
    await older.send(frame=numbered(1, 0, 10))
    await pipeline.plan_until("orders/0", 9)
    await newer.hello()
    await newer.open(stream_id=7)
    opened = await newer.expect("stream_opened")
    assert (opened.stream_id, opened.resume.sequence) == (7, 9)
    assert (await older.ended())[0] is grpc.StatusCode.ABORTED
    await newer.send(frame=numbered(7, 10, 10))
    planned = await pipeline.plan_until("orders/0", 19)
    assert values_of(await pipeline.fetch("orders/0", None, planned.end)) == numbers(0, 19)


async def test_another_instance_is_told_who_owns_the_stream(connector: MakeConnector, engine: MakeEngine) -> None:
    owner, other, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    await owner.hello("first")
    await owner.open()
    await owner.expect("stream_opened")
    await other.hello("second")
    await other.open()
    reject = await other.expect("reject")
    assert reject.reason == source_pb2.REJECT_REASON_OWNED
    assert "'first'" in reject.message
    assert reject.retry_after_ms > 0


async def test_a_restarted_gateway_serves_the_batch_in_flight_from_the_fetch_alone(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await source.hello()
    await source.open()
    fetching = pipeline.fetch("orders/0", 9, 19)

    async def resend() -> None:
        opened = await source.expect("stream_opened")
        assert opened.resume.sequence == 9
        await source.send(frame=numbered(1, 10, 15))

    import asyncio

    frames, _ = await asyncio.gather(fetching, resend())
    assert values_of(frames)[:10] == numbers(10, 19)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await pipeline.plan({"orders/0": 19})
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    await pipeline.attach({"orders/0": 19})
    assert (await source.expect("ack")).streams[0].position.sequence == 19


async def test_a_pipeline_that_starts_earlier_has_the_source_rewound(connector: MakeConnector, engine: MakeEngine) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await first.attach({"orders/0": 99})
    await source.hello()
    await source.open()
    assert (await source.expect("stream_opened")).resume.sequence == 99
    await second.attach({"orders/0": 49})
    assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
    await source.open(stream_id=2)
    assert (await source.expect("stream_opened")).resume.sequence == 49
    await source.send(frame=numbered(2, 50, 100))
    planned = await second.plan_until("orders/0", 149)
    assert planned.messages == 100
    assert (await first.plan_until("orders/0", 149)).messages == 50
    assert values_of(await second.fetch("orders/0", 49, planned.end)) == numbers(50, 149)


async def test_a_stream_is_acknowledged_when_every_pipeline_has_committed(connector: MakeConnector, engine: MakeEngine) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await first.attach()
    await second.attach()
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 0, 10))
    await first.plan_until("orders/0", 9)
    await second.plan_until("orders/0", 9)
    await first.plan({"orders/0": 9}, wait_ms=0)
    assert not (await first.status()).streams[0].HasField("acknowledged")
    await second.plan({"orders/0": 4}, wait_ms=0)
    assert (await source.expect("ack")).streams[0].position.sequence == 4
    await second.plan({"orders/0": 9}, wait_ms=0)
    assert (await source.expect("ack")).streams[0].position.sequence == 9


async def test_a_declared_pipeline_holds_acknowledgements_before_it_ever_attached() -> None:
    rules = [StreamRule(pattern="orders/*", pipelines=("late",))]
    async with serve(rules=rules) as (_, address):
        source, early, late = Connector(address), Engine(address, "early"), Engine(address, "late")
        await early.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 0, 10))
        await early.plan_until("orders/0", 9)
        await early.plan({"orders/0": 9}, wait_ms=0)
        stream = (await early.status()).streams[0]
        assert not stream.HasField("acknowledged")
        assert "late" in stream.detail
        await late.attach()
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert not (await source.expect("stream_opened")).HasField("resume"), "what nobody held for it comes again"
        await source.send(frame=numbered(2, 0, 10))
        await late.plan_until("orders/0", 9)
        await late.plan({"orders/0": 9}, wait_ms=0)
        assert (await source.expect("ack")).streams[0].position.sequence == 9
        for client in (source, early, late):
            await client.close()


async def test_a_detached_pipeline_holds_acknowledgements_until_it_is_forgotten(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, stays, leaves = connector(), engine("stays"), engine("leaves")
    await stays.attach()
    await leaves.attach()
    await leaves.stub.Detach(engine_pb2.DetachRequest(pipeline=leaves.who))
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 0, 10))
    await stays.plan_until("orders/0", 9)
    await stays.plan({"orders/0": 9}, wait_ms=0)
    assert "leaves" in (await stays.status()).streams[0].detail
    await stays.admin.ForgetPipeline(admin_pb2.ForgetPipelineRequest(pipeline="leaves"))
    assert (await source.expect("ack")).streams[0].position.sequence == 9


async def test_a_newer_run_replaces_the_older_one(engine: MakeEngine) -> None:
    older, newer = engine(run=1), engine(run=2)
    await older.attach()
    await newer.attach()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await older.plan(wait_ms=0)
    assert error.value.code() is grpc.StatusCode.ABORTED


async def test_limits_are_shared_and_cut_frames_exactly(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    for stream_id in (1, 2):
        await source.open(f"orders/{stream_id}", stream_id)
        await source.expect("stream_opened")
        await source.send(frame=frame(stream_id, 5, [b"v"] * 100, step=10, cursor=b"end"))
    await pipeline.plan_until("orders/2", 995)
    ranges = (await pipeline.plan(max_messages=30)).ranges
    assert sorted((r.stream, r.messages, r.end.sequence) for r in ranges) == [("orders/1", 15, 145), ("orders/2", 15, 145)]
    assert not any(r.end.HasField("cursor") for r in ranges)
    ranges = (await pipeline.plan({r.stream: r.end for r in ranges}, max_messages=1)).ranges
    assert [(r.messages, r.end.sequence) for r in ranges] == [(1, 155)]


async def test_messages_of_a_lost_redelivering_session_come_again_under_a_new_epoch(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    first, second, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    await first.hello()
    await first.open(kind=REDELIVERING)
    opened = await first.expect("stream_opened")
    await first.send(frame=numbered(1, 1, 10))
    planned = await pipeline.plan_until("orders/0", 10)
    assert planned.end.epoch == opened.epoch > 0
    await first.close()
    await second.hello()
    await second.open(kind=REDELIVERING)
    again = await second.expect("stream_opened")
    assert again.epoch > opened.epoch
    assert await pipeline.fetch("orders/0", None, planned.end) == []
    await pipeline.plan({"orders/0": planned.end}, wait_ms=0)
    await second.send(frame=numbered(1, 1, 3))
    planned = await pipeline.plan_until("orders/0", 3)
    assert values_of(await pipeline.fetch("orders/0", (opened.epoch, 10), planned.end)) == numbers(1, 3)
    await pipeline.plan({"orders/0": planned.end}, wait_ms=0)
    assert (await second.expect("ack")).streams[0].position.sequence == 3


async def test_a_range_that_is_lost_fails_with_stream_and_range(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach({"orders/0": 9}, {"orders/0": 19})
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(position_lost=source_pb2.PositionLost(stream_id=1, earliest_sequence=15, reason="pruned"))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await pipeline.fetch("orders/0", 9, 19)
    assert error.value.code() is grpc.StatusCode.DATA_LOSS
    for part in ("orders/0", "after sequence 9", "up to sequence 19", "15", "pruned", "failOnDataLoss"):
        assert part in (error.value.details() or "")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await pipeline.plan()
    assert error.value.code() is grpc.StatusCode.DATA_LOSS


async def test_a_range_that_is_lost_can_be_skipped_and_is_counted(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine(skip_lost=True)
    await pipeline.attach({"orders/0": 9}, {"orders/0": 19})
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(position_lost=source_pb2.PositionLost(stream_id=1, earliest_sequence=15))
    assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
    await source.open(stream_id=2)
    opened = await source.expect("stream_opened")
    assert opened.skip_lost
    await source.send(frame=numbered(2, 15, 10))
    assert values_of(await pipeline.fetch("orders/0", 9, 19))[:5] == numbers(15, 19)
    assert (await pipeline.status()).streams[0].losses == 1


async def test_a_run_that_catches_up_ends_with_what_existed(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = await catching_up(connector(), engine())
    await source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=9, messages=10))
    assert not (await pipeline.plan(wait_ms=0)).exhausted
    await source.send(frame=numbered(1, 0, 10))
    planned = await pipeline.plan_until("orders/0", 9)
    response = await pipeline.plan({"orders/0": planned.end})
    assert (list(response.ranges), response.exhausted) == ([], True)


@pytest.mark.parametrize("kind", [REPLAYABLE, REDELIVERING])
async def test_a_run_that_catches_up_with_an_empty_stream_ends(connector: MakeConnector, engine: MakeEngine, kind: Any) -> None:
    source, pipeline = await catching_up(connector(), engine(), kind=kind)
    assert not (await pipeline.plan(wait_ms=0)).exhausted
    await source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=0, messages=0))
    response = await pipeline.plan()
    assert (list(response.ranges), response.exhausted) == ([], True)


async def test_a_run_that_catches_up_waits_for_message_0(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = await catching_up(connector(), engine())
    await source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=0, messages=1))
    assert not (await pipeline.plan(wait_ms=100)).exhausted
    await source.send(frame=numbered(1, 0, 1))
    assert (await pipeline.plan_until("orders/0", 0)).messages == 1
    assert (await pipeline.plan(wait_ms=0)).exhausted


async def test_a_stream_that_ended_is_shown_as_ended(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 0, 1))
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    await pipeline.plan_until("orders/0", 0)
    await pipeline.plan({"orders/0": 0}, wait_ms=0)
    assert (await source.expect("ack")).streams[0].position.sequence == 0
    await source.send(goodbye=source_pb2.Goodbye())
    assert (await source.ended())[0] is grpc.StatusCode.OK
    assert (await pipeline.status()).streams[0].state == admin_pb2.STREAM_STATE_ENDED


async def test_the_end_of_a_stream_is_told_until_the_checkpoint_has_it(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline, plain = connector(), engine(), engine("plain")
    await pipeline.attach()
    await plain.attach()
    await source.hello()
    await source.open("orders/0", stream_id=1)
    await source.open("orders/1", stream_id=2)
    for stream_id in (1, 2):
        assert (await source.expect("stream_opened")).stream_id == stream_id
    await source.send(frame=numbered(1, 0, 2))
    first = await pipeline.plan(tell_ends=True)
    assert [(r.stream, r.messages, r.ended) for r in first.ranges] == [("orders/0", 2, False)]
    assert not first.all_ended
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    for _ in range(2):
        told = await pipeline.plan({"orders/0": 1}, tell_ends=True)
        assert [(r.stream, r.end.sequence, r.messages, r.ended) for r in told.ranges] == [("orders/0", 1, 0, True)]
    assert not (await plain.plan({"orders/0": 1}, wait_ms=0)).ranges, "who does not keep it is not told"
    assert not (await pipeline.plan({"orders/0": 1}, ended=["orders/0"], tell_ends=True, wait_ms=0)).ranges

    await source.send(frame=numbered(2, 0, 3))
    await source.send(close_stream=source_pb2.CloseStream(stream_id=2, end_of_stream=True))
    await pipeline.plan_until("orders/1", 2)
    part = await pipeline.plan(tell_ends=True, max_messages=2)
    assert [(r.stream, r.messages, r.ended) for r in part.ranges] == [("orders/1", 2, False)]
    assert not part.all_ended
    rest = await pipeline.plan({"orders/1": 1}, tell_ends=True)
    assert [(r.stream, r.messages, r.ended) for r in rest.ranges] == [("orders/1", 1, True)]
    assert rest.all_ended
    done = await pipeline.plan({"orders/1": 2}, ended=["orders/1"], tell_ends=True, wait_ms=0)
    assert (list(done.ranges), done.all_ended) == ([], True)

    await source.send(goodbye=source_pb2.Goodbye())
    again = connector()
    await again.hello()
    await again.open("orders/0", stream_id=1)
    opened = await again.expect("stream_opened")
    assert opened.resume.sequence == 1, "a stream that ended continues where it was"
    assert not (await pipeline.plan(tell_ends=True, wait_ms=0)).all_ended
    await again.send(frame=numbered(1, 2, 3))
    more = await pipeline.plan(tell_ends=True)
    assert [(r.stream, r.end.sequence, r.ended) for r in more.ranges] == [("orders/0", 4, False)]


async def test_a_gateway_that_has_restarted_learns_which_streams_have_ended(connector: MakeConnector, engine: MakeEngine) -> None:
    pipeline, source = engine(), connector()
    await pipeline.attach({"orders/0": 4, "orders/1": 5}, ended=["orders/0", "orders/1", "orders/2"])
    assert (await pipeline.plan(tell_ends=True, wait_ms=0)).all_ended
    await pipeline.attach({"orders/0": 4, "orders/1": 5}, ended=["orders/0"])
    assert not (await pipeline.plan(tell_ends=True, wait_ms=0)).all_ended
    await source.hello()
    await source.open("orders/0", stream_id=1)
    await source.open("orders/1", stream_id=2)
    for stream_id in (1, 2):
        assert (await source.expect("stream_opened")).stream_id == stream_id
        await source.send(close_stream=source_pb2.CloseStream(stream_id=stream_id, end_of_stream=True))
    told = await pipeline.plan(tell_ends=True)
    assert [(r.stream, r.end.sequence, r.messages, r.ended) for r in told.ranges] == [("orders/1", 5, 0, True)]
    assert told.all_ended


async def test_a_run_that_has_everything_waits_a_little_for_the_end_of_its_streams(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = await catching_up(connector(), engine())
    await source.send(frame=numbered(1, 0, 1))
    await source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=0))
    await pipeline.plan_until("orders/0", 0, tell_ends=True)
    assert not (await pipeline.plan({"orders/0": 0}, tell_ends=True, wait_ms=0)).exhausted
    assert (await pipeline.plan(wait_ms=0)).exhausted, "who does not want to know does not wait"
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    told = await pipeline.plan(tell_ends=True)
    assert (told.exhausted, told.all_ended, [r.ended for r in told.ranges]) == (True, True, [True])
    other = engine("other")
    await other.attach({"orders/0": 0, "orders/9": 3}, available_now=True)
    await source.expect("ack")
    await source.open("orders/9", stream_id=9)
    await source.expect("stream_opened")
    await source.send(backlog=source_pb2.Backlog(stream_id=9, latest_sequence=3))
    async with asyncio.timeout(60):
        while not (answer := await other.plan(tell_ends=True, wait_ms=50)).exhausted:
            assert not answer.all_ended


async def test_streams_that_were_closed_do_not_count() -> None:
    async with serve(Limits(max_streams_per_session=2)) as (_, address):
        source = Connector(address)
        await source.hello()
        for hour in range(5):
            await source.open(f"orders/{hour}", hour)
            await source.send(close_stream=source_pb2.CloseStream(stream_id=hour, end_of_stream=True))
        await source.open("orders/a", 10)
        await source.open("orders/b", 11)
        await source.open("orders/c", 12)
        code, text = await source.ended()
        assert (code, "max_streams_per_session" in text) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        await source.close()


async def test_acknowledgements_of_a_stream_that_was_closed_come_though_another_has_it_now(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    first, second, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    await first.hello("first")
    await first.open(stream_id=3)
    await first.expect("stream_opened")
    await first.send(frame=numbered(3, 0, 10))
    await first.send(close_stream=source_pb2.CloseStream(stream_id=3))
    await pipeline.plan_until("orders/0", 9)
    await second.hello("second")
    await second.open()
    assert (await second.expect("stream_opened")).resume.sequence == 9
    await second.send(frame=numbered(1, 10, 10))
    await pipeline.plan_until("orders/0", 19)
    await pipeline.plan({"orders/0": 4}, wait_ms=0)
    assert [(a.stream_id, a.position.sequence) for a in (await first.expect("ack")).streams] == [(3, 4)]
    await pipeline.plan({"orders/0": 19}, wait_ms=0)
    assert [(a.stream_id, a.position.sequence) for a in (await first.expect("ack")).streams] == [(3, 9)]
    assert (await second.expect("ack")).streams[0].position.sequence == 4
    assert (await second.expect("ack")).streams[0].position.sequence == 19


async def test_a_redelivering_source_learns_the_last_position_of_a_checkpoint(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    first, second, third = connector(), connector(), connector()
    behind, ahead = engine("behind"), engine("ahead")
    await behind.attach()
    await ahead.attach()
    await first.hello()
    await first.open(kind=REDELIVERING)
    opened = await first.expect("stream_opened")
    assert not opened.HasField("earlier")
    for start, cursor in ((1, b"here"), (11, b"there")):
        sent = numbered(1, start, 10)
        sent.cursor = cursor
        await first.send(frame=sent)
    await behind.plan_until("orders/0", 20)
    # A range that ends within a frame has its cursor: it is not a place to seek to.
    planned = await behind.plan_until("orders/0", 4, max_messages=4)
    assert (planned.end.sequence, planned.end.cursor) == (4, b"here")
    await behind.plan({"orders/0": planned.end}, wait_ms=0)
    planned = await ahead.plan_until("orders/0", 13, max_messages=13)
    assert (planned.end.sequence, planned.end.cursor) == (13, b"there")
    await ahead.plan({"orders/0": planned.end}, wait_ms=0)
    await first.close()

    await second.hello()
    await second.open(kind=REDELIVERING)
    opened = await second.expect("stream_opened")
    assert opened.earlier == planned.end
    assert opened.epoch > planned.end.epoch
    assert not opened.HasField("resume")
    sent = numbered(1, 1, 10)
    sent.cursor = b"elsewhere"
    await second.send(frame=sent)
    within = (await ahead.plan_until("orders/0", 2, max_messages=2)).end
    assert (within.epoch, within.cursor) == (opened.epoch, b"elsewhere")
    await ahead.plan({"orders/0": within}, wait_ms=0)
    await second.close()

    await third.hello()
    await third.open(kind=REDELIVERING)
    assert (await third.expect("stream_opened")).earlier == within


async def test_a_fresh_gateway_learns_the_position_that_a_redelivering_source_had_from_the_checkpoint(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    queue, pipeline = connector(), engine()
    committed = frame_pb2.Position(epoch=7, sequence=9, cursor=b"here")
    await pipeline.attach({"orders/0": committed})
    await queue.hello()
    await queue.open(kind=REDELIVERING)
    opened = await queue.expect("stream_opened")
    assert (opened.earlier, opened.epoch > 7) == (committed, True)


async def test_a_fresh_gateway_learns_it_from_a_fetch_too(connector: MakeConnector, engine: MakeEngine) -> None:
    queue, pipeline = connector(), engine()
    committed = frame_pb2.Position(epoch=7, sequence=9, cursor=b"here")
    fetching = asyncio.ensure_future(pipeline.fetch("orders/0", committed, (7, 20)))
    await queue.hello()
    await queue.open(kind=REDELIVERING)
    assert (await queue.expect("stream_opened")).earlier == committed
    fetching.cancel()
    with contextlib.suppress(asyncio.CancelledError, grpc.RpcError):
        await fetching


async def test_a_queue_that_was_closed_and_waits_for_acknowledgements_goes_to_nobody_else(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    first, second, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    await first.hello("first")
    await first.open(kind=REDELIVERING)
    await first.expect("stream_opened")
    await first.send(frame=numbered(1, 1, 10))
    end = (await pipeline.plan_until("orders/0", 10)).end
    await first.send(close_stream=source_pb2.CloseStream(stream_id=1))
    await second.hello("second")
    await second.open(kind=REDELIVERING)
    rejected = await second.expect("reject")
    assert (rejected.reason, "'first'" in rejected.message) == (source_pb2.REJECT_REASON_OWNED, True)
    await pipeline.plan({"orders/0": end}, wait_ms=0)
    assert (await first.expect("ack")).streams[0].position.sequence == 10
    await second.open(stream_id=2, kind=REDELIVERING)
    assert (await second.expect("stream_opened")).epoch > end.epoch


async def test_a_position_that_a_former_owner_has_lost_does_not_concern_the_new_one(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    first, second, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    await first.hello("first")
    await first.open()
    await first.expect("stream_opened")
    await first.send(close_stream=source_pb2.CloseStream(stream_id=1))
    await second.hello("second")
    await second.open()
    await second.expect("stream_opened")
    await first.send(position_lost=source_pb2.PositionLost(stream_id=1, earliest_sequence=50, reason="late"))
    assert (await first.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
    await second.send(frame=numbered(1, 0, 10))
    assert (await pipeline.plan_until("orders/0", 9)).messages == 10
    assert (await pipeline.status()).streams[0].state == admin_pb2.STREAM_STATE_LIVE


async def test_sequence_0_of_a_redelivering_source_is_refused_rather_than_dropped(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    await source.open(kind=REDELIVERING)
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 0, 3))
    code, text = await source.ended()
    assert (code, "from 1" in text) == (grpc.StatusCode.OUT_OF_RANGE, True)


async def test_a_run_that_catches_up_waits_for_the_connector_of_a_stream_that_its_checkpoint_knows_and_that_has_not_ended(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach({"orders/0": 9, "orders/1": 5}, ended=["orders/1"], available_now=True)
    assert not (await pipeline.plan(wait_ms=0)).exhausted
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 10, 5))
    await source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=14))
    assert (await pipeline.plan_until("orders/0", 14)).messages == 5
    assert (await pipeline.plan({"orders/0": 14}, wait_ms=0)).exhausted


async def test_a_plan_names_the_streams_that_are_open_and_have_no_messages_until_they_end(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    for stream_id in (1, 2, 3):
        await source.open(f"orders/{stream_id}", stream_id)
        await source.expect("stream_opened")
    await source.open("trades/0", 4)
    await source.send(frame=numbered(1, 0, 5))
    await pipeline.plan_until("orders/1", 4)
    assert not (await pipeline.plan()).opened, "a query without event time does not need them"
    planned = await pipeline.plan(tell_ends=True)
    assert list(planned.opened) == ["orders/2", "orders/3"]
    planned = await pipeline.plan(tell_ends=True, awaited=["orders/2", "orders/3"])
    assert (list(planned.opened), list(planned.ended_unread)) == ([], [])
    await source.send(close_stream=source_pb2.CloseStream(stream_id=3, end_of_stream=True))
    await source.send(close_stream=source_pb2.CloseStream(stream_id=2))
    await source.send(frame=numbered(1, 5, 5))
    await pipeline.plan_until("orders/1", 9, tell_ends=True, awaited=["orders/2", "orders/3"])
    planned = await pipeline.plan({"orders/1": 4}, tell_ends=True, awaited=["orders/2", "orders/3"])
    assert list(planned.ended_unread) == ["orders/3"], "orders/2 is closed, and may come back"
