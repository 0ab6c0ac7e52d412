"""Frames without messages move the cursor of a stream (SRC-49): committed and acknowledged like messages, and no batch each."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.gateway.wire import DEADLINE_S, Connector, Engine, frame, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract.clock import use
from headrace.gateway.config import Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.batches import planning
from headrace.protocol.v1 import engine_pb2, source_pb2
from headrace.protocol.v1.frame_pb2 import Frame, Position

STREAM = "orders/0"


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    found = VirtualClock()
    with use(found):
        yield found


def moved(sequence: int, cursor: bytes) -> Frame:
    return Frame(stream_id=1, first_sequence=sequence, cursor=cursor)


async def ranges_of(query: Engine, committed: dict[str, Position] | None = None, count: int = 1) -> list[engine_pb2.PlannedRange]:
    """A batch with at least `count` ranges, planned as Spark does: again and again, since no cursor wakes a call."""
    async with asyncio.timeout(DEADLINE_S):
        while len(ranges := (await query.plan(committed, wait_ms=10)).ranges) < count:
            pass
    return list(ranges)


async def opened(address: str, **hello: str) -> tuple[Connector, source_pb2.StreamOpened]:
    source = Connector(address)
    await source.hello(**hello)
    await source.open(STREAM)
    return source, await source.expect("stream_opened")


async def test_welcome_announces_cursors_of_64_kib_or_of_half_a_frame() -> None:
    for limits, most in ((Limits(), 65_536), (Limits(max_frame_bytes=8_192), 4_096)):
        async with serve(limits) as (_, address):
            source = Connector(address)
            welcome = await source.hello()
            assert welcome.max_cursor_bytes == most
            assert source_pb2.CAPABILITY_CURSORS in welcome.capabilities
            await source.close()


async def test_a_cursor_without_a_message_is_acknowledged_once_it_is_committed_and_uses_no_credit() -> None:
    async with serve() as (gateway, address):
        query = Engine(address)
        await query.attach()
        source, _ = await opened(address)
        await source.send(frame=numbered(1, 1, 3))
        first = await query.plan_until(STREAM, 3)
        await query.plan({STREAM: first.end}, wait_ms=0)
        assert (await source.expect("ack")).streams[0].position == Position(sequence=3, cursor=b"4")
        left = next(iter(gateway.sessions.values())).account.bytes_left
        await source.send(frame=moved(3, b"heartbeat"))
        (planned,) = await ranges_of(query)
        assert (planned.messages, planned.end) == (0, Position(sequence=3, cursor=b"heartbeat", moves=1))
        assert next(iter(gateway.sessions.values())).account.bytes_left == left
        assert await query.fetch(STREAM, first.end, planned.end) == []
        await query.plan({STREAM: planned.end}, wait_ms=0)
        assert (await source.expect("ack")).streams[0].position == Position(sequence=3, cursor=b"heartbeat", moves=1)
        await source.close()
        again, answer = await opened(address)
        assert answer.resume == answer.acknowledged == Position(sequence=3, cursor=b"heartbeat", moves=1)
        await again.close()
        await query.close()


async def test_idle_streams_cause_one_batch_in_ten_seconds_and_not_one_for_each_heartbeat(clock: VirtualClock) -> None:
    async with serve(has_rounds=False) as (gateway, address):
        query = Engine(address)
        await query.attach()
        source, _ = await opened(address)
        await source.send(frame=numbered(1, 1, 3))
        at = (await query.plan_until(STREAM, 3)).end
        batches = 0
        for heartbeat in range(40):
            await source.send(frame=moved(3, b"%d" % heartbeat))
            await until_moved(gateway, b"%d" % heartbeat)
            for planned in (await query.plan({STREAM: at}, wait_ms=0)).ranges:
                batches, at = batches + 1, planned.end
            clock.advance(planning.CURSORS_S / 10)
        assert 4 <= batches <= 5
        await source.send(frame=moved(3, b"with a message"))
        await source.send(frame=frame(1, 4, [b"x"]))
        (planned,) = await ranges_of(query, {STREAM: at})
        assert planned.end == Position(sequence=4, cursor=b"with a message")
        await source.close()
        await query.close()


async def test_a_bounded_run_reads_a_cursor_beside_messages_and_not_alone(clock: VirtualClock) -> None:
    async with serve(has_rounds=False) as (gateway, address):
        query = Engine(address)
        await query.attach({STREAM: Position(sequence=3, cursor=b"0"), "orders/1": Position(sequence=1)}, available_now=True)
        source, _ = await opened(address)
        await source.open("orders/1", 2)
        await source.expect("stream_opened")
        for cursor in (b"1", b"2"):
            await source.send(frame=moved(3, cursor))
            await until_moved(gateway, cursor)
            assert not (await query.plan(wait_ms=20)).ranges
            clock.advance(2 * planning.CURSORS_S)
        await source.send(frame=frame(2, 2, [b"x"]))
        ranges = {each.stream: each for each in await ranges_of(query, count=2)}
        assert (ranges["orders/1"].messages, ranges[STREAM].end.cursor) == (1, b"2")
        await source.close()
        await query.close()


async def test_a_cursor_of_an_idle_stream_goes_with_the_messages_of_another_stream(clock: VirtualClock) -> None:
    async with serve(has_rounds=False) as (_, address):
        query = Engine(address)
        await query.attach()
        source, _ = await opened(address)
        await source.open("orders/1", 2)
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        at = (await query.plan_until(STREAM, 3)).end
        await source.send(frame=moved(3, b"a"))
        (planned,) = await ranges_of(query, {STREAM: at})
        await source.send(frame=moved(3, b"b"))
        await source.send(frame=frame(2, 1, [b"x"]))
        ranges = {each.stream: each for each in await ranges_of(query, {STREAM: planned.end}, 2)}
        assert ranges["orders/1"].messages == 1
        assert (ranges[STREAM].messages, ranges[STREAM].end.cursor) == (0, b"b")
        await source.close()
        await query.close()


async def test_the_cursor_of_a_stream_without_a_message_is_a_start_that_nobody_fetches() -> None:
    async with serve() as (_, address):
        query = Engine(address)
        await query.attach()
        source, _ = await opened(address)
        await source.send(frame=moved(0, b"idle"))
        (planned,) = await ranges_of(query)
        assert (planned.start, planned.messages, planned.end) == (True, 0, Position(sequence=0, cursor=b"idle", moves=1))
        await query.plan({STREAM: planned.end}, wait_ms=0)
        assert (await source.expect("ack")).streams[0].position.cursor == b"idle"
        await source.send(frame=frame(1, 1, [b"first"]))
        assert (await query.plan_until(STREAM, 1)).messages == 1
        await source.close()
        await query.close()


async def test_a_cursor_among_messages_that_are_sent_again_is_dropped() -> None:
    async with serve() as (_, address):
        query = Engine(address)
        await query.attach({STREAM: Position(sequence=10, cursor=b"5")})
        source, answer = await opened(address)
        assert answer.resume.sequence == 10
        await source.send(frame=numbered(1, 6, 2))
        await source.send(frame=moved(7, b"old"))
        await source.send(frame=numbered(1, 8, 4))
        assert (await query.plan_until(STREAM, 11)).end == Position(sequence=11, cursor=b"12")
        await source.close()
        await query.close()


async def test_a_source_resumes_at_the_committed_cursor_and_not_at_one_that_another_gateway_has_overtaken() -> None:
    async with serve() as (_, address):
        query = Engine(address)
        await query.attach({STREAM: Position(sequence=3, cursor=b"3")})
        source, _ = await opened(address)
        await source.send(frame=moved(3, b"uncommitted"))
        (planned,) = await ranges_of(query)
        assert planned.end.cursor == b"uncommitted"
        await source.close()
        # The query was at another gateway meanwhile, where the source has moved its cursor, and has released what is before.
        await query.attach({STREAM: Position(sequence=3, cursor=b"elsewhere", moves=1)})
        again, answer = await opened(address)
        assert answer.resume.cursor == b"elsewhere"
        await again.send(frame=moved(3, b"later"))
        (planned,) = await ranges_of(query)
        assert planned.end == Position(sequence=3, cursor=b"later", moves=2)
        await again.close()
        await query.close()


async def until_moved(gateway: Gateway, cursor: bytes) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while gateway.streams[STREAM].received.cursor != cursor:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.01)


async def test_a_cursor_after_a_planned_one_is_planned_next_although_the_source_has_connected_again(clock: VirtualClock) -> None:
    async with serve(has_rounds=False) as (gateway, address):
        query = Engine(address)
        await query.attach({STREAM: Position(sequence=3, cursor=b"0")})
        source, _ = await opened(address)
        for cursor in (b"1", b"2", b"3"):
            await source.send(frame=moved(3, cursor))
        await until_moved(gateway, b"3")
        (planned,) = await ranges_of(query)
        assert planned.end == Position(sequence=3, cursor=b"3", moves=3)
        await source.close()
        again, answer = await opened(address)
        assert answer.resume.cursor == b"0"
        await again.send(frame=moved(3, b"4"))
        await until_moved(gateway, b"4")
        clock.advance(planning.CURSORS_S)
        (last,) = await ranges_of(query, {STREAM: planned.end})
        assert last.end == Position(sequence=3, cursor=b"4", moves=4)
        await query.plan({STREAM: last.end}, wait_ms=0)
        async with asyncio.timeout(DEADLINE_S):
            while (await again.expect("ack")).streams[0].position != last.end:
                pass
        await again.close()
        await query.close()


async def test_a_source_is_told_the_cursor_that_all_queries_have_committed() -> None:
    async with serve() as (_, address):
        ahead, behind = Engine(address, "ahead"), Engine(address, "behind")
        await ahead.attach({STREAM: Position(sequence=3, cursor=b"two", moves=2)})
        await behind.attach({STREAM: Position(sequence=3, cursor=b"one", moves=1)})
        source, answer = await opened(address)
        assert (answer.resume.cursor, answer.acknowledged.cursor) == (b"two", b"one")
        await behind.plan({STREAM: Position(sequence=3, cursor=b"two", moves=2)}, wait_ms=0)
        assert (await source.expect("ack")).streams[0].position.cursor == b"two"
        await source.close()
        await ahead.close()
        await behind.close()


async def test_a_query_of_many_streams_with_large_cursors_attaches_and_plans() -> None:
    large = {f"orders/{n}": Position(sequence=1, cursor=b"c" * 65_536) for n in range(100)}
    later = {name: Position(sequence=2, cursor=at.cursor) for name, at in large.items()}
    async with serve() as (gateway, address):
        query = Engine(address)
        await query.attach(large, later)
        await query.plan(later, wait_ms=0)
        assert {name: at.sequence for name, at in gateway.pipelines["p"].committed.items()} == dict.fromkeys(large, 2)
        await query.close()


async def test_acks_with_large_cursors_come_in_messages_that_any_library_reads() -> None:
    large, count = b"c" * 65_536, 40
    async with serve() as (_, address):
        query = Engine(address)
        await query.attach()
        source = Connector(address)
        await source.hello()
        for number in range(count):
            await source.open(f"orders/{number}", number + 1)
            await source.expect("stream_opened")
            await source.send(frame=frame(number + 1, 1, [b"x"], cursor=large))
        ends: dict[str, Position] = {}
        while len(ends) < count:
            ends |= {each.stream: each.end for each in (await query.plan(ends)).ranges}
        await query.plan(ends, wait_ms=0)
        acknowledged: set[int] = set()
        while len(acknowledged) < count:
            ack = await source.expect("ack")
            assert ack.ByteSize() < 2 * 2**20
            acknowledged |= {each.stream_id for each in ack.streams}
        await source.close()
        await query.close()
