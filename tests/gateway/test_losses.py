"""A loss concerns who needs what is lost, and nobody else; late fetches hold no source back."""

import asyncio

import grpc
import grpc.aio
import pytest
from tests.gateway.wire import Connector, Engine, numbered, serve, values_of

from headrace.protocol.v1 import source_pb2

LOST = grpc.StatusCode.DATA_LOSS


def numbers(first: int, last: int) -> list[bytes]:
    return [str(n).encode() for n in range(first, last + 1)]


def lost(stream_id: int, earliest: int | None) -> source_pb2.PositionLost:
    return source_pb2.PositionLost(stream_id=stream_id, earliest_sequence=earliest, reason="pruned")


async def fails(call: "asyncio.Future[object]") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    assert error.value.code() is LOST, error.value


@pytest.mark.parametrize("earliest", [20, None])
async def test_a_loss_fails_only_the_pipeline_that_needs_what_is_lost(earliest: int | None) -> None:
    async with serve() as (gateway, address):
        source, behind, ahead = Connector(address), Engine(address, "behind"), Engine(address, "ahead")
        await behind.attach({"orders/0": 9}, {"orders/0": 14})
        await ahead.attach({"orders/0": 19})
        await source.hello()
        await source.open()
        assert (await source.expect("stream_opened")).resume.sequence == 9
        await source.send(position_lost=lost(1, earliest))
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        opened = await source.expect("stream_opened")
        assert (opened.resume.sequence, opened.skip_lost) == (19, False)
        await source.send(frame=numbered(2, 20, 10))
        assert (await ahead.plan_until("orders/0", 29)).messages == 10
        for call in (behind.fetch("orders/0", 9, 14), behind.plan(wait_ms=0)):
            await fails(asyncio.ensure_future(call))
        assert values_of(await ahead.fetch("orders/0", 19, 29)) == numbers(20, 29)
        await ahead.plan({"orders/0": 29}, wait_ms=0)
        assert gateway.streams["orders/0"].held_messages == 0, "nothing is held for a pipeline that cannot continue"
        assert (await ahead.status()).streams[0].acknowledged.sequence == 9
        await behind.attach({"orders/0": 29})
        assert (await source.expect("ack")).streams[0].position.sequence == 29
        for client in (source, behind, ahead):
            await client.close()


async def test_a_pipeline_that_accepts_losses_skips_what_no_other_one_needs() -> None:
    async with serve() as (_, address):
        source, strict = Connector(address), Engine(address, "strict")
        accepts = Engine(address, "accepts", skip_lost=True)
        await accepts.attach({"orders/0": 9}, {"orders/0": 24})
        await strict.attach({"orders/0": 19})
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(position_lost=lost(1, 20))
        await source.expect("reject")
        await source.open(stream_id=2)
        assert (await source.expect("stream_opened")).skip_lost
        await source.send(frame=numbered(2, 20, 10))
        assert values_of(await accepts.fetch("orders/0", 9, 24))[:5] == numbers(20, 24)
        assert values_of(await strict.fetch("orders/0", 19, 29)) == numbers(20, 29)
        for client in (source, strict, accepts):
            await client.close()


async def test_a_pipeline_that_accepts_losses_takes_nothing_from_one_that_does_not() -> None:
    async with serve() as (_, address):
        source, strict = Connector(address), Engine(address, "strict")
        accepts = Engine(address, "accepts", skip_lost=True)
        await accepts.attach({"orders/0": 9})
        await strict.attach({"orders/0": 14})
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        # The strict one may need some of these, too: the source is asked, and has lost them.
        await source.send(position_lost=lost(1, 20))
        await source.expect("reject")
        await source.open(stream_id=2)
        opened = await source.expect("stream_opened")
        assert (opened.resume.sequence, opened.skip_lost) == (14, False)
        await source.send(position_lost=lost(2, 20))
        await fails(asyncio.ensure_future(strict.plan()))
        for client in (source, strict, accepts):
            await client.close()


async def test_a_late_fetch_at_a_gateway_that_has_restarted_fails_nobody_else() -> None:
    async with serve() as (_, address):
        source, run = Connector(address), Engine(address)
        await source.hello()
        await source.open()
        # A task that Spark has given up comes first. The messages that it needs were committed, acknowledged and pruned long ago.
        late = asyncio.ensure_future(run.fetch("orders/0", 4, 9))
        assert (await source.expect("stream_opened")).resume.sequence == 4
        await source.send(position_lost=lost(1, 20))
        await fails(late)
        await source.expect("reject")
        await source.open(stream_id=2)
        present = asyncio.ensure_future(run.fetch("orders/0", 19, 29))
        assert (await source.expect("stream_opened")).resume.sequence == 19
        await source.send(frame=numbered(2, 20, 10))
        assert values_of(await present) == numbers(20, 29)
        await run.attach({"orders/0": 29})
        assert (await source.expect("ack")).streams[0].position.sequence == 29
        for client in (source, run):
            await client.close()


@pytest.mark.parametrize("late_first", [True, False])
async def test_of_several_fetches_the_latest_batch_says_where_a_source_resumes(late_first: bool) -> None:
    async with serve() as (gateway, address):
        source, run = Connector(address), Engine(address)
        ranges = [(4, 9), (19, 29)] if late_first else [(19, 29), (4, 9)]
        calls = []
        for known, (start, end) in enumerate(ranges, 1):
            calls.append(asyncio.ensure_future(run.fetch("orders/0", start, end)))
            await run.status_once(lambda _, n=known: sum(p.calls for p in gateway.pipelines.values()) == n)  # type: ignore[misc]
        await source.hello()
        await source.open()
        assert (await source.expect("stream_opened")).resume.sequence == 19
        await source.send(frame=numbered(1, 20, 10))
        present = calls[late_first]
        assert values_of(await present) == numbers(20, 29)
        late = calls[not late_first]
        late.cancel()
        await asyncio.wait([late])
        for client in (source, run):
            await client.close()
