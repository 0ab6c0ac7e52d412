"""Deployments that register, and restarts that are requested by the gateway."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.captured_logs import capture_logs
from tests.gateway.http_server import post, serve_http
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import DEADLINE_S, serve

from headrace.gateway import Limits
from headrace.gateway.config import Token
from headrace.gateway.core import Gateway
from headrace.gateway.core.control import orders, supervising
from headrace.gateway.core.state import deployments
from headrace.gateway.http import server
from headrace.gateway.identity import TokenRegistry
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

RESTART = "/api/v1/connectors/restart"
RESTARTED = {"pid": 2, "stopped_pid": 1, "stopped_exit_code": 0, "duration_ms": 1500}
Code = grpc.StatusCode


def listed(*names: str, **fields: str) -> pb.SupervisedConnectors:
    return pb.SupervisedConnectors(
        connectors=[pb.SupervisedConnector(name=name, instance=f"{name}-0", **fields) for name in names]
    )


class Supervisor:
    """A supervisor's call, message by message."""

    def __init__(self, address: str, caller: str | None = None) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self.stub = AdminServiceStub(self._channel)
        self.call = self.stub.Supervise(metadata=bearer(caller) if caller else None)

    async def send(self, **message: Any) -> None:
        await self.call.write(pb.SuperviseRequest(**message))

    async def register(
        self, *connectors: str, deployment: str = "deploy.toml", run: str = "r1", replays: str = ""
    ) -> "Supervisor":
        hello = pb.SuperviseHello(deployment=deployment, run=run, connectors=listed(*connectors, replays=replays))
        await self.send(hello=hello)
        assert (await self.read()).HasField("welcome")
        return self

    async def read(self) -> pb.SuperviseResponse:
        async with asyncio.timeout(DEADLINE_S):
            response = await self.call.read()
        assert isinstance(response, pb.SuperviseResponse), await self.ended()
        return response

    async def order(self) -> pb.RestartOrder:
        return (await self.read()).restart

    async def answer(self, number: int, **outcome: Any) -> None:
        await self.send(outcome=pb.OrderOutcome(id=number, **outcome))

    async def ended(self) -> tuple[Code, str]:
        """How the call ends."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.call.code(), await self.call.details()

    async def close(self) -> None:
        self.call.cancel()
        await self._channel.close()


class Rig:
    """A gateway, and who calls it."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self.gateway, self.address = gateway, address
        self._channel = grpc.aio.insecure_channel(address)
        self.stub = AdminServiceStub(self._channel)
        self._supervisors: list[Supervisor] = []

    def supervisor(self, caller: str | None = None) -> Supervisor:
        made = Supervisor(self.address, caller)
        self._supervisors.append(made)
        return made

    def restart(self, connector: str, deployment: str = "", *, caller: str | None = None, timeout_ms: int | None = None) -> Any:
        request = pb.RestartConnectorRequest(connector=connector, deployment=deployment, timeout_ms=timeout_ms)
        return self.stub.RestartConnector(request, timeout=DEADLINE_S, metadata=bearer(caller) if caller else None)

    async def refused(self, call: Any) -> tuple[Code, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        return caught.value.code(), caught.value.details() or ""

    async def until(self, condition: Callable[[Gateway], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            for _ in itertools.count():
                if condition(self.gateway):
                    return
                await asyncio.sleep(0.01)

    async def until_registered(self, number: int) -> None:
        await self.until(lambda gateway: len(gateway.deployments.by_name) == number)

    async def until_waiting(self, number: int) -> None:
        await self.until(lambda gateway: gateway.deployments.waiting == number)

    async def close(self) -> None:
        for each in self._supervisors:
            await each.close()
        await self._channel.close()


@asynccontextmanager
async def serving(*tokens: Token, limits: Limits | None = None) -> AsyncIterator[Rig]:
    async with serve(limits, tokens=tokens) as (gateway, address):
        rig = Rig(gateway, address)
        try:
            yield rig
        finally:
            await rig.close()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as rig:
        yield rig


async def test_a_restart_reaches_the_deployment_that_runs_the_connector_and_its_answer_the_caller(rig: Rig) -> None:
    await rig.supervisor().register("returns", deployment="returns.toml")
    supervisor = await rig.supervisor().register("orders")
    with capture_logs() as logs:
        call = rig.restart("orders")
        order = await supervisor.order()
        assert (order.connector, order.by.startswith("anybody (ipv4:127.0.0.1:")) == ("orders", True)
        await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
        answer = await call
    assert (answer.deployment, answer.restarted) == ("deploy.toml", pb.RestartedConnector(**RESTARTED))
    (made,) = (line for line in logs if line["event"] == "change made")
    assert (made["action"], made["part"], made["by"]) == ("restart", "connector orders", "anybody")
    assert any(line["event"] == "restart ended" and line["pid"] == 2 for line in logs)


async def test_the_status_says_which_deployment_runs_what_for_as_long_as_it_is_registered(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders")
    call = rig.restart("orders")
    order = await supervisor.order()
    (status,) = (await rig.stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE_S)).deployments
    assert (status.deployment, status.run, list(status.restarting)) == ("deploy.toml", "r1", ["orders"])
    assert [(one.name, one.instance) for one in status.connectors] == [("orders", "orders-0")]
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(pid=2))
    assert not (await call).restarted.HasField("stopped_pid")
    await supervisor.send(connectors=listed("returns"))
    async with asyncio.timeout(DEADLINE_S):
        # Until the new list has arrived, there is no such connector.
        while (await rig.refused(rig.restart("returns", timeout_ms=1)))[0] is Code.NOT_FOUND:
            pass
    assert (await rig.refused(rig.restart("orders")))[0] is Code.NOT_FOUND
    await supervisor.close()
    await rig.until_registered(0)


async def test_requests_for_the_same_connector_share_one_restart_and_both_are_in_the_log(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders", "returns")
    with capture_logs() as logs:
        calls = [rig.restart("orders"), rig.restart("orders")]
        order = await supervisor.order()
        await rig.until_waiting(2)
        await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
        assert [(await call).restarted.pid for call in calls] == [2, 2]
    assert [line["event"] for line in logs].count("change made") == 2
    # The next message is the order of the next restart, not a second one of the first.
    other = rig.restart("returns")
    assert (await supervisor.order()).connector == "returns"
    other.cancel()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (pb.ORDER_FAILURE_KIND_UNKNOWN_CONNECTOR, Code.NOT_FOUND),
        (pb.ORDER_FAILURE_KIND_REFUSED, Code.FAILED_PRECONDITION),
        (pb.ORDER_FAILURE_KIND_FAILED, Code.ABORTED),
        (pb.ORDER_FAILURE_KIND_UNSPECIFIED, Code.ABORTED),
    ],
)
async def test_a_restart_that_fails_is_answered_with_its_error(rig: Rig, kind: pb.OrderFailureKind.ValueType, code: Code) -> None:
    supervisor = await rig.supervisor().register("orders")
    calls = [rig.restart("orders"), rig.restart("orders")]
    order = await supervisor.order()
    # One that comes after the answer would be another order.
    await rig.until_waiting(2)
    await supervisor.answer(order.id, failure=pb.OrderFailure(kind=kind, error="the disk\x1b is full" + "é" * 100_000))
    for call in calls:
        found, details = await rig.refused(call)
        assert found is code
        assert details.startswith("the disk  is full")
        assert len(details) == 500


async def test_answers_that_nobody_waits_for_change_nothing(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders")
    call = rig.restart("orders")
    order = await supervisor.order()
    await supervisor.answer(order.id + 1, failure=pb.OrderFailure(error="of another run"))
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
    await supervisor.answer(order.id, failure=pb.OrderFailure(error="doubled"))
    assert (await call).restarted.pid == 2
    again = rig.restart("orders")
    assert (await supervisor.order()).id != order.id
    again.cancel()


async def test_a_caller_is_told_when_the_deployment_leaves_before_it_answers(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders")
    call = rig.restart("orders")
    await supervisor.order()
    await supervisor.close()
    code, details = await rig.refused(call)
    assert (code, details.startswith("deployment deploy.toml has left before it answered")) == (Code.UNAVAILABLE, True)
    assert (await rig.refused(rig.restart("orders")))[0] is Code.NOT_FOUND


async def test_a_caller_that_waits_too_long_is_told_and_the_restart_goes_on(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders")
    code, details = await rig.refused(rig.restart("orders", timeout_ms=20))
    assert code is Code.DEADLINE_EXCEEDED
    assert details == "no answer of deployment deploy.toml within 20 ms; the restart of orders continues"
    order = await supervisor.order()
    # Whoever asks again joins it.
    call = rig.restart("orders")
    await rig.until_waiting(1)
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
    assert (await call).restarted.pid == 2
    for timeout_ms in (0, 300_001, 2**60):
        assert (await rig.refused(rig.restart("orders", timeout_ms=timeout_ms)))[0] is Code.INVALID_ARGUMENT


async def test_a_newer_run_takes_over_and_what_the_older_one_had_to_answer_is_not_known(rig: Rig) -> None:
    older = await rig.supervisor().register("orders")
    call = rig.restart("orders")
    order = await older.order()
    newer = await rig.supervisor().register("orders", run="r2")
    code, details = await older.ended()
    assert (code, details) == (Code.ABORTED, "deployment deploy.toml: run r2 has registered in place of run r1")
    assert (await rig.refused(call))[0] is Code.UNAVAILABLE
    again = rig.restart("orders")
    ordered = await newer.order()
    assert ordered.id != order.id
    # The late answer of the older run.
    await newer.answer(order.id, failure=pb.OrderFailure(error="late"))
    await newer.answer(ordered.id, restarted=pb.RestartedConnector(**RESTARTED))
    assert (await again).restarted.pid == 2
    assert [one.run for one in rig.gateway.deployments.by_name.values()] == ["r2"]


async def test_another_token_does_not_take_over_a_deployment() -> None:
    tokens = [token("ours", supervise=True), token("theirs", supervise=True)]
    async with serving(*tokens) as rig:
        await rig.supervisor("ours").register("orders")
        stranger = rig.supervisor("theirs")
        await stranger.send(hello=pb.SuperviseHello(deployment="deploy.toml", run="r2"))
        code, details = await stranger.ended()
        assert (code, "'ours'" in details) == (Code.PERMISSION_DENIED, True)
        assert [one.run for one in rig.gateway.deployments.by_name.values()] == ["r1"]


async def test_a_revoked_token_ends_the_registration() -> None:
    tokens = [token("ours", supervise=True), token("operator", control=True)]
    async with serving(*tokens) as rig:
        supervisor = await rig.supervisor("ours").register("orders")
        call = rig.restart("orders", caller="operator")
        await supervisor.order()
        assert rig.gateway.end_revoked(TokenRegistry(tokens[1:])) == 1
        assert (await supervisor.ended())[0] is Code.UNAUTHENTICATED
        assert (await rig.refused(call))[0] is Code.UNAVAILABLE
        assert (await rig.refused(rig.restart("orders", caller="ours")))[0] is Code.PERMISSION_DENIED


def hello(**fields: Any) -> dict[str, Any]:
    return {"hello": pb.SuperviseHello(**{"deployment": "deploy.toml", "run": "r1", **fields})}


TWICE = pb.SupervisedConnectors(connectors=[pb.SupervisedConnector(name="a"), pb.SupervisedConnector(name="a")])


async def test_why_a_process_fails_is_one_bounded_line_until_it_runs_or_its_supervisor_leaves(
    rig: Rig,
) -> None:
    supervisor = await rig.supervisor().register("orders")
    await supervisor.send(connectors=listed("orders", source="a", failure="no\x1b[2J\n" + 1_000 * "x"))
    await rig.until(lambda gateway: bool(failures(gateway)))
    (status,) = (await rig.stub.GetStatus(pb.GetStatusRequest())).deployments
    (connector,) = status.connectors
    assert connector.failure == "no [2J " + 293 * "x"
    since = rig.gateway.deployments.by_name["deploy.toml"].connectors["orders"].failing_since
    # Another reason is no other beginning.
    await supervisor.send(connectors=listed("orders", source="a", failure="another one"))
    await rig.until(lambda gateway: failures(gateway) == ["another one"])
    assert rig.gateway.deployments.by_name["deploy.toml"].connectors["orders"].failing_since == since
    assert [problem.kind for problem in (await rig.stub.GetStatus(pb.GetStatusRequest())).problems] == ["connector-fails"]
    await supervisor.send(connectors=listed("orders", source="a"))
    await rig.until(lambda gateway: not failures(gateway))
    await supervisor.send(connectors=listed("orders", source="a", failure="again"))
    await rig.until(lambda gateway: bool(failures(gateway)))
    await supervisor.close()
    await rig.until_registered(0)
    assert not (await rig.stub.GetStatus(pb.GetStatusRequest())).problems


async def test_why_a_process_fails_is_what_the_newer_run_of_its_supervisor_says(rig: Rig) -> None:
    older = await rig.supervisor().register("orders")
    await older.send(connectors=listed("orders", failure="of the older run"))
    await rig.until(lambda gateway: bool(failures(gateway)))
    await rig.supervisor().register("orders", run="r2")
    assert failures(rig.gateway) == []
    assert (await older.ended())[0] is Code.ABORTED
    assert failures(rig.gateway) == []


def failures(gateway: Gateway) -> list[str]:
    deployments = gateway.deployments.by_name.values()
    return [one.failure for deployment in deployments for one in deployment.connectors.values() if one.failure]


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ({}, Code.FAILED_PRECONDITION, "must be SuperviseHello"),
        ({"connectors": listed("orders")}, Code.FAILED_PRECONDITION, "must be SuperviseHello"),
        (hello(deployment=""), Code.INVALID_ARGUMENT, "a name has 1 to 255 bytes"),
        (hello(deployment="x" * 256), Code.INVALID_ARGUMENT, "at most 255 bytes"),
        (hello(deployment="a\x1b[2J"), Code.INVALID_ARGUMENT, "printable"),
        (hello(run=""), Code.INVALID_ARGUMENT, "without a run"),
        (hello(run="x" * 256), Code.INVALID_ARGUMENT, "at most 255 bytes"),
        (hello(connectors=listed("a b")), Code.INVALID_ARGUMENT, "letters, digits"),
        (hello(connectors=listed("")), Code.INVALID_ARGUMENT, "letters, digits"),
        (hello(connectors=listed("x" * 256)), Code.INVALID_ARGUMENT, "at most 255 bytes"),
        (hello(connectors=TWICE), Code.INVALID_ARGUMENT, "listed twice"),
        (hello(connectors=listed("a", replays="b c")), Code.INVALID_ARGUMENT, "replays 'b c': such a name has letters"),
        (hello(connectors=listed("a", source="b c")), Code.INVALID_ARGUMENT, "serves source 'b c': such a name has letters"),
        (hello(connectors=listed("a", sink="b/c")), Code.INVALID_ARGUMENT, "serves sink 'b/c': such a name has letters"),
        (hello(connectors=listed("a", source="x" * 256)), Code.INVALID_ARGUMENT, "at most 255 bytes"),
        (hello(connectors=listed("a", replays="x" * 256)), Code.INVALID_ARGUMENT, "at most 255 bytes"),
        (hello(connectors=listed(*map(str, range(1_001)))), Code.RESOURCE_EXHAUSTED, "at most 1000"),
    ],
)
async def test_a_hello_that_is_not_valid_registers_nothing(rig: Rig, message: dict[str, Any], code: Code, said: str) -> None:
    supervisor = rig.supervisor()
    await supervisor.send(**message)
    found, details = await supervisor.ended()
    assert (found, said in details) == (code, True), details
    assert not rig.gateway.deployments.by_name


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (hello(), Code.FAILED_PRECONDITION),
        ({}, Code.FAILED_PRECONDITION),
        ({"connectors": listed(*map(str, range(1_001)))}, Code.RESOURCE_EXHAUSTED),
        ({"connectors": TWICE}, Code.INVALID_ARGUMENT),
        ({"outcome": pb.OrderOutcome(id=1)}, Code.INVALID_ARGUMENT),
    ],
)
async def test_a_message_that_is_not_valid_ends_the_registration(rig: Rig, message: dict[str, Any], code: Code) -> None:
    supervisor = await rig.supervisor().register("orders")
    await supervisor.send(**message)
    assert (await supervisor.ended())[0] is code
    await rig.until_registered(0)


