"""Where streams begin for pipelines that are new: said once by the connector, kept by the checkpoint, over every restart."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest
from tests.gateway.wire import REDELIVERING, REPLAYABLE, Connector, Engine, numbered, position, serve, values_of

from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.frame_pb2 import Position


async def open_streams(source: Connector, *streams: str, instance: str = "test-0") -> None:
    """Opens streams that choose their starts, under the ids 1, 2, ..."""
    if not source.welcome.session:
        await source.hello(instance)
    for stream_id, stream in enumerate(streams, 1):
        await reopen(source, stream, stream_id)


async def reopen(source: Connector, stream: str, stream_id: int) -> None:
    request = source_pb2.OpenStream(stream_id=stream_id, stream=stream, kind=REPLAYABLE, chooses_start=True)
    await source.send(open_stream=request)


async def say(source: Connector, *starts: int | None) -> None:
    """Says where the streams 1, 2, ... begin."""
    entries = [
        source_pb2.Starts.Stream(stream_id=stream_id, position=position(start)) for stream_id, start in enumerate(starts, 1)
    ]
    await source.send(starts=source_pb2.Starts(streams=entries))


def ends(response) -> dict[str, tuple[int, bool]]:
    return {planned.stream: (planned.end.sequence, planned.start) for planned in response.ranges}


async def test_starts_are_in_the_checkpoint_before_the_first_message(connector, engine):
    source, query = connector(), engine()
    await open_streams(source, "orders/0", "orders/1")
    await query.attach()
    assert [(await source.expect("starts_wanted")).stream_id for _ in range(2)] == [1, 2]
    await source.send(
        starts=source_pb2.Starts(
            streams=[
                source_pb2.Starts.Stream(stream_id=1, position=Position(sequence=100, cursor=b"c")),
                source_pb2.Starts.Stream(stream_id=2, position=Position(sequence=0)),
            ]
        )
    )
    opened = {answer.stream_id: answer for answer in [await source.expect("stream_opened") for _ in range(2)]}
    assert opened[1].resume == Position(sequence=100, cursor=b"c")
    assert opened[2].resume == Position(sequence=0)
    assert not opened[1].HasField("acknowledged")
    await source.send(frame=numbered(1, 101, 10))
    response = await query.plan()
    assert ends(response) == {"orders/0": (100, True), "orders/1": (0, True)}
    assert [planned.messages for planned in response.ranges] == [0, 0]
    # Until it is committed, it is planned again.
    assert ends(await query.plan(wait_ms=0)) == {"orders/0": (100, True), "orders/1": (0, True)}
    response = await query.plan({"orders/0": response.ranges[0].end, "orders/1": response.ranges[1].end})
    assert ends(response) == {"orders/0": (110, False)}
    ack = await source.expect("ack")
    assert {acked.stream_id: acked.position.sequence for acked in ack.streams} == {1: 100, 2: 0}
    assert values_of(await query.fetch("orders/0", 100, 110)) == [b"%d" % n for n in range(101, 111)]


async def test_nothing_is_planned_nor_acknowledged_before_the_connector_has_said_where_to_begin(connector, engine):
    source, old, new = connector(), engine("old"), engine("new")
    await open_streams(source, "orders/0")
    await old.attach({"orders/0": 10})
    assert (await source.expect("stream_opened")).resume.sequence == 10
    await source.send(frame=numbered(1, 11, 10))
    await old.plan_until("orders/0", 20)
    await new.attach()
    assert (await source.expect("starts_wanted")).stream_id == 1
    await old.plan({"orders/0": 20}, wait_ms=0)
    assert not (await new.plan(wait_ms=50)).ranges
    # The other pipeline reads on, and is not disturbed: what the new one begins after lies ahead.
    await say(source, 25)
    await source.send(frame=numbered(1, 21, 10))
    assert ends(await new.plan()) == {"orders/0": (25, True)}
    assert (await old.plan_until("orders/0", 30)).messages == 10
    planned = (await new.plan({"orders/0": 25})).ranges[0]
    assert (planned.end.sequence, planned.messages, planned.start) == (30, 5, False)
    ack = await source.expect("ack")
    assert [acked.position.sequence for acked in ack.streams] == [20]


async def test_a_stream_that_appears_later_begins_with_its_first_message(connector, engine):
    source, query = connector(), engine()
    await open_streams(source, "orders/0")
    await query.attach()
    await source.expect("starts_wanted")
    await say(source, 50)
    assert (await source.expect("stream_opened")).resume.sequence == 50
    # Also where the others' starts are not committed yet.
    await reopen(source, "orders/1", 2)
    opened = await source.expect("stream_opened")
    assert (opened.stream_id, opened.HasField("resume")) == (2, False)
    await source.send(frame=numbered(2, 1, 3))
    assert ends(await query.plan()) == {"orders/0": (50, True)}
    assert ends(await query.plan({"orders/0": 50})) == {"orders/1": (3, False)}
    assert values_of(await query.fetch("orders/1", None, 3)) == [b"1", b"2", b"3"]


async def test_the_checkpoint_tells_a_stream_that_appeared_later(connector, engine):
    source, query = connector(), engine()
    await query.attach({"orders/0": 50})
    await open_streams(source, "orders/1", "orders/0")
    opened = {answer.stream_id: answer for answer in [await source.expect("stream_opened") for _ in range(2)]}
    assert not opened[1].HasField("resume")
    assert opened[2].resume.sequence == 50


async def test_the_first_start_counts_while_the_gateway_lives(connector, engine):
    first, query = connector(), engine()
    await open_streams(first, "orders/0")
    await query.attach()
    await first.expect("starts_wanted")
    await say(first, 10)
    await first.expect("stream_opened")
    await first.close()
    # Neither a new connector nor a new run of the query, of which nothing is committed, begin later.
    again = engine(run=2)
    await again.attach()
    second = connector()
    await open_streams(second, "orders/0")
    assert (await second.expect("stream_opened")).resume.sequence == 10
    await second.send(frame=numbered(1, 11, 5))
    assert ends(await again.plan()) == {"orders/0": (10, True)}


async def test_what_the_offset_log_has_counts_over_a_later_start():
    """The batch with the starts was planned and not committed when query, gateway and connector died."""
    async with AsyncExitStack() as stack:
        _, address = await stack.enter_async_context(serve())
        source, query = Connector(address), Engine(address, run=2)
        stack.push_async_callback(source.close)
        stack.push_async_callback(query.close)
        await query.attach({}, {"orders/0": 10})
        await open_streams(source, "orders/0")
        await source.expect("starts_wanted")
        await say(source, 30)
        assert (await source.expect("stream_opened")).resume.sequence == 10


@pytest.mark.parametrize("said_before_the_fetch", [True, False])
async def test_a_range_that_is_fetched_from_the_first_message_has_its_messages(connector, engine, said_before_the_fetch):
    """A batch of a query that began while the connector's streams still began with their first message."""
    source, query = connector(), engine(run=2)
    await query.attach({}, {"orders/0": 3})
    await open_streams(source, "orders/0")
    await source.expect("starts_wanted")
    if said_before_the_fetch:
        await say(source, 30)
        assert (await source.expect("stream_opened")).resume.sequence == 3
    fetch = asyncio.create_task(query.fetch("orders/0", None, 3))
    stream_id = 1
    if said_before_the_fetch:
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        stream_id = 2
        await reopen(source, "orders/0", stream_id)
    opened = await source.expect("stream_opened")
    assert not opened.HasField("resume")
    await source.send(frame=numbered(stream_id, 1, 5))
    assert values_of(await fetch)[:3] == [b"1", b"2", b"3"]


