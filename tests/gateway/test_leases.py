"""A query is there for as long as it calls; one that is gone stands in nobody's way, and loses nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
from tests.gateway.wire import REDELIVERING, Connector, Engine, frame, numbered, serve, values_of

from headrace.gateway.config import Limits
from headrace.protocol.v1 import admin_pb2, source_pb2

LEASE_MS = 300
WINDOW = 20


def state_of(status: admin_pb2.GetStatusResponse, name: str) -> int:
    return next((p.state for p in status.pipelines if p.pipeline == name), 0)


async def away(engine: Engine, name: str) -> admin_pb2.GetStatusResponse:
    """Waits until the lease of a query has ended."""
    return await engine.status_once(lambda status: state_of(status, name) == admin_pb2.PIPELINE_STATE_AWAY)


@asynccontextmanager
async def renewing(engine: Engine) -> AsyncIterator[None]:
    """Renews a lease all the time, as a planner does while a batch runs."""

    async def renew() -> None:
        while True:
            await engine.renew()
            await asyncio.sleep(LEASE_MS / 1000 / 5)

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def opened(address: str, **kind: source_pb2.SourceKind.ValueType) -> Connector:
    source = Connector(address)
    await source.hello()
    await source.open(**kind)
    await source.expect("stream_opened")
    return source


async def test_a_query_whose_machine_died_does_not_stall_the_others_and_finds_its_messages_when_it_comes_back() -> None:
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000, session_messages=WINDOW)) as (_, address):
        lives, dies = Engine(address, "lives"), Engine(address, "dies")
        await lives.attach()
        await dies.attach()
        source = await opened(address)
        await source.send(frame=numbered(1, 1, 10))
        await lives.plan_until("orders/0", 10)
        await dies.plan_until("orders/0", 10)
        await lives.plan({"orders/0": 10}, wait_ms=0)
        assert (await lives.status()).sessions[0].outstanding_messages == 10, "held as long as it may be there"
        async with renewing(lives):
            await away(lives, "dies")
        for first in (11, 31, 51):
            await source.send(frame=numbered(1, first, WINDOW))
            await lives.plan_until("orders/0", first + WINDOW - 1)
            await lives.plan({"orders/0": first + WINDOW - 1}, wait_ms=0)
        status = (await lives.status()).streams[0]
        assert not status.HasField("acknowledged"), "its checkpoint may continue any time"
        assert (status.acknowledged_messages, status.lag_messages) == (0, 70)
        assert [(h.pipeline, h.state) for h in status.holders] == [("dies", admin_pb2.PIPELINE_STATE_AWAY)]
        assert status.holders[0].held_ms >= LEASE_MS
        fetching = asyncio.create_task(dies.fetch("orders/0", None, 10))
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert not (await source.expect("stream_opened")).HasField("resume")
        await source.send(frame=numbered(2, 1, WINDOW))
        assert len(values_of(await fetching)) == WINDOW
        await dies.plan({"orders/0": 10}, wait_ms=0)
        assert (await source.expect("ack")).streams[0].position.sequence == 10
        for client in (source, lives, dies):
            await client.close()


async def test_renewing_is_enough_for_a_batch_that_takes_long() -> None:
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000)) as (_, address):
        busy, other = Engine(address, "busy"), Engine(address, "other")
        await busy.attach()
        await other.attach()
        source = await opened(address)
        await source.send(frame=numbered(1, 1, 10))
        await busy.plan_until("orders/0", 10)
        async with renewing(busy):
            assert (await busy.renew()).lease_ms == LEASE_MS
            status = await away(busy, "other")
        assert state_of(status, "busy") == admin_pb2.PIPELINE_STATE_ATTACHED
        for client in (source, busy, other):
            await client.close()


async def test_a_fetch_that_waits_keeps_its_query_there() -> None:
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000)) as (_, address):
        reads, other = Engine(address, "reads"), Engine(address, "other")
        await other.attach()
        await reads.attach(planned={"orders/0": 10})
        task = asyncio.create_task(reads.fetch("orders/0", None, 10))
        status = await away(other, "other")
        assert state_of(status, "reads") == admin_pb2.PIPELINE_STATE_ATTACHED
        source = await opened(address)
        await source.send(frame=numbered(1, 1, 10))
        assert len(values_of(await task)) == 10
        for client in (source, reads, other):
            await client.close()


async def test_what_a_redelivering_source_sent_is_held_for_a_query_that_is_away() -> None:
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000)) as (_, address):
        lives, dies = Engine(address, "lives"), Engine(address, "dies")
        await lives.attach()
        await dies.attach()
        source = await opened(address, kind=REDELIVERING)
        await source.send(frame=numbered(1, 1, 10))
        planned = await lives.plan_until("orders/0", 10)
        async with renewing(lives):
            await away(lives, "dies")
        await lives.plan({"orders/0": planned.end}, wait_ms=0)
        assert (await lives.status()).sessions[0].outstanding_messages == 10
        again = await dies.plan_until("orders/0", 10)
        assert len(values_of(await dies.fetch("orders/0", None, again.end))) == 10
        for client in (source, lives, dies):
            await client.close()


async def forget(engine: Engine, name: str, *, force: bool) -> None:
    await engine.admin.ForgetPipeline(admin_pb2.ForgetPipelineRequest(pipeline=name, force=force))


async def test_a_query_that_is_attached_is_forgotten_by_force_only() -> None:
    async with serve() as (_, address):
        stays, stuck = Engine(address, "stays"), Engine(address, "stuck")
        await stays.attach()
        await stuck.attach()
        source = await opened(address)
        await source.send(frame=numbered(1, 1, 10))
        await stays.plan_until("orders/0", 10)
        await stays.plan({"orders/0": 10}, wait_ms=0)
        with pytest.raises(grpc.aio.AioRpcError, match="use force") as refused:
            await forget(stays, "stuck", force=False)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        await forget(stays, "stuck", force=True)
        assert (await source.expect("ack")).streams[0].position.sequence == 10
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stuck.plan(wait_ms=0)
        assert error.value.code() is grpc.StatusCode.NOT_FOUND, "it attaches anew where it lives"
        await stuck.attach({"orders/0": 10})
        for client in (source, stays, stuck):
            await client.close()


async def test_a_query_that_is_away_is_forgotten_without_force_and_by_itself_where_the_configuration_says_so() -> None:
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000, forget_after_seconds=2 * LEASE_MS / 1000)) as (_, address):
        stays, gone = Engine(address, "stays"), Engine(address, "gone")
        await gone.attach({"orders/0": 3})
        await stays.attach()
        await stays.status_once(lambda status: state_of(status, "gone") == 0)
        await stays.close()
        await gone.close()
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000)) as (_, address):
        stays, gone = Engine(address, "stays"), Engine(address, "gone")
        await gone.attach({"orders/0": 3})
        await away(stays, "gone")
        await forget(stays, "gone", force=False)
        assert state_of(await stays.status(), "gone") == 0
        await stays.close()
        await gone.close()


async def test_a_query_in_its_first_batch_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.gateway.core.batches.leases.NEVER_RAN_AFTER_S", 0.0)
    async with serve(Limits(query_lease_seconds=LEASE_MS / 1000)) as (_, address):
        first, idle, watcher = Engine(address, "first"), Engine(address, "idle"), Engine(address, "watcher")
        await first.attach()
        await idle.attach()
        source = await opened(address)
        await source.send(frame=frame(1, 0, [b"v"]))
        await first.plan_until("orders/0", 0)
        status = await watcher.status_once(lambda status: state_of(status, "idle") == 0)
        assert state_of(status, "first") in (admin_pb2.PIPELINE_STATE_ATTACHED, admin_pb2.PIPELINE_STATE_AWAY)
        await away(watcher, "first")
        for client in (source, first, idle, watcher):
            await client.close()


async def test_a_restarted_gateway_holds_acknowledgements_for_a_query_that_renews() -> None:
    async with serve() as (_, address):
        working, other = Engine(address, "working"), Engine(address, "other")
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await working.renew()
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
        await other.attach()
        source = await opened(address)
        await source.send(frame=numbered(1, 1, 10))
        await other.plan_until("orders/0", 10)
        await other.plan({"orders/0": 10}, wait_ms=0)
        status = (await other.status()).streams[0]
        assert not status.HasField("acknowledged")
        assert [(h.pipeline, h.state) for h in status.holders] == [("working", admin_pb2.PIPELINE_STATE_AWAITED)]
        for client in (source, working, other):
            await client.close()
