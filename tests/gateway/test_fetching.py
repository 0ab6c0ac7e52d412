"""A fetch gets its range, learns that none will come, or ends; it never waits for what cannot happen."""

import asyncio

import grpc
import pytest
from tests.gateway.wire import REDELIVERING, Connector, Engine, numbered, positions, serve, until_gone, values_of

from headrace.gateway.config import Limits
from headrace.protocol.v1 import engine_pb2, source_pb2


async def opened(address: str, **stream: source_pb2.SourceKind.ValueType) -> Connector:
    source = Connector(address)
    await source.hello()
    await source.open(**stream)
    await source.expect("stream_opened")
    return source


async def test_a_session_that_is_lost_before_its_first_frame_does_not_take_the_stream_from_a_fetch() -> None:
    async with serve() as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(planned={"orders/0": 5})
        first = await opened(address)
        fetching = asyncio.create_task(pipeline.fetch("orders/0", None, 5))
        await pipeline.renew()
        await first.close()
        await until_gone(address, "test-0")
        second = await opened(address)
        await second.send(frame=numbered(1, 1, 5))
        assert len(values_of(await asyncio.wait_for(fetching, 60))) == 5
        for client in (second, pipeline):
            await client.close()


async def test_a_range_of_an_epoch_that_a_restarted_gateway_does_not_know_is_empty_once_the_stream_is_opened() -> None:
    async with serve() as (_, address):
        attached, unknown = Engine(address, "attached"), Engine(address, "unknown")
        await attached.stub.Attach(attach_request(attached, committed=(7, 10), planned=(7, 20)))
        for engine, stream in ((attached, "orders/0"), (unknown, "orders/1")):
            # Until then, the epoch may be live at another gateway, to which the query may return.
            with pytest.raises(grpc.aio.AioRpcError, match="start one") as refused:
                await engine.fetch(stream, (7, 10), (7, 20), progress_timeout_ms=100)
            assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            fetching = asyncio.create_task(engine.fetch(stream, (7, 10), (7, 20)))
            source = Connector(address)
            await source.hello(instance=f"of-{stream}")
            await source.open(stream, kind=REDELIVERING)
            assert (await source.expect("stream_opened")).epoch > 7
            assert await asyncio.wait_for(fetching, 90) == []
            await source.close()
        for client in (attached, unknown):
            await client.close()


async def test_a_run_that_accepts_losses_does_not_wait_for_an_epoch_that_its_gateway_does_not_know() -> None:
    async with serve() as (_, address):
        pipeline = Engine(address, skip_lost=True)
        assert await asyncio.wait_for(pipeline.fetch("orders/0", (7, 10), (7, 20)), 90) == []
        await pipeline.close()


def attach_request(engine: Engine, committed: tuple[int, int], planned: tuple[int, int]) -> engine_pb2.AttachRequest:
    return engine_pb2.AttachRequest(
        pipeline=engine.who, committed=positions({"orders/0": committed}), planned=positions({"orders/0": planned})
    )


async def test_a_fetch_that_waits_for_an_epoch_learns_at_once_that_it_is_over() -> None:
    async with serve(Limits(session_messages=10)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        first = await opened(address, kind=REDELIVERING)
        await first.send(frame=numbered(1, 1, 5))
        end = (await pipeline.plan_until("orders/0", 5)).end
        # A range that nobody planned, so that the fetch waits for as long as the epoch lives.
        beyond = type(end)(epoch=end.epoch, sequence=9)
        fetching = asyncio.create_task(pipeline.fetch("orders/0", (end.epoch, 5), beyond))
        await pipeline.renew()
        await first.close()
        assert await asyncio.wait_for(fetching, 60) == []
        await pipeline.close()


async def test_a_fetch_ends_where_its_source_sends_nothing_and_says_who_should() -> None:
    async with serve() as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(planned={"orders/0": 10})
        with pytest.raises(grpc.aio.AioRpcError) as nobody:
            await pipeline.fetch("orders/0", None, 10, progress_timeout_ms=50)
        source = await opened(address)
        await source.send(frame=numbered(1, 1, 4))
        with pytest.raises(grpc.aio.AioRpcError) as silent:
            await pipeline.fetch("orders/0", None, 10, progress_timeout_ms=50)
        for error, parts in ((nobody, ("no connector",)), (silent, ("after sequence 4", "sequence 10", "test-0"))):
            assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert all(part in (error.value.details() or "") for part in ("orders/0", *parts)), error.value.details()
        await source.send(frame=numbered(1, 5, 6))
        assert len(values_of(await pipeline.fetch("orders/0", 4, 10, progress_timeout_ms=10_000))) == 6
        for client in (source, pipeline):
            await client.close()


async def test_a_fetch_rewinds_its_stream_though_its_run_could_not_attach() -> None:
    async with serve() as (_, address):
        ahead, before, again = (
            Engine(address, "ahead"),
            Engine(address, "behind"),
            Engine(address, "behind", run=2, run_id="again"),
        )
        for engine in (ahead, before):
            await engine.attach()
        source = await opened(address)
        for first in (1, 6):
            await source.send(frame=numbered(1, first, 5))
            for engine in (ahead, before):
                await engine.plan_until("orders/0", first + 4)
            await ahead.plan({"orders/0": first + 4}, wait_ms=0)
            await before.plan({"orders/0": 5}, wait_ms=0)
        await source.expect("ack")
        await before.detach()
        fetching = asyncio.create_task(again.fetch("orders/0", 5, 10))
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert (await source.expect("stream_opened")).resume.sequence == 5
        await source.send(frame=numbered(2, 6, 5))
        assert len(values_of(await asyncio.wait_for(fetching, 60))) == 5
        for client in (source, ahead, before, again):
            await client.close()
