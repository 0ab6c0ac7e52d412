"""A part that the gateway refuses is named with the refusal, whatever it is, and not as one that has to be started."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import SinkClient
from tests.gateway.test_rights import bearer, token
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.contract import clock
from headrace.gateway import Limits, observer
from headrace.gateway.core import Gateway, Kind, ProtocolError, problems
from headrace.gateway.core.connections import Refusals, Role
from headrace.gateway.core.connections.refusals import MAX_PARTS, MAX_STRANGERS
from headrace.gateway.services import engine, sink, source, supervise
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import admin_pb2_grpc, connector_pb2, engine_pb2, source_pb2, source_pb2_grpc

PARTS = {
    Role.SOURCE: "connector test-0",
    Role.SINK: "connector i of sink out",
    Role.QUERY: "pipeline p",
    Role.SUPERVISOR: "deployment deploy.toml",
}


def all_errors(of: type[ProtocolError] = ProtocolError) -> Iterator[type[ProtocolError]]:
    yield of
    for kind in of.__subclasses__():
        yield from all_errors(kind)


ERRORS = list(all_errors())


@dataclass
class Refusing:
    """A gateway whose checks raise an error, and what it serves."""

    gateway: Gateway
    address: str
    http: str
    error: ProtocolError | None = None

    def check(self, *_: Any) -> None:
        if self.error is not None:
            raise self.error

    async def call(self, role: Role) -> Any:
        """A call of a part; returns it once it was refused or admitted."""
        match role:
            case Role.SOURCE:
                caller: Any = Connector(self.address)
                with suppress(AssertionError, grpc.aio.AioRpcError):
                    await caller.hello()
            case Role.SINK:
                caller = SinkClient(self.address)
                with suppress(AssertionError, grpc.aio.AioRpcError):
                    await caller.hello()
            case Role.QUERY:
                caller = Engine(self.address)
                with suppress(grpc.aio.AioRpcError):
                    await caller.attach()
            case Role.SUPERVISOR:
                caller = Supervisor(self.address)
                await caller.send(hello=pb.SuperviseHello(deployment="deploy.toml", run="r"))
                with suppress(AssertionError, grpc.aio.AioRpcError):
                    await caller.read()
        return caller

    async def until_left(self) -> None:
        """Waits until nothing is connected."""
        gateway = self.gateway
        gateway.pipelines.clear()
        async with asyncio.timeout(DEADLINE_S):
            while gateway.sessions or gateway.sink_sessions or gateway.deployments.by_name:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)

    async def problems(self) -> dict[str, Any]:
        _, ready = await get(self.http, "/readyz")
        return {one["part"]: one for one in ready["problems"]}

    async def until(self, part: str, kind: str | None) -> Any:
        """The problem of a part, once it has a kind; once it has none, for None."""
        async with asyncio.timeout(DEADLINE_S):
            while (found := (await self.problems()).get(part, {})).get("kind") != kind:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        return found


@asynccontextmanager
async def refusing(monkeypatch: pytest.MonkeyPatch, limits: Limits | None = None, **more: Any) -> AsyncIterator[Refusing]:
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    async with serve(limits, **more) as (gateway, address), serve_http(gateway) as http:
        yield Refusing(gateway, address, http)


@pytest.mark.parametrize("role", Role)
async def test_each_error_that_refuses_a_part_is_the_cause_that_health_names(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every class of errors that there is, at every place where a part begins."""
    async with refusing(monkeypatch) as here:
        register = supervise.register

        def registered(*args: Any) -> Any:
            here.check()
            return register(*args)

        monkeypatch.setattr(source, "check_of_session", here.check)
        monkeypatch.setattr(sink, "check_of_session", here.check)
        monkeypatch.setattr(engine, "check_not_late", here.check)
        monkeypatch.setattr(supervise, "register", registered)
        for kind in ERRORS:
            here.error = kind("it is wrong")
            caller = await here.call(role)
            found = (await here.problems()).get(PARTS[role])
            if kind.counts_as_refusal:
                assert found is not None, kind
                assert (found["kind"], found["root"], found["remedy"]) == (Kind.REFUSED, PARTS[role], kind.remedy)
                assert f"{kind.status.name}: it is wrong" in found["cause"]
            else:
                assert found is None or found["kind"] == Kind.CONNECTOR_RECONNECTS, kind
            await caller.close()
            here.error = None
            caller = await here.call(role)
            # So many sessions in a row are a fault of their own.
            kind_now = (await here.problems()).get(PARTS[role], {}).get("kind")
            assert kind_now in (None, Kind.CONNECTOR_RECONNECTS), kind
            await caller.close()
            await here.until_left()


