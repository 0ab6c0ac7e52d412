"""A run or a connector that was at another gateway meanwhile: what this gateway remembers of it is out of date."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from tests.gateway.wire import REDELIVERING, Connector, Engine, numbered, serve

from headrace.protocol.v1 import source_pb2


@asynccontextmanager
async def attached(address: str, committed: int | None) -> AsyncIterator[Engine]:
    """A run that has attached once, with this position or none."""
    engine = Engine(address)
    engine.who.attachment = 1
    await engine.attach({} if committed is None else {"orders/0": committed})
    yield engine
    await engine.close()


async def opened(address: str, kind: source_pb2.SourceKind.ValueType, stream_id: int = 1) -> Connector:
    source = Connector(address)
    await source.hello()
    await source.open(kind=kind, stream_id=stream_id)
    return source


@pytest.mark.parametrize("call", ["plan", "renew"])
async def test_a_run_that_returns_attaches_again_with_what_it_has_committed_elsewhere(call: str) -> None:
    async with serve() as (_, address), attached(address, 5) as engine:
        source = await opened(address, source_pb2.SOURCE_KIND_REPLAYABLE)
        assert (await source.expect("stream_opened")).resume.sequence == 5
        await source.send(frame=numbered(1, 6, 3))
        assert (await engine.plan_until("orders/0", 8)).end.sequence == 8
        engine.who.attachment = 2
        with pytest.raises(grpc.aio.AioRpcError, match="attach") as refused:
            await getattr(engine, call)()
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        engine.who.attachment = 3
        await engine.attach({"orders/0": 20})
        assert (await source.expect("ack")).streams[0].position.sequence == 20
        await source.send(frame=numbered(1, 9, 13))
        assert (await engine.plan_until("orders/0", 21)).end.sequence == 21
        await source.close()


async def test_a_task_of_a_run_that_was_elsewhere_reads_after_what_it_names_and_not_after_what_was_known() -> None:
    async with serve() as (_, address), attached(address, 5) as engine:
        engine.who.attachment = 2
        source = await opened(address, source_pb2.SOURCE_KIND_REPLAYABLE)
        assert (await source.expect("stream_opened")).resume.sequence == 5
        with pytest.raises(grpc.aio.AioRpcError):
            await engine.fetch("orders/0", 10, 12, progress_timeout_ms=1)
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert (await source.expect("stream_opened")).resume.sequence == 10
        await source.close()


async def test_an_attach_that_was_under_way_for_long_does_not_take_a_run_back() -> None:
    async with serve() as (_, address), attached(address, 5) as engine:
        engine.who.attachment = 2
        await engine.attach({"orders/0": 20})
        engine.who.attachment = 1
        with pytest.raises(grpc.aio.AioRpcError, match="has attached again") as refused:
            await engine.attach({"orders/0": 5})
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        committed = (await engine.status()).pipelines[0].committed
        assert [at.position.sequence for at in committed] == [20]


async def test_an_attach_that_arrives_twice_does_not_take_a_run_back() -> None:
    async with serve() as (_, address), attached(address, 5) as engine:
        source = await opened(address, source_pb2.SOURCE_KIND_REPLAYABLE)
        await source.send(frame=numbered(1, 6, 3))
        await engine.plan_until("orders/0", 8)
        await engine.plan({"orders/0": 8}, wait_ms=0)
        with pytest.raises(grpc.aio.AioRpcError, match="has attached with this call already") as refused:
            await engine.attach({"orders/0": 5})
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        committed = (await engine.status()).pipelines[0].committed
        assert [at.position.sequence for at in committed] == [8]
        await source.close()


async def test_a_run_is_not_known_from_an_attach_that_another_gateway_has_answered_before() -> None:
    """The run has committed there since, which it tells with its next Attach only."""
    async with serve() as (_, address), attached(address, None) as engine:
        source = await opened(address, source_pb2.SOURCE_KIND_REPLAYABLE)
        assert not (await source.expect("stream_opened")).HasField("resume")
        with pytest.raises(grpc.aio.AioRpcError, match="was at another gateway since then; attach it again") as refused:
            await engine.plan(follows=4, wait_ms=0)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        engine.who.attachment = 2
        await engine.attach({"orders/0": 7})
        assert (await source.expect("ack")).streams[0].position.sequence == 7
        await source.send(frame=numbered(1, 8, 1))
        assert (await engine.plan_until("orders/0", 8)).end.sequence == 8
        await engine.plan({"orders/0": 8}, follows=engine.plans, wait_ms=0)
        await source.close()


async def test_a_plan_that_was_under_way_for_long_takes_no_positions_from_a_run_that_has_attached_since() -> None:
    async with serve() as (_, address), attached(address, None) as engine:
        engine.who.attachment = 2
        await engine.attach({"orders/0": 20})
        engine.who.attachment = 1
        with pytest.raises(grpc.aio.AioRpcError, match="was at another gateway since then"):
            await engine.plan(follows=4, wait_ms=0)
        committed = (await engine.status()).pipelines[0].committed
        assert [at.position.sequence for at in committed] == [20]


@pytest.mark.parametrize("run", [1, 2])
@pytest.mark.parametrize("is_gone", [False, True])
async def test_what_a_checkpoint_has_dropped_elsewhere_is_not_read_again(run: int, *, is_gone: bool) -> None:
    """The source sends again what the checkpoint lacks, and nothing of a stream that has ended."""
    async with serve() as (_, address), attached(address, None) as engine:
        other = Engine(address, "other")
        await other.attach()
        source = await opened(address, source_pb2.SOURCE_KIND_REPLAYABLE)
        assert not (await source.expect("stream_opened")).HasField("resume")
        await source.send(frame=numbered(1, 0, 3))
        await engine.plan_until("orders/0", 2)
        await engine.plan({"orders/0": 2}, wait_ms=0)
        engine.who.run, engine.who.attachment = run, 3 if run == 1 else 1
        await engine.attach()
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert not (await source.expect("stream_opened")).HasField("resume")
        if is_gone:
            await source.send(close_stream=source_pb2.CloseStream(stream_id=2, end_of_stream=True, gone=True))
        else:
            await source.send(frame=numbered(2, 0, 1))
            assert (await engine.plan_until("orders/0", 0)).messages == 1
        planned = await engine.plan(wait_ms=0)
        assert [r.messages for r in planned.ranges] == ([] if is_gone else [1])
        await other.close()
        await source.close()


async def test_a_run_that_does_not_count_its_attaches_is_believed() -> None:
    async with serve() as (_, address):
        engine = Engine(address)
        await engine.attach({"orders/0": 5})
        await engine.plan({"orders/0": 6}, wait_ms=0)
        await engine.attach({"orders/0": 7})
        assert (await engine.status()).pipelines[0].committed[0].position.sequence == 7
        await engine.close()


async def test_a_queue_gets_an_epoch_after_those_that_another_gateway_has_given() -> None:
    async with serve() as (_, address):
        first, second = Engine(address, "first"), Engine(address, "second")
        await first.attach()
        source = await opened(address, REDELIVERING)
        epoch = (await source.expect("stream_opened")).epoch
        await second.attach({"orders/0": (epoch + 10_000_000, 3)})
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(kind=REDELIVERING, stream_id=2)
        assert (await source.expect("stream_opened")).epoch > epoch + 10_000_000
        await source.send(frame=numbered(2, 1, 1))
        assert (await second.plan_until("orders/0", 1)).end.epoch > epoch + 10_000_000
        for client in (source, first, second):
            await client.close()


async def test_gateways_behind_a_checkpoint_count_on_to_different_epochs() -> None:
    """A clock that was a day ahead: equal epochs would acknowledge messages that only the other gateway's query has read."""
    ahead = time.time_ns() // 1000 + 86_400_000_000
    epochs = []
    for _ in range(2):
        async with serve() as (_, address):
            engine = Engine(address)
            await engine.attach({"orders/0": (ahead, 3)})
            source = await opened(address, REDELIVERING)
            epochs.append((await source.expect("stream_opened")).epoch)
            await source.close()
            await engine.close()
    assert len({*epochs, ahead}) == 3
    assert min(epochs) > ahead


