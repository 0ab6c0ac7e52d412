"""Every call in progress ends when its token is revoked, whatever its method, and whatever it waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.gateway.http_server import get, post, serve_http
from tests.gateway.test_rights import ALL_NAMES, METHODS, bearer, token
from tests.gateway.test_supervising import serving
from tests.gateway.wire import DEADLINE_S, REPLAYABLE, numbered, positions, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Config, Peek
from headrace.gateway.core import Gateway, Kind, problems
from headrace.gateway.core.batches import end_leases
from headrace.gateway.core.status import snapshot
from headrace.gateway.health import Health
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.reload import ConfigSource, Reloading
from headrace.gateway.services import AdminService, EngineService, SinkService, SourceService, ending
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, engine_pb2, engine_pb2_grpc, source_pb2, source_pb2_grpc

KEPT, REVOKED = token("kept", **ALL_NAMES), token("revoked", **ALL_NAMES)
SERVICES = {service.__name__: service for service in (SourceService, SinkService, EngineService, AdminService)}
Code = grpc.StatusCode


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.01)


def open_call(channel: grpc.aio.Channel, path: str) -> Any:
    """A call of a method of any kind, whose request is yet to be written."""
    return channel.stream_stream(path, request_serializer=bytes, response_deserializer=bytes)(metadata=bearer("revoked"))


async def code_of(call: Any) -> grpc.StatusCode:
    async with asyncio.timeout(DEADLINE_S):
        return await call.code()


async def in_progress(gateway: Gateway) -> None:
    await until(lambda: any(call.identity.name == "revoked" and call.is_served for call in gateway.open_calls))


def waits(method: MethodDescriptor, begun: asyncio.Event) -> Callable[..., Any]:
    """A method that never answers."""

    async def one(self: object, request: Any, context: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def several(self: object, request: Any, context: object) -> AsyncIterator[bytes]:
        begun.set()
        await asyncio.Event().wait()
        yield b""

    return several if method.server_streaming else one


@pytest.mark.parametrize("path", METHODS)
async def test_a_call_of_any_method_ends_while_it_is_served(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, begun = METHODS[path], asyncio.Event()
    monkeypatch.setattr(SERVICES[method.containing_service.name], method.name, waits(method, begun))
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        call = open_call(channel, path)
        await call.write(b"")
        async with asyncio.timeout(DEADLINE_S):
            await begun.wait()
        assert gateway.end_revoked(TokenRegistry((KEPT, REVOKED))) == 0
        assert gateway.end_revoked(TokenRegistry((KEPT,))) == 1
        assert await code_of(call) is Code.UNAUTHENTICATED
        assert "'revoked' was replaced" in await call.details()
        await until(lambda: not len(gateway.open_calls))


def answers(method: MethodDescriptor, before: Callable[[], None]) -> Callable[..., Any]:
    """A method that answers once."""

    async def one(self: object, request: Any, context: object) -> Any:
        before()
        return message_factory.GetMessageClass(method.output_type)()

    async def several(self: object, request: Any, context: object) -> AsyncIterator[Any]:
        yield await one(self, request, context)
        await asyncio.Event().wait()

    return several if method.server_streaming else one


def after_steps(steps: int, function: Callable[[], object]) -> None:
    """Calls a function after as many steps of the event loop."""
    if steps:
        asyncio.get_running_loop().call_soon(after_steps, steps - 1, function)
    else:
        function()


@pytest.mark.parametrize("path", METHODS)
async def test_a_call_of_any_method_ends_at_each_step_of_its_first_write(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, ends = METHODS[path], list[Callable[[], object]]()
    answer = answers(method, lambda: ends.pop()())
    monkeypatch.setattr(SERVICES[method.containing_service.name], method.name, answer)
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        for steps in range(1, 9):  # At step 0 the call would end itself, which `end_revoked` leaves to it.
            gateway.end_revoked(TokenRegistry((KEPT, REVOKED)))
            ends.append(partial(after_steps, steps, partial(gateway.end_revoked, TokenRegistry((KEPT,)))))
            call = open_call(channel, path)
            # The status comes after the messages, and may come before this one is written.
            with suppress(grpc.aio.AioRpcError):
                async with asyncio.timeout(DEADLINE_S):
                    await call.write(b"")
                    while await call.read() is not grpc.aio.EOF:
                        pass
            code = await code_of(call)
            assert code is Code.UNAUTHENTICATED or (code is Code.OK and not method.server_streaming)
            await until(lambda: not len(gateway.open_calls))


@pytest.mark.parametrize("path", METHODS)
async def test_a_call_of_any_method_ends_before_its_first_message(path: str) -> None:
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        call = open_call(channel, path)
        await until(lambda: len(gateway.open_calls) == 1)
        assert gateway.end_revoked(TokenRegistry((KEPT,))) == 1
        assert await code_of(call) is Code.UNAUTHENTICATED
        await until(lambda: not len(gateway.open_calls))


async def test_a_fetch_and_a_plan_that_wait_read_nothing_more() -> None:
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        engine = engine_pb2_grpc.EngineServiceStub(channel)
        who = engine_pb2.Pipeline(name="p", run=1, streams=["orders/*"])
        await engine.Attach(engine_pb2.AttachRequest(pipeline=who), metadata=bearer("revoked"), timeout=DEADLINE_S)
        connector = source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=bearer("kept"))
        hello = source_pb2.Hello(protocol_version=1, connector="c", instance="i")
        await connector.write(source_pb2.IngestRequest(hello=hello))
        opened = source_pb2.OpenStream(stream_id=1, stream="orders/0", kind=REPLAYABLE)
        await connector.write(source_pb2.IngestRequest(open_stream=opened))
        await until(lambda: "orders/0" in gateway.streams)
        ranges = [engine_pb2.Range(stream="orders/0", start=None, end={"sequence": 2**40})]
        fetch = engine.Fetch(engine_pb2.FetchRequest(pipeline=who, ranges=ranges), metadata=bearer("revoked"))
        other = engine_pb2.Pipeline(name="q", run=1, streams=["trades/*"])
        await engine.Attach(engine_pb2.AttachRequest(pipeline=other), metadata=bearer("revoked"), timeout=DEADLINE_S)
        plan = engine.Plan(engine_pb2.PlanRequest(pipeline=other, wait_ms=600_000), metadata=bearer("revoked"))
        following = engine_pb2.FollowRequest(pipeline=who, positions=positions({"orders/0": None}))
        follow = engine.Follow(following, metadata=bearer("revoked"))
        await until(lambda: sum(call.is_served for call in gateway.open_calls) == 4)
        gateway.end_revoked(TokenRegistry((KEPT,)))
        await connector.write(source_pb2.IngestRequest(frame=numbered(1, 0, 5)))
        for call in (fetch, plan, follow):
            assert await code_of(call) is Code.UNAUTHENTICATED
        assert {pipeline.calls for pipeline in gateway.pipelines.values()} == {0}
        connector.cancel()


async def test_a_session_that_says_hello_after_the_revocation_is_refused() -> None:
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        call = source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=bearer("revoked"))
        await in_progress(gateway)
        gateway.end_revoked(TokenRegistry((KEPT,)))
        assert await code_of(call) is Code.UNAUTHENTICATED
        assert not gateway.sessions


async def test_calls_without_a_token_that_send_no_request_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "MAX_WAITING", 3)
    add_health = health_pb2_grpc.add_HealthServicer_to_server
    async with (
        serve(tokens=(KEPT,), more=lambda server: add_health(Health(), server)) as (gateway, address),
        grpc.aio.insecure_channel(address) as strangers,
        grpc.aio.insecure_channel(address) as probes,
    ):
        watch = health_pb2_grpc.HealthStub(strangers).Watch(health_pb2.HealthCheckRequest())
        assert await watch.read() is not grpc.aio.EOF
        calls = []
        for method in ("Check", "Watch", "List") * 3:
            path = f"/grpc.health.v1.Health/{method}"
            calls.append(strangers.stream_stream(path, request_serializer=bytes, response_deserializer=bytes)())
            await calls[-1].wait_for_connection()
        for call in calls[:4]:
            assert await code_of(call) is Code.RESOURCE_EXHAUSTED
        for _ in range(10):
            await health_pb2_grpc.HealthStub(probes).Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
        assert not watch.done(), "its request was there"
        assert not len(gateway.open_calls)
        for call in [watch, *calls]:
            call.cancel()


def reloading(gateway: Gateway, *tokens: Any) -> Reloading:
    """What reloads a gateway whose file now has these tokens."""
    registry = TokenRegistry((KEPT, REVOKED))
    source = ConfigSource(Path("gateway.toml"), lambda: Config(tokens=tokens, peek=gateway.peek))
    return Reloading(source, Config(tokens=(KEPT, REVOKED), peek=gateway.peek), registry, gateway)


@pytest.mark.parametrize("how", ["reload", "reload_tokens"])
async def test_both_ways_to_reload_tokens_end_calls(how: str) -> None:
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        request = admin_pb2.SuperviseRequest(hello=admin_pb2.SuperviseHello(deployment="deploy.toml", run="r1"))
        call = admin_pb2_grpc.AdminServiceStub(channel).Supervise(metadata=bearer("revoked"))
        await call.write(request)
        assert (await call.read()).HasField("welcome")  # type: ignore[union-attr]
        await until(lambda: bool(gateway.deployments.by_name))
        getattr(reloading(gateway, KEPT), how)()
        assert await code_of(call) is Code.UNAUTHENTICATED


QUERY = engine_pb2.Pipeline(name="p", run=1, streams=["orders/*"])


@pytest.mark.parametrize("has_new_token", [False, True])
async def test_a_query_whose_token_is_revoked_is_refused_in_health_once_its_lease_has_ended(has_new_token: bool) -> None:
    """Its later calls show no query, and their refusals are forgotten before the lease ends."""
    with clock.use(VirtualClock()) as now:
        async with (
            serve(tokens=(KEPT, REVOKED), has_rounds=False) as (gateway, address),
            grpc.aio.insecure_channel(address) as channel,
        ):
            stub = engine_pb2_grpc.EngineServiceStub(channel)
            await stub.Attach(engine_pb2.AttachRequest(pipeline=QUERY), metadata=bearer("revoked"), timeout=DEADLINE_S)
            reloading(gateway, KEPT).reload()
            if has_new_token:
                await stub.Renew(engine_pb2.RenewRequest(pipeline=QUERY), metadata=bearer("kept"), timeout=DEADLINE_S)
            now.advance(gateway.limits.query_lease_seconds + 1)
            end_leases(gateway)
            (problem,) = [one for one in problems(await snapshot(gateway), 900_000, 5_000) if one.part == "pipeline p"]
    if has_new_token:
        assert problem.kind is Kind.PIPELINE_AWAY
        return
    assert problem.kind is Kind.REFUSED
    assert "the token of 'revoked' was replaced" in problem.cause
    assert "give it the token that the gateway's configuration has now" in problem.remedy


async def test_whoever_revokes_the_own_token_learns_that_it_worked() -> None:
    async with serve(tokens=(KEPT, REVOKED)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        gateway.reload = reloading(gateway, KEPT).reload
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        answer = await stub.Reload(admin_pb2.ReloadRequest(), metadata=bearer("revoked"), timeout=DEADLINE_S)
        assert list(answer.changes) == ["tokens: revoked changed"]
        async with serve_http(gateway, (KEPT, REVOKED)) as http:
            gateway.reload = reloading(gateway, KEPT).reload
            assert (await post(http, "/api/v1/gateway/reload", {}, "revoked"))[0] == 200


async def test_a_gateway_that_stops_ends_a_plan_that_waits() -> None:
    async with serve() as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        engine = engine_pb2_grpc.EngineServiceStub(channel)
        who = engine_pb2.Pipeline(name="p", run=1, streams=["orders/*"])
        await engine.Attach(engine_pb2.AttachRequest(pipeline=who), timeout=DEADLINE_S)
        plan = engine.Plan(engine_pb2.PlanRequest(pipeline=who, wait_ms=600_000))
        await until(lambda: any(call.is_served for call in gateway.open_calls))
        gateway.close()
        assert await code_of(plan) is Code.UNAVAILABLE


# HTTP


async def test_a_request_that_waits_ends() -> None:
    async with serving(KEPT, REVOKED) as rig, serve_http(rig.gateway, (KEPT, REVOKED)) as http:
        supervisor = await rig.supervisor("kept").register("orders")
        request = asyncio.create_task(post(http, "/api/v1/connectors/restart", {"name": "orders"}, "revoked"))
        await supervisor.order()
        assert rig.gateway.end_revoked(TokenRegistry((KEPT,))) == 1
        code, told = await request
        assert (code, "'revoked' was replaced" in told["detail"]) == (401, True)
        await until(lambda: rig.gateway.deployments.waiting == 0)


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/streams/orders/0/peek"])
async def test_a_stream_of_events_ends_at_once(path: str) -> None:
    async with serve() as (gateway, _), serve_http(gateway, (KEPT, REVOKED)) as http, aiohttp.ClientSession() as session:
        gateway.peek = Peek(enabled=True)
        gateway.stream("orders/0")
        async with session.get(f"http://{http}{path}", headers={"Authorization": "Bearer revoked"}) as response:
            assert response.status == 200
            await response.content.readline()
            assert gateway.end_revoked(TokenRegistry((KEPT,))) == 1
            async with asyncio.timeout(DEADLINE_S):
                await response.content.read()
        await until(lambda: not len(gateway.open_calls))
        assert (await get(http, "/healthz"))[0] == 200