def test_each_error_that_ends_sessions_has_a_remedy() -> None:
    """A limit that can be raised names its key, and nothing tells to start what runs."""
    for kind in ERRORS:
        assert "start the connector" not in kind.remedy
        if kind.reason == connector_pb2.ERROR_REASON_TOO_MANY_SESSIONS:
            assert "max_sessions" in kind.remedy


async def test_a_connector_that_finds_no_room_is_why_its_stream_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async with refusing(monkeypatch, Limits(max_sessions=1, query_lease_seconds=600)) as here:
        query, connector = Engine(here.address), Connector(here.address)
        await query.attach()
        await connector.hello()
        await connector.open()
        await connector.expect("stream_opened")
        await connector.send(frame=numbered(1, 1, 3))
        await query.plan_until("orders/0", 3)
        await connector.close()
        await here.until("connector test-0", Kind.CONNECTOR_AWAY)
        other = Connector(here.address)
        await other.hello("other-0")
        connector = await here.call(Role.SOURCE)
        for part in ("connector test-0", "stream orders/0"):
            found = await here.until(part, Kind.REFUSED)
            assert "max_sessions is 1" in found["cause"]
            assert "raise max_sessions" in found["remedy"]
            assert found["root"] == "connector test-0"
        located = await query.admin.LocateMessage(pb.LocateMessageRequest(stream="orders/0", sequence=9), timeout=DEADLINE_S)
        assert (located.problem.kind, located.problem.root) == (Kind.REFUSED, "connector test-0")
        serving = await here.call(Role.SINK)
        assert "max_sessions" in (await here.until(PARTS[Role.SINK], Kind.REFUSED))["remedy"]
        await connector.close()
        await serving.close()
        await other.close()
        await query.status_once(lambda status: not status.sessions)
        connector = await here.call(Role.SOURCE)
        await connector.open()
        await connector.expect("stream_opened")
        await here.until("connector test-0", None)
        await here.until("stream orders/0", None)
        await connector.close()
        await query.close()


async def test_a_session_that_breaks_the_protocol_is_named_until_it_is_admitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with refusing(monkeypatch) as here:
        connector = await here.call(Role.SOURCE)
        await connector.open()
        await connector.send(hello=source_pb2.Hello(protocol_version=1, connector="test", instance="test-0"))
        await connector.ended()
        found = await here.until("connector test-0", Kind.REFUSED)
        assert "the gateway has ended its session: FAILED_PRECONDITION: a second Hello" in found["cause"]
        await connector.close()
        connector = await here.call(Role.SOURCE)
        await here.until("connector test-0", None)
        await connector.close()


TOKENS = [token("owner", sources=["orders/*"], admin=True), token("query", pipelines=["p"], reads=["orders/*"])]