async def test_a_supervisor_that_says_nothing_is_sent_away() -> None:
    async with serving(limits=Limits(hello_timeout_seconds=0.1)) as rig:
        assert (await rig.supervisor().ended())[0] is Code.DEADLINE_EXCEEDED


async def test_deployments_orders_and_callers_are_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "MAX_DEPLOYMENTS", 2)
    monkeypatch.setattr(deployments, "MAX_RESTARTS", 2)
    monkeypatch.setattr(orders, "MAX_WAITING", 3)
    supervisor = await rig.supervisor().register("a", "b", "c")
    await rig.supervisor().register(deployment="other.toml")
    third = rig.supervisor()
    await third.send(**hello(deployment="third.toml"))
    assert (await third.ended())[0] is Code.RESOURCE_EXHAUSTED
    calls = [rig.restart("a"), rig.restart("b")]
    for _ in calls:
        await supervisor.order()
    code, details = await rig.refused(rig.restart("c"))
    assert (code, "2 restarts in progress" in details) == (Code.RESOURCE_EXHAUSTED, True)
    calls.append(rig.restart("b"))
    await rig.until_waiting(3)
    assert (await rig.refused(rig.restart("a")))[0] is Code.RESOURCE_EXHAUSTED
    for call in calls:
        call.cancel()