async def test_a_connector_that_has_left_does_not_end_the_epoch_that_it_has_at_another_gateway() -> None:
    async with serve() as (_, here), serve() as (_, there):
        engine, elsewhere = Engine(here), Engine(there)
        await engine.attach()
        # It came here from the other gateway, which has not noticed.
        left = await opened(there, REDELIVERING)
        source = await opened(here, REDELIVERING)
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        end = (await engine.plan_until("orders/0", 3)).end
        with pytest.raises(grpc.aio.AioRpcError, match="none arrived"):
            await elsewhere.fetch("orders/0", None, end, progress_timeout_ms=50)
        # It returns, and is asked nothing more: its session has begun after the gateway heard of the epoch.
        await source.close()
        await left.close()
        again = await opened(there, REDELIVERING)
        await again.expect("stream_opened")
        assert await elsewhere.fetch("orders/0", None, end) == []
        for client in (again, engine, elsewhere):
            await client.close()


async def test_what_is_committed_is_not_waited_for_though_its_epoch_may_be_live_at_another_gateway() -> None:
    async with serve() as (_, address):
        engine, source = Engine(address), await opened(address, REDELIVERING)
        await engine.attach({"orders/0": (7, 3)})
        await source.expect("stream_opened")
        # An attempt that Spark has given up.
        assert await engine.fetch("orders/0", None, (7, 3)) == []
        await source.send(frame=numbered(1, 1, 2))
        assert (await engine.plan_until("orders/0", 2)).end.sequence == 2
        for client in (source, engine):
            await client.close()


async def test_two_connectors_of_one_queue_at_two_gateways_are_a_limit() -> None:
    async with serve() as (_, here), serve() as (_, there):
        engine, elsewhere = Engine(here), Engine(there)
        await engine.attach()
        first = await opened(here, REDELIVERING)
        await first.expect("stream_opened")
        await first.send(frame=numbered(1, 1, 3))
        end = (await engine.plan_until("orders/0", 3)).end
        second = await opened(there, REDELIVERING)
        # The tasks reach the other gateway, where the second connector serves the queue: the epoch seems to be over.
        fetch = asyncio.create_task(elsewhere.fetch("orders/0", None, end))
        assert (await second.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await second.open(kind=REDELIVERING, stream_id=2)
        assert await fetch == []
        await engine.plan({"orders/0": end}, wait_ms=0)
        assert (await first.expect("ack")).streams[0].position.sequence == 3
        for client in (first, second, engine, elsewhere):
            await client.close()