async def test_a_query_that_was_moved_to_the_beginning_begins_with_the_first_message(connector, engine):
    """Its checkpoint names the streams without a sequence: it is not new to the source, so the connector does not choose."""
    source, query = connector(), engine()
    await open_streams(source, "orders/0", "orders/1")
    await query.attach({"orders/0": None, "orders/1": 30})
    opened = {answer.stream_id: answer for answer in [await source.expect("stream_opened") for _ in range(2)]}
    assert not opened[1].HasField("resume")
    assert opened[2].resume.sequence == 30
    await source.send(frame=numbered(1, 1, 5))
    assert ends(await query.plan()) == {"orders/0": (5, False)}
    alone = engine("alone", streams="orders/0")
    await alone.attach({"orders/0": None})
    assert ends(await alone.plan()) == {"orders/0": (5, False)}


async def test_a_query_that_is_new_later_asks_for_itself(connector, engine):
    source, first, second = connector(), engine("first"), engine("second")
    await open_streams(source, "orders/0")
    for query, start, then in ((first, 10, ("stream_opened", "ack")), (second, 20, ())):
        await query.attach()
        await source.expect("starts_wanted")
        await say(source, start)
        assert ends(await query.plan()) == {"orders/0": (start, True)}
        await query.plan({"orders/0": start}, wait_ms=0)
        for answer in then:
            await source.expect(answer)