async def test_connectors_of_all_deployments_together_are_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "MAX_CONNECTORS_IN_ALL", 3)
    await rig.supervisor().register("a", "b", deployment="first.toml")
    second = await rig.supervisor().register("c", deployment="second.toml")
    await rig.supervisor().register("a", "b", deployment="first.toml")
    await second.send(connectors=listed("c", "d"))
    code, details = await second.ended()
    assert (code, "the other deployments have 2, and all together at most 3" in details) == (Code.RESOURCE_EXHAUSTED, True)
    third = rig.supervisor()
    await third.send(**hello(deployment="third.toml", connectors=listed("e", "f")))
    assert (await third.ended())[0] is Code.RESOURCE_EXHAUSTED


async def test_a_connector_of_several_deployments_is_restarted_only_where_the_request_says(rig: Rig) -> None:
    first = await rig.supervisor().register("orders", deployment="a.toml")
    await rig.supervisor().register("orders", deployment="b.toml")
    code, details = await rig.refused(rig.restart("orders"))
    assert (code, "a.toml, b.toml" in details) == (Code.FAILED_PRECONDITION, True)
    code, details = await rig.refused(rig.restart("orders", "c.toml"))
    assert (code, details) == (Code.NOT_FOUND, "no registered deployment 'c.toml'; known: a.toml, b.toml; did you mean b.toml?")
    code, details = await rig.refused(rig.restart("other", "a.toml"))
    assert (code, details) == (Code.NOT_FOUND, "no process 'other' of deployment a.toml; known: orders")
    assert (await rig.refused(rig.restart("")))[0] is Code.INVALID_ARGUMENT
    assert (await rig.refused(rig.restart("x" * 256)))[0] is Code.INVALID_ARGUMENT
    call = rig.restart("orders", "a.toml")
    await first.answer((await first.order()).id, restarted=pb.RestartedConnector(**RESTARTED))
    assert (await call).deployment == "a.toml"


