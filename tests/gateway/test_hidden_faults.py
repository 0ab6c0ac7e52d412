"""Faults that no single moment shows: sessions that end again and again, a frozen planner, a lost supervisor, no stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.http_server import get, serve_http
from tests.gateway.recorder import recording
from tests.gateway.test_rights import token
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Limits
from headrace.gateway.core import Gateway, Kind, problems
from headrace.gateway.core.connections import Reconnections
from headrace.gateway.core.connections.reconnections import MANY, MAX_LISTED, MAX_PARTS, STANDS_AFTER_S, WITHIN_S
from headrace.gateway.core.housekeeping import round_of
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.state.deployments import LOST_FOR_S, MAX_LOST, SILENT_AFTER_S
from headrace.gateway.core.status import snapshot
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import source_pb2


async def found(gateway: Gateway) -> dict[str, tuple[Kind, str, str]]:
    """The kind, the cause and the root of each degraded part."""
    listed = problems(await snapshot(gateway), 900_000, 5_000)
    return {one.part: (one.kind, one.cause, one.root or one.part) for one in listed}


# Sessions


def test_a_connector_reconnects_until_a_session_stands_and_a_rolling_restart_is_none() -> None:
    with clock.use(VirtualClock()) as now:
        sessions = Reconnections()
        for number in range(MANY):
            assert sessions.status() == []
            sessions.opened("connector a")
            sessions.ended("connector a", "killed")
            now.advance(0 if number == MANY - 1 else 1)
        (one,) = sessions.status()
        assert (one.part, one.sessions, one.ended, one.age_ms) == ("connector a", MANY, "killed", 1_000 * (MANY - 1))
        now.advance(STANDS_AFTER_S + 1)
        assert sessions.status() == []
        for _ in range(2 * MANY):
            sessions.opened("connector b")
            now.advance(WITHIN_S / MANY + 1)
            assert sessions.status() == []


def test_what_is_known_of_sessions_is_bounded() -> None:
    sessions = Reconnections()
    for number in range(2 * MAX_PARTS):
        for _ in range(MANY):
            sessions.opened(f"connector {number}")
        sessions.ended(f"unknown {number}", "x")
    listed = sessions.status()
    assert len(listed) == MAX_LISTED
    assert listed[0].part == f"connector {2 * MAX_PARTS - 1}"


async def test_two_connectors_of_one_name_that_take_each_others_place_are_named_and_so_is_their_stream() -> None:
    async with serve() as (gateway, address):
        query = Engine(address)
        await query.attach()
        connectors = []
        for _ in range(MANY):
            connectors.append(Connector(address))
            await connectors[-1].hello()
            await connectors[-1].open()
            await connectors[-1].expect("stream_opened")
        await query.status_once(lambda status: len(status.sessions) == 1)
        listed = await found(gateway)
        for part in ("connector test-0", "stream orders/0"):
            kind, cause, root = listed[part]
            assert (kind, root) == (Kind.CONNECTOR_RECONNECTS, "connector test-0")
            assert "a newer session of instance 'test-0'" in cause
        for one in (*connectors, query):
            await one.close()


# Planners


async def test_a_planner_that_is_frozen_while_its_driver_reports_is_named_until_it_calls() -> None:
    """The reports renew the lease, so that the query seems to be attached."""
    async with recording() as recorded:
        gateway = recorded.gateway
        lease_s = int(gateway.limits.query_lease_seconds)
        await recorded.watch(30)
        # A query whose planner has never renewed a lease is not judged.
        recorded.clock.advance(2 * lease_s)
        gateway.limits = gateway.limits.model_copy(update={"query_lease_seconds": 60})
        await recorded.query.attach({"orders/0": 3})
        await recorded.query.renew()
        await recorded.watch(45)
        assert await found(gateway) == {}
        await recorded.watch(30)
        kind, cause, _ = (await found(gateway))["pipeline p"]
        assert kind is Kind.PIPELINE_SILENT
        assert "its driver reports" in cause
        await recorded.query.plan({"orders/0": 3}, wait_ms=0)
        assert await found(gateway) == {}
        await recorded.watch(90)
        assert "pipeline p" in await found(gateway)
        await recorded.query.detach()
        assert "pipeline p" not in await found(gateway)


# Supervisors


async def supervising(gateway: Gateway, address: str, name: str = "deploy.toml", caller: str | None = None) -> Supervisor:
    supervisor = Supervisor(address, caller)
    connector = pb.SupervisedConnector(name="in", instance="test-0", source="orders")
    process = pb.ProcessState(name="app", kind=pb.PROCESS_KIND_APPLICATION, pipelines=["p"], state=pb.PROCESS_STATE_KIND_RUNS)
    hello = pb.SuperviseHello(
        deployment=name,
        run="r",
        connectors=pb.SupervisedConnectors(connectors=[connector]),
        processes=pb.SupervisedProcesses(processes=[process]),
    )
    await supervisor.send(hello=hello)
    await supervisor.read()
    assert name in gateway.deployments.by_name
    return supervisor


async def until_left(gateway: Gateway) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while gateway.deployments.by_name:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.01)


async def test_a_supervisor_that_is_lost_is_named_with_what_it_cannot_restart_until_it_is_back() -> None:
    with clock.use(VirtualClock()) as now:
        async with serve(has_rounds=False) as (gateway, address), serve_http(gateway) as http:
            source, query, supervisor = Connector(address), Engine(address), await supervising(gateway, address)
            await query.attach()
            await source.hello()
            await source.open()
            await source.expect("stream_opened")
            await source.send(frame=numbered(1, 1, 3))
            await query.plan_until("orders/0", 3)
            await supervisor.close()
            await until_left(gateway)
            assert await found(gateway) == {}, "it may come back"
            now.advance(16)
            kind, cause, _ = (await found(gateway))["deployment deploy.toml"]
            assert (kind, len(await found(gateway))) == (Kind.NOT_CONNECTED, 1)
            assert "has left without a word" in cause
            assert (await get(http, "/readyz"))[0] == 503
            await source.close()
            await query.status_once(lambda status: not status.sessions)
            for part in ("connector test-0", "stream orders/0"):
                assert (await found(gateway))[part][2] == "deployment deploy.toml"
            supervisor = await supervising(gateway, address)
            assert "deployment deploy.toml" not in await found(gateway)
            await supervisor.close()
            await query.close()


async def test_a_supervisor_that_is_frozen_is_named_while_it_is_connected_until_it_reports() -> None:
    with clock.use(VirtualClock()) as now:
        async with serve(has_rounds=False) as (gateway, address):
            supervisor = await supervising(gateway, address)
            deployment = gateway.deployments.by_name["deploy.toml"]
            steps = round_of(gateway, SILENT_AFTER_S)
            now.advance(SILENT_AFTER_S)
            steps["looking for silence and stalls"]()
            assert "deployment deploy.toml" not in await found(gateway), "it has not reported since its hello"
            for _ in range(2):
                await supervisor.send(processes=pb.SupervisedProcesses())
                async with asyncio.timeout(DEADLINE_S):
                    while deployment.silent_ms is not None or deployment.reports is None:  # noqa: ASYNC110 - no event
                        await asyncio.sleep(0.01)
                assert "deployment deploy.toml" not in await found(gateway)
                now.advance(SILENT_AFTER_S)
                steps["looking for silence and stalls"]()
                kind, cause, _ = (await found(gateway))["deployment deploy.toml"]
                assert kind is Kind.NOT_CONNECTED
                assert "is silent" in cause
            await supervisor.close()


async def test_a_supervisor_that_takes_leave_is_not_lost() -> None:
    with clock.use(VirtualClock()) as now:
        async with serve(has_rounds=False) as (gateway, address):
            supervisor = await supervising(gateway, address)
            await supervisor.send(goodbye=pb.SuperviseGoodbye())
            await until_left(gateway)
            now.advance(60)
            assert gateway.deployments.lost == {}
            await supervisor.close()


async def test_a_leave_that_was_never_introduced_takes_leave_for_nobody() -> None:
    async with serve(has_rounds=False) as (gateway, address):
        supervisor, stranger = await supervising(gateway, address), Supervisor(address)
        await stranger.send(goodbye=pb.SuperviseGoodbye())
        assert (await stranger.ended())[0] is grpc.StatusCode.FAILED_PRECONDITION
        assert not gateway.deployments.by_name["deploy.toml"].has_left
        await supervisor.close()
        await until_left(gateway)
        assert list(gateway.deployments.lost) == ["deploy.toml"]


@pytest.mark.parametrize("introduces_itself", [False, True])
async def test_a_token_without_the_right_takes_no_leave_for_another(introduces_itself: bool) -> None:
    owner, other = token("owner", supervise=True), token("other", admin=True, control=True)
    async with serve(has_rounds=False, tokens=[owner, other]) as (gateway, address):
        supervisor, stranger = await supervising(gateway, address, caller="owner"), Supervisor(address, "other")
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # The call may be refused before its messages are sent.
            if introduces_itself:
                await stranger.send(hello=pb.SuperviseHello(deployment="deploy.toml", run="r"))
            await stranger.send(goodbye=pb.SuperviseGoodbye())
        assert (await stranger.ended())[0] is grpc.StatusCode.PERMISSION_DENIED
        assert not gateway.deployments.by_name["deploy.toml"].has_left
        await supervisor.close()
        await until_left(gateway)
        assert list(gateway.deployments.lost) == ["deploy.toml"]


async def test_an_older_run_that_takes_leave_takes_none_for_the_newer_one() -> None:
    async with serve(has_rounds=False) as (gateway, address):
        older = await supervising(gateway, address)
        newer = await supervising(gateway, address)
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # Its call may have ended.
            await older.send(goodbye=pb.SuperviseGoodbye())
        await older.ended()
        deployment = gateway.deployments.by_name["deploy.toml"]
        assert not deployment.has_left
        await newer.close()
        await until_left(gateway)
        assert list(gateway.deployments.lost) == ["deploy.toml"]


async def test_which_supervisors_are_lost_is_bounded_and_forgotten_after_an_hour() -> None:
    with clock.use(VirtualClock()) as now:
        async with serve(has_rounds=False) as (gateway, address):
            supervisor = await supervising(gateway, address)
            deployment = gateway.deployments.by_name["deploy.toml"]
            for number in range(2 * MAX_LOST):
                deployment.name = f"d{number}"
                gateway.deployments.lose(deployment)
            assert list(gateway.deployments.lost) == [f"d{number}" for number in range(MAX_LOST, 2 * MAX_LOST)]
            now.advance(LOST_FOR_S + 1)
            gateway.deployments.forget_lost()
            assert not gateway.deployments.lost
            await supervisor.close()


def test_a_gateway_that_knows_only_a_lost_supervisor_names_it() -> None:
    lost = pb.LostSupervisor(deployment="d", peer="there", lost_ms=20_000, pipelines=["p"])
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(lost_supervisors=[lost]))
    status.pipelines.add(pipeline="p", state=pb.PIPELINE_STATE_AWAY, away_ms=9_000)
    listed = {one.part: one.root or one.part for one in problems(status, 900_000, 5_000)}
    assert listed == {"deployment d": "deployment d", "pipeline p": "deployment d"}
    lost.lost_ms = 1_000
    assert problems(pb.GetStatusResponse(gateway=pb.GatewayStatus(lost_supervisors=[lost])), 900_000, 5_000) == []


async def test_a_session_that_says_goodbye_again_and_again_is_named_with_what_it_says() -> None:
    async with serve() as (gateway, address):
        for _ in range(MANY):
            connector = Connector(address)
            await connector.hello()
            await connector.send(goodbye=source_pb2.Goodbye(reason="the password is wrong"))
            await connector.ended()
            await connector.close()
        kind, cause, _ = (await found(gateway))["connector test-0"]
        assert kind is Kind.CONNECTOR_RECONNECTS
        assert "the password is wrong" in cause


# Queries without a stream


@asynccontextmanager
async def waiting(streams: str = "orders/*") -> AsyncIterator[tuple[Gateway, str, str, Engine, VirtualClock]]:
    """A query that has waited for its first stream for as long as a connector may take; no round has passed meanwhile."""
    with clock.use(VirtualClock()) as now:
        async with serve(has_rounds=False) as (gateway, address), serve_http(gateway) as http:
            query = Engine(address, streams=streams)
            await query.attach()
            assert await found(gateway) == {}
            now.advance(9)
            yield gateway, address, http, query, now
            await query.close()


async def test_a_query_without_any_source_is_named_everywhere_until_a_stream_opens() -> None:
    async with waiting() as (gateway, address, http, query, now):
        listed = await found(gateway)
        assert {part: (kind, root) for part, (kind, _, root) in listed.items()} == {
            "source orders": (Kind.CONNECTOR_AWAY, "source orders"),
            "pipeline p": (Kind.CONNECTOR_AWAY, "source orders"),
        }
        assert (await get(http, "/readyz"))[0] == 503
        assert 'headrace_degraded_seconds{part="pipeline p"}' in (await get(http, "/metrics"))[1]
        with pytest.raises(grpc.aio.AioRpcError, match="A query waits for it: no connector sends 'orders/") as unknown:
            await query.admin.LocateMessage(pb.LocateMessageRequest(stream="orders/0"), timeout=DEADLINE_S)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        code, document = await get(http, "/api/v1/unacknowledged?stream=orders/0")
        assert code == 404
        assert ". A query waits for it: no connector sends 'orders/" in document["detail"], document
        source = Connector(address)
        await source.hello()
        assert await found(gateway) == {}, "it may have nothing to offer yet"
        await source.open()
        await source.expect("stream_opened")
        assert await found(gateway) == {}
        now.advance(2)
        assert (await get(http, "/readyz"))[0] == 200
        await source.close()


async def test_a_pattern_that_no_stream_of_a_connected_source_has_is_named() -> None:
    async with waiting("orders/eu*") as (gateway, address, _, _, _):
        source, reader = Connector(address), Engine(address, "q")
        await reader.attach()
        await source.hello()
        await source.open("orders/us")
        await source.expect("stream_opened")
        kind, cause, root = (await found(gateway))["pipeline p"]
        assert (kind, root, len(await found(gateway))) == (Kind.NOT_SENT, "pipeline p", 1)
        assert "it reads 'orders/eu*', and no stream" in cause
        await source.open("orders/eu-1", stream_id=2)
        await source.expect("stream_opened")
        assert await found(gateway) == {}
        for one in (source, reader):
            await one.close()


async def test_a_supervisor_knows_why_no_connector_opens_what_a_query_reads() -> None:
    async with waiting() as (gateway, address, _, _, now):
        supervisor = await supervising(gateway, address)
        now.advance(1)
        assert (await found(gateway))["pipeline p"][0] is Kind.CONNECTOR_AWAY
        now.advance(16)
        listed = await found(gateway)
        assert {part: root for part, (_, _, root) in listed.items()} == dict.fromkeys(
            ("connector test-0", "pipeline p"), "connector test-0"
        )
        await supervisor.close()


@given(
    patterns=st.lists(st.sampled_from(("a/*", "a/1", "*/1", "b/*", "*/*", "a*/2")), min_size=1, unique=True),
    streams=st.lists(st.sampled_from(("a/1", "a/2", "b/1", "ab/2", "c/3")), unique=True),
)
def test_each_pattern_without_a_stream_is_listed_and_no_other(patterns: list[str], streams: list[str]) -> None:
    gateway = Gateway(Limits())
    pipeline = gateway.pipelines["p"] = Pipeline("p", patterns=tuple(patterns), attached=True)
    for name in streams:
        gateway.stream(name)
    listed = [one.pattern for one in asyncio.run(snapshot(gateway)).pipelines[0].unmatched]
    assert listed == [one for one in patterns if not any(fnmatchcase(name, one) for name in streams)]
    for leave in (pipeline.leave_out, pipeline.note_ended_unread):
        leave("c/3")
        assert [one.pattern for one in asyncio.run(snapshot(gateway)).pipelines[0].unmatched] == [
            one for one in listed if not fnmatchcase("c/3", one)
        ]
    for ended in ("a/1", "b/1", "ab/2"):
        pipeline.leave_out(ended)
    pipeline.take_checkpoint({}, {})
    assert not asyncio.run(snapshot(gateway)).pipelines[0].unmatched, "what has ended and was forgotten did match"
