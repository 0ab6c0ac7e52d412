"""A run that ends once it has caught up does not end before the streams that it names are here."""

import asyncio
from collections.abc import Callable

import pytest
from tests.gateway.wire import DEADLINE_S, REDELIVERING, REPLAYABLE, Connector, Engine, numbered, position, until_gone

from headrace.protocol.v1 import admin_pb2, engine_pb2, frame_pb2, source_pb2

MakeConnector = Callable[[], Connector]
MakeEngine = Callable[..., Engine]
CORE = "headrace.gateway.core.batches.available_now"
LONG_S = 3600.0


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the gateway waits for by the clock has passed: it ends no run for another reason."""
    monkeypatch.setattr(f"{CORE}.FIRST_STREAM_WAIT_S", -1.0)
    monkeypatch.setattr(f"{CORE}.CONNECTOR_WAIT_S", -1.0)


async def answer(pipeline: Engine, committed: dict[str, int] | None = None) -> tuple[list[str], bool]:
    """Which streams are away, and whether the run has everything."""
    planned = await pipeline.plan(committed, wait_ms=0, awaits_streams=True)
    assert not (planned.streams_away and planned.exhausted)
    return list(planned.streams_away), planned.exhausted


async def read_up_to_4(
    source: Connector, pipeline: Engine, stream: str = "orders/0", stream_id: int = 1, *, first: int = 0, latest: int = 4
) -> None:
    """Opens a stream whose source says how far it goes, and plans what it gives: its messages up to number 4."""
    await source.open(stream, stream_id)
    await source.expect("stream_opened")
    await source.send(backlog=source_pb2.Backlog(stream_id=stream_id, latest_sequence=latest))
    await source.send(frame=numbered(stream_id, first, 5 - first))
    await pipeline.plan_until(stream, 4, awaits_streams=True)


async def test_a_run_has_not_everything_before_a_stream_of_each_of_its_patterns_is_here(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    orders, trades, pipeline = connector(), connector(), engine()
    pipeline.who.streams.append("trades/*")
    await pipeline.attach(available_now=True)
    assert await answer(pipeline) == (["orders/*", "trades/*"], False)
    assert (await pipeline.plan(wait_ms=0)).exhausted, "who does not wait itself ends with nothing"
    await orders.hello()
    await read_up_to_4(orders, pipeline, "orders/0", 1)
    assert await answer(pipeline, {"orders/0": 4}) == (["trades/*"], False)
    await trades.hello("test-1")
    await read_up_to_4(trades, pipeline, "trades/0", 2)
    assert await answer(pipeline, {"trades/0": 4}) == ([], True)


async def test_a_run_that_goes_on_for_ever_learns_which_streams_no_connector_has(
    address: str, connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach({"orders/1": 7})
    assert not (await pipeline.plan(wait_ms=0)).streams_away
    assert await answer(pipeline) == (["orders/*", "orders/1"], False)
    await source.hello()
    await source.open("orders/0", 1)
    await source.open("orders/1", 2)
    for _ in range(2):
        await source.expect("stream_opened")
    assert await answer(pipeline) == ([], False)
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    await source.send(frame=numbered(2, 8, 1))
    await pipeline.plan_until("orders/1", 8, awaits_streams=True)
    await source.close()
    await until_gone(address, "test-0")
    assert await answer(pipeline) == (["orders/*", "orders/1"], False)
    await pipeline.admin.Pause(admin_pb2.PauseRequest(kind=admin_pb2.PART_KIND_PIPELINE, name=pipeline.who.name))
    assert await answer(pipeline) == (["orders/*"], False)


@pytest.mark.parametrize("kind", [REPLAYABLE, REDELIVERING])
async def test_a_connector_that_was_lost_before_it_said_how_far_its_stream_goes_was_not_here(
    address: str, connector: MakeConnector, engine: MakeEngine, kind: source_pb2.SourceKind.ValueType
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach(available_now=True)
    await source.hello()
    await source.open(kind=kind)
    await source.expect("stream_opened")
    assert await answer(pipeline) == ([], False)
    await source.close()
    await until_gone(address, "test-0")
    assert await answer(pipeline) == (["orders/*"], False)


async def test_streams_that_the_checkpoint_knows_are_away_until_their_connector_comes_back(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach({"orders/0": 2, "orders/1": 7}, available_now=True)
    assert await answer(pipeline) == (["orders/*"], False)
    assert (await pipeline.plan(wait_ms=0)).exhausted, "who does not wait itself continues without them"
    await source.hello()
    await read_up_to_4(source, pipeline, first=3)
    assert await answer(pipeline, {"orders/0": 4}) == ([], True), "orders/1 has been away for as long as the gateway waits"


async def test_a_stream_that_the_checkpoint_knows_to_have_ended_needs_no_connector(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CORE}.FIRST_STREAM_WAIT_S", LONG_S)
    named, covered = engine("named", streams="orders/0"), engine("covered", streams="orders/*")
    for pipeline in (named, covered):
        await pipeline.attach({"orders/0": 4}, ended=["orders/0"], available_now=True)
    assert await answer(named) == ([], True)
    assert await answer(covered) == (["orders/*"], False), "the connector of another one may be about to come"
    monkeypatch.setattr(f"{CORE}.FIRST_STREAM_WAIT_S", -1.0)
    assert await answer(covered) == ([], True)


async def test_a_stream_that_came_and_ended_before_the_run_needs_no_connector(
    address: str, connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    await source.open()
    await source.send(frame=numbered(1, 0, 5))
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    await pipeline.plan_until("orders/0", 4)
    await pipeline.plan({"orders/0": 4}, wait_ms=0)
    await pipeline.status_once(lambda status: status.streams[0].state == admin_pb2.STREAM_STATE_ENDED)
    await source.close()
    await until_gone(address, "test-0")
    later, late = engine(run=2), engine("late")
    await later.attach({"orders/0": 4}, available_now=True)
    assert await answer(later) == ([], True)
    await late.attach(available_now=True)
    assert await answer(late) == (["orders/0"], False), "nobody can give it what the other one has read"


async def test_a_stream_that_was_read_and_is_forgotten_was_here(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach(available_now=True)
    await source.hello()
    await source.open()
    await source.send(frame=numbered(1, 0, 5))
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True, gone=True))
    await pipeline.plan_until("orders/0", 4, awaits_streams=True)
    await pipeline.plan({"orders/0": 4}, wait_ms=0, awaits_streams=True)
    left_out = frame_pb2.StreamPosition(stream="orders/0", position=position(4))
    await pipeline.plan(forgotten=[left_out], wait_ms=0, awaits_streams=True)
    await pipeline.status_once(lambda status: not status.streams)
    assert await answer(pipeline) == ([], True)


async def test_a_stream_whose_connector_is_lost_before_all_of_it_is_read_is_away(
    address: str, connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach(available_now=True)
    await source.hello()
    await read_up_to_4(source, pipeline, latest=9)
    assert await answer(pipeline, {"orders/0": 4}) == ([], False)
    await source.close()
    await until_gone(address, "test-0")
    away, exhausted = await answer(pipeline)
    assert (away[-1], exhausted) == ("orders/0", False)
    again = connector()
    await again.hello()
    await again.open()
    await again.expect("stream_opened")
    await again.send(frame=numbered(1, 5, 5))
    await pipeline.plan_until("orders/0", 9, awaits_streams=True)
    assert await answer(pipeline, {"orders/0": 9}) == ([], True)


async def test_an_answer_names_a_hundred_that_are_away_at_most(
    address: str, connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach(available_now=True)
    await source.hello()
    for number in range(120):
        await source.open(f"orders/{number}", number)
        await source.send(backlog=source_pb2.Backlog(stream_id=number, latest_sequence=9))
        await source.send(frame=numbered(number, 0, 1))
    async with asyncio.timeout(DEADLINE_S):
        while len((await pipeline.plan(wait_ms=1000, awaits_streams=True)).ranges) < 120:
            pass
    await source.close()
    await until_gone(address, "test-0")
    away, exhausted = await answer(pipeline)
    assert (len(away), exhausted) == (100, False)


async def test_an_older_run_is_not_told_what_is_away(engine: MakeEngine) -> None:
    older, newer = engine(run=1), engine(run=2)
    await older.attach(available_now=True)
    await newer.attach(available_now=True)
    request = engine_pb2.PlanRequest(pipeline=older.who, awaits_streams=True)
    with pytest.raises(Exception, match="ABORTED"):
        await older.stub.Plan(request, timeout=DEADLINE_S)