@pytest.mark.parametrize("kind", [pb.PROCESS_KIND_APPLICATION, pb.PROCESS_KIND_QUERY])
async def test_an_application_or_a_program_is_restarted_whose_supervisor_tells_that_it_is_connected(
    rig: Rig, kind: pb.ProcessKind.ValueType
) -> None:
    processes = [pb.ProcessState(name="gateway", kind=pb.PROCESS_KIND_GATEWAY), pb.ProcessState(name="totals", kind=kind)]
    for process in processes:
        process.state = pb.PROCESS_STATE_KIND_RUNS
    supervisor = rig.supervisor()
    await supervisor.send(**hello(connectors=listed("orders"), processes=pb.SupervisedProcesses(processes=processes)))
    assert (await supervisor.read()).HasField("welcome")
    call = rig.restart("totals")
    order = await supervisor.order()
    assert order.connector == "totals"
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
    assert (await call).restarted.pid == RESTARTED["pid"]
    code, details = await rig.refused(rig.restart("gateway"))
    assert (code, details) == (Code.NOT_FOUND, "no process 'gateway' of a registered deployment; known: orders, totals")


async def test_a_gateway_that_drains_restarts_nothing_and_one_that_stops_leaves_nobody_waiting(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders")
    call = rig.restart("orders")
    await supervisor.order()
    rig.gateway.draining = True
    assert (await rig.refused(rig.restart("orders")))[0] is Code.FAILED_PRECONDITION
    rig.gateway.close()
    assert (await supervisor.ended())[0] is Code.UNAVAILABLE
    assert (await rig.refused(call))[0] is Code.UNAVAILABLE


async def test_a_restart_by_http(rig: Rig) -> None:
    supervisor = await rig.supervisor().register("orders")
    async with serve_http(rig.gateway) as address:
        call = asyncio.create_task(post(address, RESTART, {"name": "orders"}))
        await supervisor.answer((await supervisor.order()).id, restarted=pb.RestartedConnector(**RESTARTED))
        assert await call == (
            200,
            {
                "name": "orders",
                "deployment": "deploy.toml",
                "state": "runs",
                "pid": 2,
                "stopped_pid": 1,
                "stopped_exit_code": 0,
                "duration_ms": 1500,
            },
        )
        late, _ = await post(address, RESTART, {"name": "orders", "timeout_ms": 1})
        gone = asyncio.create_task(post(address, RESTART, {"name": "orders", "deployment": "deploy.toml"}))
        await supervisor.order()
        await rig.until_waiting(1)
        await supervisor.close()
        assert (late, (await gone)[0]) == (504, 503)
        assert (await post(address, RESTART, {"name": "orders"}))[0] == 404


async def test_a_restart_by_http_may_take_longer_than_a_request(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.05)
    due = asyncio.Event()
    drop = server._Connection._drop

    def noted(self: server._Connection, transport: asyncio.Transport) -> None:
        drop(self, transport)
        due.set()

    monkeypatch.setattr(server._Connection, "_drop", noted)
    supervisor = await rig.supervisor().register("orders")
    async with serve_http(rig.gateway) as address:
        call = asyncio.create_task(post(address, RESTART, {"name": "orders"}))
        order = await supervisor.order()
        due.clear()
        async with asyncio.timeout(DEADLINE_S):
            await due.wait()
        await supervisor.answer(order.id, restarted=pb.RestartedConnector(**RESTARTED))
        assert (await call)[0] == 200