async def test_a_stream_may_begin_with_its_first_message_after_all(connector, engine):
    source, query = connector(), engine()
    await open_streams(source, "orders/0")
    await query.attach()
    await source.expect("starts_wanted")
    await say(source, None)
    assert not (await source.expect("stream_opened")).HasField("resume")
    await source.send(frame=numbered(1, 0, 4))
    assert ends(await query.plan()) == {"orders/0": (3, False)}


async def test_a_run_that_ends_when_it_has_caught_up_begins_and_ends(connector, engine):
    source, query = connector(), engine()
    await open_streams(source, "orders/0")
    await query.attach(available_now=True)
    await source.expect("starts_wanted")
    assert not (await query.plan(wait_ms=0)).exhausted
    await say(source, 10)
    await source.expect("stream_opened")
    await source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=10))
    response = await query.plan()
    while not response.exhausted:
        response = await query.plan()
    assert ends(response) == {"orders/0": (10, True)}
    response = await query.plan({"orders/0": 10})
    assert (response.exhausted, list(response.ranges)) == (True, [])


async def test_starts_that_nobody_asked_for_change_nothing(connector, engine):
    source, query = connector(), engine()
    await query.attach({"orders/0": 10})
    await open_streams(source, "orders/0")
    assert (await source.expect("stream_opened")).resume.sequence == 10
    await say(source, 1000)
    await source.send(frame=numbered(1, 11, 5))
    assert ends(await query.plan()) == {"orders/0": (15, False)}


async def test_one_query_s_start_is_not_another_s(connector, engine):
    """A pipeline that reads another part of the source is not concerned."""
    source, here, there = connector(), engine("here", streams="orders/0"), engine("there", streams="orders/1")
    await open_streams(source, "orders/0", "orders/1")
    await here.attach()
    assert (await source.expect("starts_wanted")).stream_id == 1
    await say(source, 10, 10)
    await source.expect("stream_opened")
    await there.attach()
    assert (await source.expect("starts_wanted")).stream_id == 2
    await say(source, 20, 20)
    assert (await source.expect("stream_opened")).resume.sequence == 20
    assert ends(await here.plan()) == {"orders/0": (10, True)}


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        (source_pb2.Starts.Stream(stream_id=9), grpc.StatusCode.NOT_FOUND),
        (source_pb2.Starts.Stream(stream_id=1, position=Position(sequence=2**63)), grpc.StatusCode.INVALID_ARGUMENT),
        (source_pb2.Starts.Stream(stream_id=1, position=Position(epoch=1, sequence=1)), grpc.StatusCode.INVALID_ARGUMENT),
        (source_pb2.Starts.Stream(stream_id=1, position=Position(cursor=b"x" * 65_537)), grpc.StatusCode.INVALID_ARGUMENT),
        (source_pb2.Starts.Stream(stream_id=2), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_a_start_that_is_none_ends_the_session(connector, entry, status):
    source = connector()
    await open_streams(source, "orders/0")
    await source.open("orders/1", 2)
    await source.send(starts=source_pb2.Starts(streams=[entry]))
    assert (await source.ended())[0] == status


async def test_a_redelivering_stream_cannot_choose(connector):
    source = connector()
    await source.hello()
    request = source_pb2.OpenStream(stream_id=1, stream="orders/0", kind=REDELIVERING, chooses_start=True)
    await source.send(open_stream=request)
    assert (await source.ended())[0] == grpc.StatusCode.INVALID_ARGUMENT
