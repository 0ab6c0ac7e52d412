"""A gateway that stops: sources get the acknowledgements that they wait for, and sinks stay as long as that needs them."""

import asyncio

from tests.gateway.sink_wire import SinkClient, sink_and_source, stage_and_vote, transaction
from tests.gateway.wire import Connector, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Limits
from headrace.gateway.core.state.drain import SILENCE_S
from headrace.protocol.v1 import sink_pb2, source_pb2


async def test_sinks_stay_until_the_sources_of_a_gateway_that_drains_have_their_acknowledgements() -> None:
    """The micro-batch that a source waits for must be written: without its sink the drain would take all its time."""
    with clock.use(VirtualClock()):
        async with (
            serve(Limits(drain_timeout_seconds=60)) as (gateway, address),
            sink_and_source(address) as (sink, writer, source, reader),
        ):
            await source.send(frame=numbered(1, 1, 10))
            await reader.plan_until("orders/0", 10)
            draining = asyncio.create_task(gateway.drain())
            assert 0 < (await source.expect("drain")).deadline_ms < 60_000, "the sinks have some time, too"
            await stage_and_vote(sink, writer, 0)
            await reader.plan({"orders/0": 10}, wait_ms=0)
            assert (await source.expect("ack")).streams[0].position.sequence == 10
            await source.send(goodbye=source_pb2.Goodbye())
            await source.ended()
            await writer.report_commits(committed=0)
            assert await sink.commit() == transaction(0), "and is not asked to leave before"
            assert (await sink.expect("drain")).deadline_ms > 0
            await sink.send(goodbye=sink_pb2.SinkGoodbye())
            await asyncio.wait_for(draining, 120)


async def test_sinks_wait_for_no_driver_that_reports_no_more() -> None:
    with clock.use(VirtualClock()) as now:
        async with (
            serve(Limits(drain_timeout_seconds=600)) as (gateway, address),
            sink_and_source(address) as (sink, writer, source, _),
        ):
            await stage_and_vote(sink, writer, 0)
            await source.send(goodbye=source_pb2.Goodbye())
            await source.ended()
            now.advance(SILENCE_S)
            draining = asyncio.create_task(gateway.drain())
            assert (await sink.expect("drain")).deadline_ms > 0
            await sink.send(goodbye=sink_pb2.SinkGoodbye())
            await asyncio.wait_for(draining, 120)


async def test_sinks_are_asked_to_leave_though_a_source_does_not() -> None:
    async with serve(Limits(drain_timeout_seconds=0.5)) as (gateway, address):
        sink, source = SinkClient(address), Connector(address)
        await sink.hello()
        await source.hello()
        draining = asyncio.create_task(gateway.drain())
        assert (await source.expect("drain")).deadline_ms == 400
        assert (await sink.expect("drain")).deadline_ms <= 100
        await draining
        for client in (sink, source):
            await client.close()
