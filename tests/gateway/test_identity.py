import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from headrace.gateway import Config, Identity, Token, identity_of
from headrace.gateway.core.connections import OpenCalls, Refusals
from headrace.gateway.identity import EVERYTHING, TokenRegistry
from headrace.gateway.listen import listen, new_server
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, source_pb2, source_pb2_grpc

DEADLINE_S = 150.0


def token(name: str, secret: str) -> Token:
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return Token(name=name, sha256=(digest,), sources=(f"{name}/*",), admin=True)


TWO_TOKENS = (token("orders", "o-secret"), token("trades", "t-secret"))


class WhoAmI(admin_pb2_grpc.AdminServiceServicer, source_pb2_grpc.SourceServiceServicer):
    """Tells who called, in place of a status or a welcome."""

    async def GetStatus(
        self, request: admin_pb2.GetStatusRequest, context: "grpc.aio.ServicerContext[admin_pb2.GetStatusRequest, object]"
    ) -> admin_pb2.GetStatusResponse:
        return admin_pb2.GetStatusResponse(gateway=admin_pb2.GatewayStatus(version=identity_of(context).name))

    async def ForgetPipeline(
        self,
        request: admin_pb2.ForgetPipelineRequest,
        context: "grpc.aio.ServicerContext[admin_pb2.ForgetPipelineRequest, object]",
    ) -> admin_pb2.ForgetPipelineResponse:
        raise NotImplementedError

    async def Ingest(
        self, requests: AsyncIterator[source_pb2.IngestRequest], context: "grpc.aio.ServicerContext[object, object]"
    ) -> AsyncIterator[source_pb2.IngestResponse]:
        async for _ in requests:
            yield source_pb2.IngestResponse(welcome=source_pb2.Welcome(session=identity_of(context).name))


@asynccontextmanager
async def serving(*tokens: Token) -> AsyncIterator[grpc.aio.Channel]:
    config = Config(listen="127.0.0.1:0", tokens=tokens)
    server = new_server(config, TokenRegistry(tokens), OpenCalls(), Refusals())
    admin_pb2_grpc.add_AdminServiceServicer_to_server(WhoAmI(), server)
    source_pb2_grpc.add_SourceServiceServicer_to_server(WhoAmI(), server)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    reflection.enable_server_reflection((reflection.SERVICE_NAME,), server)
    address = listen(server, config)
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield channel
    await server.stop(None)


async def who(channel: grpc.aio.Channel, *metadata: tuple[str, str]) -> str:
    stub = admin_pb2_grpc.AdminServiceStub(channel)
    answer = await stub.GetStatus(admin_pb2.GetStatusRequest(), metadata=metadata, timeout=DEADLINE_S)
    return answer.gateway.version


async def refused(channel: grpc.aio.Channel, *metadata: tuple[str, str]) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await who(channel, *metadata)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    return caught.value.details() or ""


async def test_a_token_says_who_calls() -> None:
    async with serving(*TWO_TOKENS) as channel:
        assert await who(channel, ("authorization", "Bearer o-secret")) == "orders"
        assert await who(channel, ("authorization", "bearer t-secret")) == "trades"
        assert await who(channel, ("authorization", "Bearer o-secret")) == "orders"


async def test_calls_without_a_known_token_are_refused_and_told_why() -> None:
    async with serving(*TWO_TOKENS) as channel:
        assert "HEADRACE_TOKEN" in await refused(channel)
        assert "HEADRACE_TOKEN" in await refused(channel, ("authorization", "Basic o-secret"))
        for wrong in (
            "Bearer o-secre",
            "Bearer o-secret!",
            "Bearer ",
            "Bearer \u00ff".encode("latin-1").decode("ascii", "ignore"),
        ):
            assert "does not know the token" in await refused(channel, ("authorization", wrong))


async def test_a_streaming_call_is_refused_before_it_says_anything() -> None:
    async with serving(*TWO_TOKENS) as channel:
        call = source_pb2_grpc.SourceServiceStub(channel).Ingest(timeout=DEADLINE_S)
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_session_keeps_its_identity_while_others_call() -> None:
    async with serving(*TWO_TOKENS) as channel:
        stub = source_pb2_grpc.SourceServiceStub(channel)
        calls = [stub.Ingest(metadata=[("authorization", f"Bearer {secret}")]) for secret in ("o-secret", "t-secret")]
        for _ in range(2):
            names = []
            for call in calls:
                await call.write(source_pb2.IngestRequest(goodbye=source_pb2.Goodbye()))
                response = await call.read()
                assert isinstance(response, source_pb2.IngestResponse)
                names.append(response.welcome.session)
            assert names == ["orders", "trades"]
        for call in calls:
            await call.done_writing()


async def test_health_is_open_and_reflection_is_not() -> None:
    async with serving(*TWO_TOKENS) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]), timeout=DEADLINE_S)
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_without_tokens_everybody_may_do_everything() -> None:
    async with serving() as channel:
        assert await who(channel) == "anybody"
        assert await who(channel, ("authorization", "Bearer whatever")) == "anybody"
    assert EVERYTHING.may_open("orders/0")
    assert EVERYTHING.may_read("*/*")
    assert EVERYTHING.may_run("totals")
    assert EVERYTHING.may_write("archive")
    assert EVERYTHING.may_administer()


def test_a_token_permits_what_its_patterns_cover() -> None:
    identity = Identity("a", sources=("orders/*", "trades-*/0"), pipelines=("totals-*",), reads=("orders/*",))

    assert identity.may_open("orders/0")
    assert identity.may_open("trades-eu/0")
    assert not identity.may_open("trades-eu/1")
    assert not identity.may_open("orders/0/1")
    assert not identity.may_open("xorders/0")
    assert identity.may_run("totals-1")
    assert not identity.may_run("total")
    assert not identity.may_write("orders")
    assert not identity.may_administer()


@pytest.mark.parametrize(
    ("permitted", "wanted", "covered"),
    [
        ("orders/*", "orders/*", True),
        ("orders/*", "orders/1*", True),
        ("*/*", "orders/*", True),
        ("o*/*", "orders/*", True),
        ("orders/0", "orders/*", False),
        ("orders/*", "o*/*", False),
        ("orders/*", "*/*", False),
        ("orders/*0", "orders/*", False),
        ("a.c/0", "abc/0", False),
    ],
)
def test_a_pattern_is_permitted_where_all_that_it_matches_is(permitted: str, wanted: str, covered: bool) -> None:
    assert Identity("a", reads=(permitted,)).may_read(wanted) is covered
