"""Resumable sources: everything follows a cursor, and an epoch begins only where one is opened at an earlier place."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.gateway.wire import Connector, Engine, frame, serve, until_gone, values_of

from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.frame_pb2 import Begin, Position

STREAM = "orders/0"
RESUMABLE = source_pb2.SOURCE_KIND_RESUMABLE


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with serve() as (_, found):
        yield found


async def opened(address: str, **hello: str) -> tuple[Connector, source_pb2.StreamOpened]:
    source = Connector(address)
    await source.hello(**hello)
    await source.open(STREAM, kind=RESUMABLE)
    return source, await source.expect("stream_opened")


async def lost(address: str, source: Connector) -> None:
    await source.close()
    await until_gone(address, "test-0")


async def attached(address: str, committed: Position | None = None, **who: Any) -> Engine:
    query = Engine(address, **who)
    await query.attach({} if committed is None else {STREAM: committed})
    return query


def confirmed(position: Position) -> Position:
    """The position once its checkpoint records that its batch was read."""
    found = Position()
    found.CopyFrom(position)
    found.ClearField("begin")
    return found


async def test_a_range_says_where_it_begins_and_is_acknowledged_once_it_is_confirmed(address: str) -> None:
    query = await attached(address)
    source, answer = await opened(address)
    assert answer.epoch > 0
    assert not answer.HasField("resume")
    await source.send(frame=frame(1, 1, [b"a", b"b"], cursor=b"2"))
    first = (await query.plan_until(STREAM, 2)).end
    assert (first.epoch, first.sequence, first.cursor, first.begin) == (answer.epoch, 2, b"2", Begin())
    assert first.HasField("begin")
    await source.send(frame=frame(1, 3, [b"c"], cursor=b"3"))
    second = (await query.plan({STREAM: first})).ranges[0].end
    assert second.begin == Begin(epoch=answer.epoch, sequence=2, cursor=b"2")
    await query.plan({STREAM: second}, wait_ms=0)
    ack = (await source.expect("ack")).streams[0].position
    assert (ack.epoch, ack.sequence, ack.cursor) == (answer.epoch, 2, b"2")
    await query.plan({STREAM: confirmed(second)}, wait_ms=0)
    assert (await source.expect("ack")).streams[0].position.sequence == 3
    await source.close()
    await query.close()


async def test_a_connector_that_returns_continues_in_the_same_epoch(address: str) -> None:
    query = await attached(address)
    source, answer = await opened(address)
    await source.send(frame=frame(1, 1, [b"a", b"b"], cursor=b"2"))
    planned = (await query.plan_until(STREAM, 2)).end
    await lost(address, source)
    again, resumed = await opened(address)
    assert resumed.epoch == answer.epoch
    assert (resumed.resume.sequence, resumed.resume.cursor) == (2, b"2")
    assert values_of(await query.fetch(STREAM, None, planned)) == [b"a", b"b"]
    await again.send(frame=frame(1, 2, [b"c"], cursor=b"3"))
    status, details = await again.ended()
    assert (status, "sequence 2" in details) == (grpc.StatusCode.OUT_OF_RANGE, True), "what is held is not sent again"
    await query.close()


async def test_a_restarted_gateway_opens_the_source_after_the_earliest_cursor_under_a_new_epoch(
    address: str,
) -> None:
    ahead = await attached(address, Position(epoch=7, sequence=9, cursor=b"50"), name="ahead")
    behind = await attached(address, Position(epoch=8, sequence=3, cursor=b"30"), name="behind")
    source, answer = await opened(address)
    assert answer.epoch > 8
    assert (answer.resume.epoch, answer.resume.sequence, answer.resume.cursor) == (answer.epoch, 0, b"30")
    assert answer.acknowledged == answer.resume, "both have committed what is before"
    await source.send(frame=frame(1, 1, [b"x"], cursor=b"40"))
    for query in (ahead, behind):
        end = (await query.plan_until(STREAM, 1)).end
        assert (end.epoch, end.cursor) == (answer.epoch, b"40")
        await query.close()
    await source.close()


async def test_a_range_that_was_given_up_fails_its_task_and_is_never_empty(address: str) -> None:
    query = await attached(address, Position(epoch=7, sequence=9, cursor=b"50"))
    source, answer = await opened(address)
    begin = Position(epoch=7, sequence=9, cursor=b"50")
    planned = Position(epoch=7, sequence=12, cursor=b"60", begin=Begin(epoch=7, sequence=9, cursor=b"50"))
    with pytest.raises(grpc.aio.AioRpcError, match="start the query again") as refused:
        await query.fetch(STREAM, begin, planned)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert answer.resume.cursor == b"50"
    await source.close()
    await query.close()


async def test_a_query_that_is_behind_rewinds_the_source_once_the_batch_of_another_is_committed(address: str) -> None:
    ahead = await attached(address, Position(epoch=7, sequence=9, cursor=b"50"), name="ahead")
    source, answer = await opened(address)
    await source.send(frame=frame(1, 1, [b"x", b"y"], cursor=b"70"))
    planned = (await ahead.plan_until(STREAM, 2)).end
    behind = await attached(address, Position(epoch=6, sequence=1, cursor=b"20"), name="behind")
    assert values_of(await ahead.fetch(STREAM, Position(epoch=7, sequence=9, cursor=b"50"), planned)) == [b"x", b"y"]
    assert not (await behind.plan(wait_ms=0)).ranges
    assert not (await ahead.plan({STREAM: planned}, wait_ms=0)).ranges
    rejected = await source.expect("reject")
    assert rejected.reason == source_pb2.REJECT_REASON_REOPEN
    await source.open(STREAM, stream_id=2, kind=RESUMABLE)
    again = await source.expect("stream_opened")
    assert again.epoch > answer.epoch
    assert (again.resume.sequence, again.resume.cursor) == (0, b"20")
    assert not again.HasField("acknowledged") or again.acknowledged == again.resume
    await source.send(frame=frame(2, 1, [b"w", b"x", b"y"], cursor=b"70"))
    for query in (ahead, behind):
        assert (await query.plan_until(STREAM, 3)).end.epoch == again.epoch
        await query.close()
    await source.close()


async def test_a_part_of_the_first_frame_has_the_cursor_after_which_the_source_was_opened(address: str) -> None:
    ahead = await attached(address, Position(epoch=7, sequence=9, cursor=b"50"), name="ahead")
    behind = await attached(address, Position(epoch=7, sequence=3, cursor=b"30"), name="behind")
    source, _ = await opened(address)
    await source.send(frame=frame(1, 1, [b"x", b"y", b"z"], cursor=b"60"))
    end = (await ahead.plan_until(STREAM, 1, max_messages=1)).end
    assert (end.sequence, end.cursor) == (1, b"30")
    for query in (ahead, behind):
        await query.close()
    await source.close()


async def test_a_cursor_that_goes_back_ends_the_session(address: str) -> None:
    query = await attached(address)
    source, _ = await opened(address)
    await source.send(frame=frame(1, 1, [b"a"], cursor=b"2"))
    await source.send(frame=frame(1, 2, [b"b"]))
    await source.send(frame=frame(1, 3, [b"c"], cursor=b"10"))
    status, details = await source.ended()
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "order of their places" in details
    await query.close()


async def test_a_lost_position_that_is_accepted_begins_a_new_epoch(address: str) -> None:
    query = await attached(address, Position(epoch=7, sequence=9, cursor=b"50"), skip_lost=True)
    source, answer = await opened(address)
    await source.send(position_lost=source_pb2.PositionLost(stream_id=1, reason="pruned"))
    await source.expect("reject")
    await source.open(STREAM, stream_id=2, kind=RESUMABLE)
    again = await source.expect("stream_opened")
    assert again.skip_lost
    assert again.epoch > answer.epoch
    await source.close()
    await query.close()


async def test_a_range_that_another_gateway_has_planned_in_a_later_epoch_is_given_up_here(address: str) -> None:
    here = await attached(address, Position(epoch=7, sequence=9, cursor=b"50"), name="here")
    source, answer = await opened(address)
    there = Engine(address, name="there")
    begin = Position(epoch=answer.epoch, sequence=0, cursor=b"50")
    later = Position(epoch=answer.epoch + 10, sequence=2, cursor=b"60", begin=Begin(epoch=begin.epoch, cursor=b"50"))
    waiting = asyncio.create_task(there.fetch(STREAM, begin, later))
    assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
    await source.open(STREAM, stream_id=2, kind=RESUMABLE)
    assert (await source.expect("stream_opened")).epoch > later.epoch
    with pytest.raises(grpc.aio.AioRpcError, match="start the query again"):
        await waiting
    await source.close()
    for query in (here, there):
        await query.close()
