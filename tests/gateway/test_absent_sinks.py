"""Sinks that are away: batches are kept from tasks, which would wait in slots that others need."""

import asyncio

import grpc
from tests.gateway.sink_wire import SinkClient, Writer, serving_instances
from tests.gateway.test_sinks import status_of
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.protocol.v1 import engine_pb2


async def test_nothing_is_planned_while_a_sink_is_away() -> None:
    async with serve() as (_, address):
        writer, source, reader = Writer(address, readers=["p"]), Connector(address), Engine(address)
        await source.hello()
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 10))
        await reader.plan_until("orders/0", 10)
        await writer.report_commits()
        planned = await reader.plan(wait_ms=50)
        assert (list(planned.ranges), list(planned.sinks_away)) == ([], ["out"])
        other = Engine(address, "other")
        await other.attach()
        assert [r.end.sequence for r in (await other.plan(wait_ms=0)).ranges] == [10], "it writes to no sink"
        sink = SinkClient(address)
        await sink.hello()
        await serving_instances(address, ["i"])
        planned = await reader.plan(wait_ms=0)
        assert ([r.end.sequence for r in planned.ranges], list(planned.sinks_away)) == ([10], [])
        await sink.close()
        await serving_instances(address, [])
        assert list((await reader.plan(wait_ms=0)).sinks_away) == ["out"]
        for client in (sink, writer, source, reader, other):
            await client.close()


async def test_a_sink_for_dead_letters_may_be_away() -> None:
    async with serve() as (_, address):
        writer, reader = Writer(address, readers=["p"]), Engine(address)
        await reader.attach()
        await writer.commit_report(awaited=[])
        assert await away(reader, wait_ms=20_000) == []
        code, details = await status_of(asyncio.ensure_future(writer.commit_report(awaited=["other"])))
        assert (code, "'other' is awaited, but not one of its sinks" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        for client in (writer, reader):
            await client.close()


async def test_a_batch_that_is_planned_waits_for_its_sinks() -> None:
    async with serve() as (_, address):
        writer, sink, reader = Writer(address, readers=["p"]), SinkClient(address), Engine(address)
        await reader.attach()
        assert await away(reader, wait_ms=20_000) == [], "it is not known to write to any"
        await writer.report_commits()
        assert await away(reader, wait_ms=50) == ["out"]
        waiting = asyncio.ensure_future(away(reader, wait_ms=20_000))
        await sink.hello()
        assert await waiting == []
        for client in (sink, writer, reader):
            await client.close()


async def test_a_query_that_has_not_said_where_it_reads_is_waited_for_a_little() -> None:
    async with serve() as (_, address):
        unknown, reader = Writer(address), Engine(address)
        await reader.attach()
        await unknown.report_commits()
        waiting = asyncio.ensure_future(away(reader, wait_ms=1_000))
        unknown.readers = ["p"]
        await unknown.report_commits()
        assert await waiting == ["out"]
        for client in (unknown, reader):
            await client.close()


async def test_a_delivery_waits_for_a_sink_as_long_as_it_says() -> None:
    async with serve() as (_, address):
        writer = Writer(address)
        code, details = await status_of(writer.deliver(0, wait_ms=50))
        assert (code, "no connector has served sink out for 0.05 s" in details) == (grpc.StatusCode.DEADLINE_EXCEEDED, True)
        sink = SinkClient(address)
        delivery = writer.deliver(0, wait_ms=20_000)
        await sink.hello()
        await sink.take_part()
        await delivery
        for client in (sink, writer):
            await client.close()


async def away(reader: Engine, wait_ms: int) -> list[str]:
    """The sinks that a reader's query still waits for after a while."""
    request = engine_pb2.AwaitSinksRequest(pipeline=reader.who, wait_ms=wait_ms)
    return list((await reader.stub.AwaitSinks(request, timeout=DEADLINE_S)).away)
