"""Replays of dead letters that are requested by the gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.captured_logs import capture_logs
from tests.gateway.http_server import post, serve_http
from tests.gateway.test_rights import bearer, token
from tests.gateway.test_supervising import RESTARTED, Rig, Supervisor, serving
from tests.gateway.wire import DEADLINE_S, Engine

from headrace.gateway.core.state import deployments
from headrace.protocol.v1 import admin_pb2 as pb

REPLAY = "/api/v1/dead-letters/replay"
REPLAYED = pb.ReplayedDeadLetters(pid=7, duration_ms=2500)
Code = grpc.StatusCode


@asynccontextmanager
async def reading(rig: Rig, streams: str = "again/*") -> AsyncIterator[None]:
    """A pipeline that reads what is replayed."""
    engine = Engine(rig.address, streams=streams)
    try:
        await engine.attach()
        yield
    finally:
        await engine.close()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as rig, reading(rig):
        yield rig


def replay(rig: Rig, sink: str = "errors", source: str = "again", *, caller: str | None = None, **fields: Any) -> Any:
    request = pb.ReplayDeadLettersRequest(sink=sink, source=source, **fields)
    return rig.stub.ReplayDeadLetters(request, timeout=DEADLINE_S, metadata=bearer(caller) if caller else None)


async def order_of(supervisor: Supervisor) -> pb.ReplayOrder:
    response = await supervisor.read()
    assert response.HasField("replay"), response
    return response.replay


async def test_a_replay_reaches_the_deployment_that_has_the_dead_letters_and_its_end_the_caller(rig: Rig) -> None:
    await rig.supervisor().register("totals", deployment="other.toml", replays="totals")
    supervisor = await rig.supervisor().register("files", replays="errors")
    with capture_logs() as logs:
        call = replay(rig, refused_by="app/parse")
        order = await order_of(supervisor)
        assert (order.connector, order.source, order.refused_by) == ("files", "again", "app/parse")
        assert order.by.startswith("anybody (ipv4:127.0.0.1:")
        (_, status) = (await rig.stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE_S)).deployments[::-1]
        assert (status.deployment, list(status.replaying), list(status.restarting)) == ("deploy.toml", ["files"], [])
        assert [one.replays for one in status.connectors] == ["errors"]
        await supervisor.answer(order.id, replayed=REPLAYED)
        answer = await call
    assert (answer.deployment, answer.connector, answer.replayed) == ("deploy.toml", "files", REPLAYED)
    (made,) = (line for line in logs if line["event"] == "change made")
    assert (made["action"], made["part"]) == ("replay", "dead letters of sink errors as source again")
    assert any(line["event"] == "replay ended" and line["pid"] == 7 for line in logs)


async def test_an_equal_request_joins_a_replay_and_another_one_is_refused(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("files", replays="errors")
    calls = [replay(rig), replay(rig)]
    order = await order_of(supervisor)
    await rig.until_waiting(2)
    code, details = await rig.refused(replay(rig, refused_by="totals"))
    assert (code, "in progress, as source again" in details) == (Code.FAILED_PRECONDITION, True)
    # A restart of the same connector is another order.
    restart = rig.restart("files")
    restarting = await supervisor.order()
    await supervisor.answer(order.id, replayed=REPLAYED)
    await supervisor.answer(restarting.id, restarted=pb.RestartedConnector(**RESTARTED))
    assert [(await call).replayed.pid for call in calls] == [7, 7]
    assert (await restart).restarted.pid == 2


async def test_a_replay_that_fails_is_late_or_lost_is_told_as_such(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("files", replays="errors")
    code, details = await rig.refused(replay(rig, timeout_ms=20))
    assert (code, details.endswith("the replay of files continues")) == (Code.DEADLINE_EXCEEDED, True)
    failed = replay(rig)
    order = await order_of(supervisor)
    await rig.until_waiting(1)
    failure = pb.OrderFailure(kind=pb.ORDER_FAILURE_KIND_FAILED, error="not a dead letter")
    await supervisor.answer(order.id, failure=failure)
    assert await rig.refused(failed) == (Code.ABORTED, "not a dead letter")
    await supervisor.answer(order.id, replayed=REPLAYED)
    lost = replay(rig)
    assert (await order_of(supervisor)).id != order.id
    await supervisor.close()
    code, details = await rig.refused(lost)
    assert (code, "not known whether files has replayed" in details) == (Code.UNAVAILABLE, True)


async def test_an_answer_to_another_kind_of_order_ends_the_registration(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("files", replays="errors")
    call = replay(rig)
    order = await order_of(supervisor)
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
    assert (await supervisor.ended())[0] is Code.INVALID_ARGUMENT
    assert (await rig.refused(call))[0] is Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("sink", "source", "fields", "code", "said"),
    [
        ("other", "again", {}, Code.NOT_FOUND, "known: errors"),
        ("errors", "again", {"deployment": "other.toml"}, Code.NOT_FOUND, "known: deploy.toml"),
        ("errors", "orders", {}, Code.FAILED_PRECONDITION, "no pipeline reads orders/*"),
        ("", "again", {}, Code.INVALID_ARGUMENT, ""),
        ("errors", "", {}, Code.INVALID_ARGUMENT, ""),
        ("x" * 256, "again", {}, Code.INVALID_ARGUMENT, ""),
        ("errors", "x" * 256, {}, Code.INVALID_ARGUMENT, ""),
        ("errors", "--gateway", {}, Code.FAILED_PRECONDITION, "no pipeline reads --gateway/*"),
        ("errors", "a b", {}, Code.INVALID_ARGUMENT, "letters, digits"),
        ("errors", "again", {"refused_by": "x" * 1_000}, Code.INVALID_ARGUMENT, "refused_by"),
        ("errors", "again", {"refused_by": "a\x1b"}, Code.INVALID_ARGUMENT, "refused_by"),
        ("errors", "again", {"timeout_ms": 300_001}, Code.INVALID_ARGUMENT, "300000"),
        ("errors", "again", {"timeout_ms": 0}, Code.INVALID_ARGUMENT, "300000"),
    ],
)
async def test_a_replay_that_cannot_be_is_refused(
    rig: Rig, sink: str, source: str, fields: dict[str, Any], code: Code, said: str
) -> None:
    await rig.supervisor().register("files", replays="errors")
    found, details = await rig.refused(replay(rig, sink, source, **fields))
    assert (found, said in details) == (code, True), details


async def test_dead_letters_in_several_places_are_replayed_only_where_the_request_says(rig: Rig) -> None:
    first = await rig.supervisor().register("files", deployment="a.toml", replays="errors")
    await rig.supervisor().register("one", "two", deployment="b.toml", replays="errors")
    code, details = await rig.refused(replay(rig))
    assert (code, "a.toml, b.toml" in details) == (Code.FAILED_PRECONDITION, True)
    code, details = await rig.refused(replay(rig, deployment="b.toml"))
    assert (code, "connectors one, two" in details) == (Code.FAILED_PRECONDITION, True)
    call = replay(rig, deployment="a.toml")
    await first.answer((await order_of(first)).id, replayed=REPLAYED)
    assert (await call).deployment == "a.toml"


async def test_replays_are_bounded_and_leave_room_for_restarts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "MAX_REPLAYS", 1)
    supervisor = rig.supervisor()
    connectors = [pb.SupervisedConnector(name=name, instance=name, replays=name) for name in ("a", "b")]
    listed = pb.SupervisedConnectors(connectors=connectors)
    await supervisor.send(hello=pb.SuperviseHello(deployment="deploy.toml", run="r1", connectors=listed))
    await supervisor.read()
    calls = [replay(rig, "a")]
    await order_of(supervisor)
    code, details = await rig.refused(replay(rig, "b"))
    assert (code, "1 replays in progress" in details) == (Code.RESOURCE_EXHAUSTED, True)
    calls.append(rig.restart("b"))
    assert (await supervisor.order()).connector == "b"
    for call in calls:
        call.cancel()


async def test_a_gateway_that_drains_replays_nothing(rig: Rig) -> None:
    await rig.supervisor().register("files", replays="errors")
    rig.gateway.draining = True
    assert (await rig.refused(replay(rig)))[0] is Code.FAILED_PRECONDITION


async def test_a_replay_needs_the_right_control() -> None:
    tokens = [token("ours", supervise=True, peek=("*",)), token("operator", control=True)]
    async with serving(*tokens) as rig:
        await rig.supervisor("ours").register("files", replays="errors")
        assert (await rig.refused(replay(rig, caller="ours")))[0] is Code.PERMISSION_DENIED
        assert (await rig.refused(replay(rig, caller="operator")))[0] is Code.FAILED_PRECONDITION


async def test_a_replay_by_http(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("files", replays="errors")
    async with serve_http(rig.gateway) as address:
        call = asyncio.create_task(post(address, REPLAY, {"sink": "errors", "source": "again"}))
        await supervisor.answer((await order_of(supervisor)).id, replayed=REPLAYED)
        document = {"sink": "errors", "source": "again", "deployment": "deploy.toml", "connector": "files"}
        assert await call == (200, {**document, "pid": 7, "duration_ms": 2500})
        assert (await post(address, REPLAY, {"sink": "other", "source": "again"}))[0] == 404
        assert (await post(address, REPLAY, {"sink": "errors"}))[0] == 400
