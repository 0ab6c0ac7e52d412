"""A restart is a success only once the gateway has a new session of the connector, whatever its supervisor says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from tests.gateway.sink_wire import IDEMPOTENT, SinkClient
from tests.gateway.test_rights import token
from tests.gateway.test_supervising import RESTARTED, Code, Rig, Supervisor, serving
from tests.gateway.wire import DEADLINE_S, Connector

from headrace.protocol.v1 import admin_pb2 as pb


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as rig:
        yield rig


async def supervisor_of(rig: Rig, run: str = "r1", **serves: str) -> Supervisor:
    """A supervisor whose one connector serves a source or a sink."""
    made = rig.supervisor()
    one = pb.SupervisedConnector(name="orders", instance="orders-0", **serves)
    await made.send(
        hello=pb.SuperviseHello(deployment="deploy.toml", run=run, connectors=pb.SupervisedConnectors(connectors=[one]))
    )
    await made.read()
    return made


async def answered(rig: Rig, supervisor: Supervisor, timeout_ms: int | None = None, **outcome: Any) -> "asyncio.Task[Any]":
    """A restart that was requested, and that the supervisor says has succeeded."""
    call = asyncio.create_task(awaited(rig.restart("orders", timeout_ms=timeout_ms)))
    order = await supervisor.order()
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(**{**RESTARTED, **outcome}))
    await rig.until(lambda gateway: not gateway.deployments.by_name["deploy.toml"].orders)
    return call


async def awaited(call: Any) -> pb.RestartConnectorResponse:
    response: pb.RestartConnectorResponse = await call
    return response


async def test_a_source_has_restarted_once_its_new_session_is_open(rig: Rig) -> None:
    supervisor, old, new = await supervisor_of(rig, source="orders"), Connector(rig.address), Connector(rig.address)
    await old.hello("orders-0")
    call = await answered(rig, supervisor)
    assert not call.done(), "the session is the one from before"
    await old.close()
    other = Connector(rig.address)
    await other.hello("payroll-0")
    assert not call.done(), "the session is another connector's"
    await new.hello("orders-0")
    assert (await call).restarted.pid == RESTARTED["pid"]
    for each in (other, new):
        await each.close()


async def test_a_sink_has_restarted_once_its_new_session_is_open(rig: Rig) -> None:
    supervisor = await supervisor_of(rig, sink="out")
    call = await answered(rig, supervisor)
    source, elsewhere, sink = Connector(rig.address), SinkClient(rig.address), SinkClient(rig.address)
    await source.hello("orders-0")
    await elsewhere.hello("orders-0", "other", IDEMPOTENT)
    assert not call.done(), "a source, or another sink, may have an instance of the same name"
    await sink.hello("orders-0", "out", IDEMPOTENT)
    assert (await call).restarted.pid == RESTARTED["pid"]
    for each in (source, elsewhere, sink):
        await each.close()


@pytest.mark.parametrize("serves", [{"source": "orders"}, {"sink": "out"}])
async def test_a_connector_without_a_session_has_not_restarted(rig: Rig, serves: dict[str, str]) -> None:
    supervisor = await supervisor_of(rig, **serves)
    call = await answered(rig, supervisor, timeout_ms=200)
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    assert failed.value.code() is Code.DEADLINE_EXCEEDED
    assert "has restarted orders as process 2, and it has no session" in (failed.value.details() or "")
    assert rig.gateway.deployments.waiting == 0


async def test_a_connector_that_has_reached_its_end_needs_no_session(rig: Rig) -> None:
    supervisor = await supervisor_of(rig, source="orders")
    call = await answered(rig, supervisor, ended=True)
    assert (await call).restarted.ended


async def test_the_answer_of_a_supervisor_that_was_taken_over_is_no_success(rig: Rig) -> None:
    older = await supervisor_of(rig, source="orders")
    call = rig.restart("orders")
    order = await older.order()
    newer = await supervisor_of(rig, "r2", source="orders")
    # The call has ended, or is about to.
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        await older.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
    connector = Connector(rig.address)
    await connector.hello("orders-0")
    assert (await rig.refused(call))[0] is Code.UNAVAILABLE
    assert rig.gateway.deployments.by_name["deploy.toml"].run == "r2"
    await newer.close()
    await connector.close()


@pytest.mark.parametrize(
    ("patterns", "deployment", "allowed"),
    [
        (True, "deploy.toml", True),
        (["deploy.toml"], "deploy.toml", True),
        (["orders*"], "orders.toml", True),
        (["orders*"], "deploy.toml", False),
        ([], "deploy.toml", False),
        (False, "deploy.toml", False),
    ],
)
async def test_a_token_registers_only_the_deployments_that_its_right_names(patterns: Any, deployment: str, allowed: bool) -> None:
    async with serving(token("ours", supervise=patterns)) as rig:
        supervisor = rig.supervisor("ours")
        if patterns:  # without any, the call ends before it says Hello
            await supervisor.send(hello=pb.SuperviseHello(deployment=deployment, run="r1"))
        if allowed:
            assert (await supervisor.read()).HasField("welcome")
        else:
            code, details = await supervisor.ended()
            assert code is Code.PERMISSION_DENIED
            assert "'ours'" in details
        assert bool(rig.gateway.deployments.by_name) is allowed


async def test_a_restart_is_waited_for_no_longer_than_requested(rig: Rig) -> None:
    supervisor = await supervisor_of(rig, source="orders")
    call = rig.restart("orders", timeout_ms=1)
    await supervisor.order()
    async with asyncio.timeout(DEADLINE_S):
        assert (await rig.refused(call))[0] is Code.DEADLINE_EXCEEDED
