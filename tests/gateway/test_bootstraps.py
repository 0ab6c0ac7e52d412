"""Tables are planned to their present end before the streams that meet them."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.gateway.wire import DEADLINE_S, REDELIVERING, Connector, Engine, numbered, serve, until_gone

from headrace.gateway.config import Limits
from headrace.protocol.v1 import engine_pb2, source_pb2

MakeConnector = Callable[[], Connector]
MakeEngine = Callable[..., Engine]
WINDOW = 20
TABLE = engine_pb2.Bootstrap(table="names", streams=["names/*"], held=["orders/*"])


def joined(engine: MakeEngine) -> Engine:
    pipeline = engine()
    pipeline.who.streams.append("names/*")
    return pipeline


async def plan(pipeline: Engine, committed: dict[str, Any] | None = None, *tables: Any, **more: Any) -> engine_pb2.PlanResponse:
    return await pipeline.plan(committed, wait_ms=0, bootstraps=tables or [TABLE], **more)


async def plan_once(pipeline: Engine, holds: Callable[[engine_pb2.PlanResponse], Any], *tables: Any) -> engine_pb2.PlanResponse:
    """The first plan for which a condition holds. Nothing is committed meanwhile."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds(planned := await pipeline.plan(wait_ms=20, bootstraps=tables or [TABLE])):
            pass
    return planned


async def offer(source: Connector, stream: str, stream_id: int, latest: int | None, sent: int = 0, **more: Any) -> None:
    await source.open(stream, stream_id, **more)
    await source.expect("stream_opened")
    if latest is not None:
        await source.send(backlog=source_pb2.Backlog(stream_id=stream_id, latest_sequence=latest))
    if sent:
        await source.send(frame=numbered(stream_id, 1, sent))


def ends(planned: engine_pb2.PlanResponse) -> dict[str, int]:
    return {each.stream: each.end.sequence for each in planned.ranges}


async def test_what_meets_a_table_is_planned_once_the_table_is_committed_to_the_end_that_it_had(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    orders, names, pipeline = connector(), connector(), joined(engine)
    await pipeline.attach()
    await orders.hello()
    await offer(orders, "orders/0", 1, 3, 3)
    assert not (await plan(pipeline)).ranges
    await names.hello("test-1")
    await offer(names, "names/0", 1, 5, 3)
    first = await plan_once(pipeline, lambda planned: ends(planned) == {"names/0": 3})
    assert not first.bootstrapped
    assert not (await plan(pipeline, {"names/0": 3})).bootstrapped
    await names.send(frame=numbered(1, 4, 4))
    last = await plan_once(pipeline, lambda planned: ends(planned) == {"names/0": 7})
    assert last.bootstrapped == ["names"], "it had 5 when it was opened"
    later = await pipeline.plan({"names/0": 7}, wait_ms=0)
    assert ends(later) == {"orders/0": 3}


async def test_an_empty_table_and_one_that_has_ended_hold_nothing_back(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), joined(engine)
    other = engine_pb2.Bootstrap(table="rules", streams=["rules/*"], held=["orders/*"])
    pipeline.who.streams.append("rules/*")
    await pipeline.attach()
    await source.hello()
    await offer(source, "orders/0", 1, 3, 3)
    await offer(source, "names/0", 2, 0)
    assert (await plan_once(pipeline, lambda planned: planned.bootstrapped)).bootstrapped == ["names"]
    assert not (await plan(pipeline, None, TABLE, other)).ranges, "the other table is not there"
    await offer(source, "rules/0", 3, None)
    await source.send(close_stream=source_pb2.CloseStream(stream_id=3, end_of_stream=True))
    both = await plan_once(pipeline, lambda planned: len(planned.bootstrapped) == 2, TABLE, other)
    assert not both.ranges
    assert ends(await pipeline.plan(wait_ms=0)) == {"orders/0": 3}


async def test_each_stream_waits_for_its_own_tables_and_no_stream_of_a_table_waits(
    connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), joined(engine)
    pipeline.who.streams.append("others/*")
    everything = engine_pb2.Bootstrap(table="names", streams=["names/*"], held=["orders/*", "names/*"])
    await pipeline.attach()
    await source.hello()
    for number, stream in enumerate(("orders/0", "others/0", "names/0"), 1):
        await offer(source, stream, number, None, 2)
    planned = await plan_once(pipeline, lambda planned: len(planned.ranges) == 2, everything)
    assert ends(planned) == {"others/0": 2, "names/0": 2}
    assert not planned.bootstrapped, "its source has not said where it ends"


async def test_a_table_waits_for_as_many_streams_as_it_has(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), joined(engine)
    two = engine_pb2.Bootstrap(table="names", streams=["names/*"], held=["orders/*"], least_streams=2)
    await pipeline.attach()
    await source.hello()
    await offer(source, "names/0", 1, 0)
    await plan_once(pipeline, lambda planned: planned.bootstrapped)
    assert not (await plan(pipeline, None, two)).bootstrapped
    table = (await pipeline.status()).pipelines[0].awaited_tables[0]
    assert (table.table, list(table.held), table.is_blocked) == ("names", ["orders/*"], True)
    assert list(table.waits_for) == ["2 streams, of which there is 1"]
    await offer(source, "names/1", 2, 0)
    assert (await plan_once(pipeline, lambda planned: planned.bootstrapped, two)).bootstrapped == ["names"]


async def test_the_end_of_a_queue_is_looked_for_again_in_each_session(
    address: str, connector: MakeConnector, engine: MakeEngine
) -> None:
    source, pipeline = connector(), joined(engine)
    await pipeline.attach()
    await source.hello()
    await offer(source, "names/0", 1, 5, 2, kind=REDELIVERING)
    await plan_once(pipeline, lambda planned: planned.ranges)
    await source.close()
    await until_gone(address, "test-0")
    again = connector()
    await again.hello()
    await offer(again, "names/0", 1, None, kind=REDELIVERING)
    assert not (await plan(pipeline)).bootstrapped
    await again.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=0))
    await plan_once(pipeline, lambda planned: planned.bootstrapped == ["names"])


