"""Streams that have ended, and that their source will never offer again, are forgotten everywhere once they are committed."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, position

from headrace.protocol.v1 import admin_pb2, frame_pb2, source_pb2

MakeConnector = Callable[[], Connector]
MakeEngine = Callable[..., Engine]


def at(stream: str, sequence: int) -> frame_pb2.StreamPosition:
    return frame_pb2.StreamPosition(stream=stream, position=position(sequence))


async def opened(source: Connector, stream_id: int) -> source_pb2.StreamOpened:
    """The answer for a stream; acknowledgements and credit in between are passed over."""
    while True:
        response = await source.receive()
        if response.HasField("stream_opened") and response.stream_opened.stream_id == stream_id:
            return response.stream_opened


async def send_all(source: Connector, stream: str, stream_id: int, last: int, *, gone: bool = True) -> None:
    """A stream from its first message to its end."""
    await source.open(stream, stream_id=stream_id)
    assert not (await opened(source, stream_id)).HasField("resume")
    await source.send(frame=numbered(stream_id, 0, last + 1))
    await source.send(close_stream=source_pb2.CloseStream(stream_id=stream_id, end_of_stream=True, gone=gone))


async def names(engine: Engine) -> list[str]:
    return sorted(stream.stream for stream in (await engine.status()).streams)


async def idle(engine: Engine, committed: dict[str, Any] | None = None, **given: Any) -> list[str]:
    """The forgotten streams that a call names which plans nothing."""
    answer = await engine.plan(committed, wait_ms=0, **given)
    assert not answer.ranges
    return list(answer.forgotten)


async def test_a_stream_that_is_gone_is_forgotten_once_all_have_committed_it(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await first.attach()
    await second.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    await send_all(source, "orders/2", 2, 0, gone=False)
    await first.plan_until("orders/1", 2, tell_ends=True)
    await first.plan_until("orders/2", 0, tell_ends=True)
    await second.plan_until("orders/1", 2)
    await source.open("orders/3", stream_id=3)
    await opened(source, 3)
    await source.send(frame=numbered(3, 0, 1))
    await first.plan_until("orders/3", 0, tell_ends=True)
    ready = await first.plan({"orders/1": 2, "orders/2": 0}, ended=["orders/1"], tell_ends=True)
    assert "orders/3" in [r.stream for r in ready.ranges]
    assert not ready.forgotten, "the other one has not committed it"
    await first.plan({"orders/1": 2}, tell_ends=True)
    await second.plan({"orders/1": 2, "orders/2": 0})

    unended = await first.plan(tell_ends=True)
    assert unended.ranges
    assert not unended.forgotten, "its end is not in the checkpoint yet"
    told = await first.plan({"orders/1": 2, "orders/2": 0}, ended=["orders/1", "orders/2"], tell_ends=True)
    assert ([r.stream for r in told.ranges], list(told.forgotten)) == (["orders/3"], ["orders/1"])
    repeated = await first.plan(tell_ends=True)
    assert list(repeated.forgotten) == ["orders/1"], "an answer may be lost"

    await first.plan({"orders/3": 0}, forgotten=[at("orders/1", 2)], tell_ends=True, wait_ms=0)
    assert await names(first) == ["orders/1", "orders/2", "orders/3"], "the other one's checkpoint has it still"
    assert list((await second.plan()).forgotten) == ["orders/1"]
    await second.plan({"orders/3": 0}, forgotten=[at("orders/1", 2)], wait_ms=0)
    assert await names(first) == ["orders/2", "orders/3"]


async def test_a_query_that_has_dropped_an_ended_stream_neither_holds_it_nor_waits_for_the_others(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await first.attach()
    await second.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    for one in (first, second):
        await one.plan_until("orders/1", 2, tell_ends=True)
        await one.plan({"orders/1": 2}, ended=["orders/1"], tell_ends=True, wait_ms=0)
    await send_all(source, "orders/2", 2, 0)
    dropped = await first.plan_until("orders/2", 0, tell_ends=True)
    assert dropped.messages == 1
    over = await first.plan({"orders/2": 0}, ended=["orders/2"], forgotten=[at("orders/1", 2)], tell_ends=True, wait_ms=0)
    assert over.all_ended
    status = await first.status()
    held = {stream.stream: [holder.pipeline for holder in stream.holders] for stream in status.streams}
    assert held == {"orders/1": [], "orders/2": ["second"]}
    await first.detach()
    assert {stream.stream: stream.detail for stream in (await second.status()).streams}["orders/1"] == ""


async def test_a_query_that_has_dropped_a_stream_which_another_gateway_served_does_not_hold_it(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await second.attach({"orders/1": 2})
    # Its checkpoint has dropped the stream since: the gateway before this one reported it, and this one learns of it next.
    await first.attach({"orders/1": 2})
    await source.hello()
    await source.open("orders/1", stream_id=1)
    assert (await opened(source, 1)).resume.sequence == 2
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    async with asyncio.timeout(DEADLINE_S):
        while (await first.status()).streams[0].state != admin_pb2.STREAM_STATE_ENDED:
            pass
    await first.plan(forgotten=[at("orders/1", 2)], tell_ends=True, wait_ms=0)
    (stream,) = (await first.status()).streams
    assert list(stream.holders) == []


async def test_a_new_stream_begins_with_its_first_message_once_the_one_before_is_forgotten(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    await pipeline.plan_until("orders/1", 2)
    assert await idle(pipeline, {"orders/1": 2}) == [], "only with a batch, or where the name is wanted"
    assert await idle(pipeline, forgotten=[at("orders/1", 1)]) == [], "it was not known to be there"
    await pipeline.plan(forgotten=[at("orders/1", 2)], wait_ms=0)
    assert await names(pipeline) == []
    for _ in range(2):
        assert await idle(pipeline, {"orders/1": 2}, ended=["orders/1"], forgotten=[at("orders/1", 2)]) == [], (
            "late and doubled calls"
        )
    await send_all(source, "orders/1", 2, 4)
    planned = await pipeline.plan_until("orders/1", 4)
    assert planned.messages == 5
    assert [frame.count for frame in await pipeline.fetch("orders/1", None, 4)] == [5]
    await pipeline.plan({"orders/1": 4}, wait_ms=0)
    assert await idle(pipeline, forgotten=[at("orders/1", 2)]) == []
    assert await names(pipeline) == ["orders/1"], "a late call about the forgotten stream has no effect"


async def test_a_stream_that_is_offered_again_after_a_lost_session_is_read_again_once_it_was_forgotten(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    """Why SRC-38 has sources wait for their acknowledgements: the gateway cannot know that the last one was lost."""
    lost, pipeline = connector(), engine()
    await pipeline.attach()
    await lost.hello()
    await send_all(lost, "orders/1", 1, 2)
    await pipeline.plan_until("orders/1", 2)
    lost.call.cancel()
    await pipeline.plan({"orders/1": 2}, wait_ms=0)
    await pipeline.plan(forgotten=[at("orders/1", 2)], wait_ms=0)
    source = connector()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    assert (await pipeline.plan_until("orders/1", 2)).messages == 3


async def test_a_stream_that_comes_back_before_it_is_forgotten_goes_on(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    await pipeline.plan_until("orders/1", 2)
    await source.open("orders/1", stream_id=2)
    assert (await opened(source, 2)).resume.sequence == 2
    await pipeline.plan({"orders/1": 2}, wait_ms=0)
    await source.send(frame=numbered(2, 3, 2))
    more = await pipeline.plan()
    assert [(r.stream, r.messages) for r in more.ranges] == [("orders/1", 2)]
    assert not more.forgotten


async def test_a_name_that_is_wanted_again_waits_until_all_checkpoints_have_let_go_of_it(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await first.attach()
    await second.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    await first.plan_until("orders/1", 2)
    await second.plan_until("orders/1", 2)
    await first.plan({"orders/1": 2}, wait_ms=0)
    await second.plan({"orders/1": 2}, wait_ms=0)
    await source.open("orders/2", stream_id=2)
    await opened(source, 2)
    await source.send(frame=numbered(2, 0, 1))
    assert list((await first.plan()).forgotten) == ["orders/1"]
    await source.open("orders/1", stream_id=3)
    async with asyncio.timeout(DEADLINE_S):
        while "orders/1" not in (await second.plan(wait_ms=1000)).forgotten:
            pass
    await first.plan({"orders/2": 0}, forgotten=[at("orders/1", 2)], wait_ms=0)
    assert await names(first) == ["orders/1", "orders/2"]
    assert await idle(second, {"orders/2": 0}) == ["orders/1"], "without a batch, since its name is wanted"
    await second.plan(forgotten=[at("orders/1", 2)], wait_ms=0)
    assert not (await opened(source, 3)).HasField("resume")
    await source.send(frame=numbered(3, 0, 2))
    for pipeline in (first, second):
        assert (await pipeline.plan_until("orders/1", 1)).messages == 2


async def test_a_run_that_begins_again_where_a_stream_was_left_out(connector: MakeConnector, engine: MakeEngine) -> None:
    """The offset log has a batch that leaves it out, and no commit: the query reports it only once that is committed."""
    source, pipeline, again = connector(), engine(run=1), engine(run=2)
    await pipeline.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    await pipeline.plan_until("orders/1", 2)
    await pipeline.plan({"orders/1": 2}, wait_ms=0)
    await send_all(source, "orders/2", 2, 0, gone=False)
    async with asyncio.timeout(DEADLINE_S):
        while "orders/1" not in (await pipeline.plan(wait_ms=1000)).forgotten:
            pass
    await again.attach({"orders/1": 2}, {"orders/2": 0})
    assert await names(again) == ["orders/1", "orders/2"]
    await again.plan({"orders/2": 0}, forgotten=[at("orders/1", 2)], wait_ms=0)
    assert await names(again) == ["orders/2"]


async def test_nothing_is_forgotten_while_a_query_that_has_it_is_stopped(connector: MakeConnector, engine: MakeEngine) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await first.attach()
    await second.attach()
    await source.hello()
    await send_all(source, "orders/1", 1, 2)
    for pipeline in (first, second):
        await pipeline.plan_until("orders/1", 2)
        await pipeline.plan({"orders/1": 2}, wait_ms=0)
    await second.detach()
    await send_all(source, "orders/2", 2, 0, gone=False)
    planned = await first.plan()
    assert [r.stream for r in planned.ranges] == ["orders/2"]
    assert not planned.forgotten
    await source.open("orders/1", stream_id=3)
    assert (await opened(source, 3)).resume.sequence == 2, "it continues where it was"


async def test_a_query_that_comes_after_a_stream_was_forgotten_drops_it_too(connector: MakeConnector, engine: MakeEngine) -> None:
    """It has read the stream at another gateway, and all that this one has of it is that it is gone."""
    source, before, after = connector(), engine(run=1), engine(run=2)
    await before.attach()
    await source.hello()
    await source.open("orders/1", stream_id=1)
    await opened(source, 1)
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True, gone=True))
    await send_all(source, "orders/2", 2, 0, gone=False)
    await before.plan_until("orders/2", 0)
    assert await names(before) == ["orders/2"]
    await after.attach({"orders/1": 2})
    stream = next(stream for stream in (await after.status()).streams if stream.stream == "orders/1")
    assert (stream.state, stream.lag_messages) == (admin_pb2.STREAM_STATE_ENDED, 0)
    planned = await after.plan()
    assert ([r.stream for r in planned.ranges], list(planned.forgotten)) == (["orders/2"], ["orders/1"])
    await after.plan({"orders/2": 0}, forgotten=[at("orders/1", 2)], wait_ms=0)
    assert await names(after) == ["orders/2"]


async def test_a_stream_that_is_offered_anew_does_not_end_because_one_of_its_name_was_gone(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, before, after = connector(), engine(run=1), engine(run=2)
    await before.attach()
    await source.hello()
    await source.open("orders/1", stream_id=1)
    await opened(source, 1)
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True, gone=True))
    await source.open("orders/1", stream_id=2)
    assert not (await opened(source, 2)).HasField("resume")
    await source.send(frame=numbered(2, 0, 1))
    await before.plan_until("orders/1", 0)
    source.call.cancel()
    await after.attach({"orders/1": 0})
    await after.status_once(lambda status: [stream.state for stream in status.streams] == [admin_pb2.STREAM_STATE_DETACHED])


async def test_many_streams_that_are_gone_leave_nothing(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    committed: dict[str, int] = {}
    forgotten: list[frame_pb2.StreamPosition] = []
    most = 0
    for day in range(1, 41):
        stream = f"orders/{day}"
        await source.open(stream, stream_id=day)
        await opened(source, day)
        await source.send(frame=numbered(day, 0, 1))
        await source.send(close_stream=source_pb2.CloseStream(stream_id=day, end_of_stream=True, gone=True))
        answer = await pipeline.plan(committed, forgotten=forgotten)
        assert [r.stream for r in answer.ranges] == [stream]
        committed, forgotten = {stream: 0}, [at(name, 0) for name in answer.forgotten]
        most = max(most, len(await names(pipeline)))
    assert most <= 3