async def test_what_a_token_does_not_allow_is_named_with_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that a connector may not open, a sink that a token may not serve, a token that nobody knows."""
    async with refusing(monkeypatch, tokens=TOKENS) as here, grpc.aio.insecure_channel(here.address) as channel:
        stub = source_pb2_grpc.SourceServiceStub(channel)
        call = stub.Ingest(metadata=bearer("owner"))
        await call.write(source_pb2.IngestRequest(hello=source_pb2.Hello(protocol_version=1, connector="t", instance="test-0")))
        await call.read()
        opened = source_pb2.OpenStream(stream_id=1, stream="prices/0", kind=source_pb2.SOURCE_KIND_REPLAYABLE)
        await call.write(source_pb2.IngestRequest(open_stream=opened))
        while (await call.read()).WhichOneof("message") != "reject":
            pass
        (stream,) = found(here.gateway)
        assert (stream.part, stream.role) == ("stream prices/0", "source")
        assert "does not allow stream 'prices/0'" in stream.cause
        assert "give its token what the error names" in stream.remedy
        call.cancel()
        stranger = stub.Ingest(metadata=bearer("unknown"))
        assert await stranger.code() is grpc.StatusCode.UNAUTHENTICATED
        unknown = found(here.gateway)[-1]
        assert (unknown.part, unknown.role) == ("", "source")
        assert "UNAUTHENTICATED: this gateway does not know the token" in unknown.cause
        attach = engine_pb2.AttachRequest(pipeline=engine_pb2.Pipeline(name="p", run=1, streams=["orders/*"]))
        path = "/headrace.protocol.v1.EngineService/Attach"
        query = channel.unary_unary(path, engine_pb2.AttachRequest.SerializeToString, engine_pb2.AttachResponse.FromString)
        with pytest.raises(grpc.aio.AioRpcError):
            await query(attach, metadata=bearer("owner"), timeout=DEADLINE_S)
        assert {one.role for one in found(here.gateway) if not one.part} == {"source", "query"}
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        status = await admin.GetStatus(pb.GetStatusRequest(), metadata=bearer("owner"), timeout=DEADLINE_S)
        assert len(status.gateway.refusals) == 3


def found(gateway: Gateway) -> list[pb.RefusedCall]:
    return [one.status() for one in gateway.refusals]


def away(**gateway: Any) -> list[Any]:
    """The problems of a stream whose connector is away, at a gateway."""
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(**gateway))
    status.streams.add(stream="orders/0", state=pb.STREAM_STATE_DETACHED, readers=1, last_instance="a", state_age_ms=9_000)
    return problems(status, 900_000, 5_000)


def test_a_gateway_that_takes_no_connection_is_why_a_connector_is_away() -> None:
    fault = pb.GatewayFault(part="gRPC connections", kind="descriptors-exhausted", cause="full", remedy="raise the limit")
    for problem in away(own_faults=[fault]):
        assert (problem.root or problem.part, problem.remedy) == ("gRPC connections", "raise the limit")
    for problem in away(draining=True):
        assert problem.root == "gateway" or problem.part == "gateway"
        assert "start the connector" not in problem.remedy


@pytest.mark.parametrize(
    ("role", "last_ms", "is_named"), [("source", 1_000, True), ("sink", 1_000, False), ("source", 61_000, False)]
)
def test_a_refused_stranger_may_be_the_connector_that_is_away(role: str, last_ms: int, is_named: bool) -> None:
    refusal = pb.RefusedCall(
        role=role, peer="ipv4:192.0.2.1:5", cause="UNAUTHENTICATED: unknown", remedy="a token", last_ms=last_ms
    )
    for problem in away(refusals=[refusal]):
        assert ("192.0.2.1:5 is refused: UNAUTHENTICATED" in problem.cause) is is_named
        assert (problem.remedy == "a token") is is_named
    alone = problems(pb.GetStatusResponse(gateway=pb.GatewayStatus(refusals=[refusal])), 900_000, 5_000)
    assert alone == [], "a stranger alone makes nothing wrong"


def test_an_old_refusal_is_a_cause_only_of_what_is_away() -> None:
    refusal = pb.RefusedCall(role="source", part="connector a", cause="why", remedy="how", age_ms=90_000, last_ms=80_000)
    connector, stream = away(refusals=[refusal])
    assert (connector.kind, stream.root) == (Kind.REFUSED, "connector a")
    assert ", and it has not called since: why" in connector.cause
    assert problems(pb.GetStatusResponse(gateway=pb.GatewayStatus(refusals=[refusal])), 900_000, 5_000) == []


def test_whom_a_gateway_remembers_is_bounded_and_a_series_has_one_age() -> None:
    refusals, error = Refusals(), ERRORS[0]("wrong")
    for number in range(2 * MAX_PARTS):
        refusals.note(Role.SOURCE, f"connector c{number}", "ipv4:127.0.0.1:1", error)
        refusals.note_stranger("/headrace.protocol.v1.SourceService/Ingest", f"ipv4:10.0.0.{number}:1", "wrong")
        refusals.note_stranger("/headrace.protocol.v1.AdminService/GetStatus", f"ipv4:10.0.0.{number}:1", "wrong")
    assert len(list(refusals)) == MAX_PARTS + MAX_STRANGERS
    began = clock.monotonic()
    refusals.note(Role.SOURCE, "connector c", "ipv4:127.0.0.1:1", error)
    refusals.note(Role.SOURCE, "connector c", "ipv4:127.0.0.1:2", error)
    (last,) = [one for one in refusals if one.part == "connector c"]
    assert began <= last.began_at <= last.occurred_at
    refusals.admit("connector c")
    assert not [one for one in refusals if one.part == "connector c"]