async def test_messages_that_wait_for_a_table_leave_it_credit_of_their_session() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        source, pipeline = Connector(address), joined(lambda: Engine(address))
        await pipeline.attach()
        await source.hello()
        await offer(source, "orders/0", 1, WINDOW, WINDOW)
        await offer(source, "names/0", 2, 1)
        await source.send(credit_request=source_pb2.CreditRequest(stream_id=2, bytes=100, messages=1))
        assert not (await plan(pipeline)).ranges
        granted = asyncio.create_task(source.expect_credit())
        await plan_once(pipeline, lambda _: granted.done())
        assert granted.result().stream_id == 2
        await source.send(frame=numbered(2, 1, 1))
        assert ends(await plan_once(pipeline, lambda planned: planned.bootstrapped)) == {"names/0": 1}
        for client in (source, pipeline):
            await client.close()


async def test_a_bounded_run_has_not_everything_before_its_tables_are_read(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), joined(engine)
    await pipeline.attach(available_now=True)
    await source.hello()
    await offer(source, "names/0", 1, 0)
    await offer(source, "orders/0", 2, 0)
    planned = await plan_once(pipeline, lambda planned: planned.bootstrapped)
    assert not planned.exhausted
    async with asyncio.timeout(DEADLINE_S):
        while not (await pipeline.plan(wait_ms=20)).exhausted:
            pass


@pytest.mark.parametrize(
    ("lacks", "named"),
    [
        ("pattern", "more/*"),
        ("number", "of table names: 3 streams, of which there is 1"),
        ("connector", "of table names: names/9, which has no connector"),
    ],
)
@pytest.mark.parametrize("accepts", [False, True])
async def test_a_bounded_run_ends_without_what_its_table_lacks_or_names_it(
    connector: MakeConnector, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, lacks: str, named: str, accepts: bool
) -> None:
    for wait in ("FIRST_STREAM_WAIT_S", "CONNECTOR_WAIT_S"):
        monkeypatch.setattr(f"headrace.gateway.core.batches.available_now.{wait}", -1.0)
    patterns = ["names/*", "more/*"] if lacks == "pattern" else ["names/*"]
    least = 3 if lacks == "number" else 0
    table = engine_pb2.Bootstrap(table="names", streams=patterns, held=["orders/*"], least_streams=least)
    source, pipeline = connector(), joined(engine)
    pipeline.who.streams[:] = ["orders/*", *patterns]
    await pipeline.attach({"names/9": 4} if lacks == "connector" else None, available_now=True)
    await source.hello()
    await offer(source, "names/0", 1, 2, 2)
    await offer(source, "orders/0", 2, 3, 3)
    committed, tables, read = dict[str, Any](), [table], set[str]()
    async with asyncio.timeout(DEADLINE_S):
        while True:
            planned = await pipeline.plan(committed, wait_ms=20, bootstraps=tables, awaits_streams=not accepts)
            committed |= ends(planned)
            read |= committed.keys()
            tables = [] if planned.bootstrapped else tables
            if planned.exhausted or (not accepts and "names/0" in committed and planned.streams_away):
                break
    assert planned.exhausted == accepts
    assert list(planned.streams_away) == ([] if accepts else [named])
    assert read == ({"names/0", "orders/0"} if accepts else {"names/0"})


async def test_a_list_that_is_too_long_or_a_pattern_that_is_none_is_refused(engine: MakeEngine) -> None:
    pipeline = joined(engine)
    await pipeline.attach()
    for tables, code in (
        ([TABLE] * 101, grpc.StatusCode.RESOURCE_EXHAUSTED),
        ([engine_pb2.Bootstrap(table="names", streams=["names"])], grpc.StatusCode.INVALID_ARGUMENT),
        ([engine_pb2.Bootstrap(table="n" * 256, streams=["names/*"])], grpc.StatusCode.INVALID_ARGUMENT),
        ([engine_pb2.Bootstrap(table="names", held=["orders/*"] * 101)], grpc.StatusCode.RESOURCE_EXHAUSTED),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await plan(pipeline, None, *tables)
        assert refused.value.code() is code
    assert not (await pipeline.status()).pipelines[0].awaited_tables
