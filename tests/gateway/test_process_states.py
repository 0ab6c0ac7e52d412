"""What supervisors report of their processes, and the last lines of their logs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.http_server import post, serve_http
from tests.gateway.test_rights import bearer, token
from tests.gateway.test_supervising import Rig, serving
from tests.gateway.wire import DEADLINE_S, Connector, Engine

from headrace.contract import clock
from headrace.gateway.core.base.errors import ProtocolError
from headrace.gateway.core.control.supervising import replace_processes, take_outcome
from headrace.gateway.core.state import deployments, process_states
from headrace.gateway.core.state.process_states import MAX_LOG_LINES, checked_processes, kept_log
from headrace.gateway.core.status.health import problems
from headrace.gateway.core.status.health.of_pipelines import ENDS_WITHIN_MS
from headrace.gateway.core.status.problem import Kind
from headrace.gateway_status import status_document
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.engine_pb2 import AttachRequest, DetachRequest, RenewRequest
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_BATCH_FAILED, RunFault

Code = grpc.StatusCode
APPLICATION, RUNS = pb.PROCESS_KIND_APPLICATION, pb.PROCESS_STATE_KIND_RUNS


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as made:
        yield made


def processes(*names: str, **fields: Any) -> pb.SupervisedProcesses:
    given = {"kind": APPLICATION, "state": RUNS, **fields}
    return pb.SupervisedProcesses(processes=[pb.ProcessState(name=name, **given) for name in names])


def hello(run: str = "r1", **fields: Any) -> pb.SuperviseHello:
    return pb.SuperviseHello(deployment="deploy.toml", run=run, **fields)


async def registered(rig: Rig, run: str = "r1", **fields: Any) -> Any:
    supervisor = rig.supervisor()
    await supervisor.send(hello=hello(run, processes=processes("app", **fields)))
    assert (await supervisor.read()).HasField("welcome")
    return supervisor


async def reported(rig: Rig) -> list[Any]:
    status = await rig.stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE_S)
    return [process for one in status_document("", status)["deployments"] for process in one["processes"]]


def reasons(rig: Rig) -> list[str]:
    known = rig.gateway.deployments.by_name.values()
    return [process.state.reason for one in known for process in (one.processes or {}).values()]


async def test_the_status_lists_each_process_as_its_supervisor_reports_it(rig: Rig) -> None:
    supervisor = await registered(rig, state=pb.PROCESS_STATE_KIND_WAITS, next_start_ms=500_000, state_age_ms=7_000)
    (process,) = await reported(rig)
    assert (process["kind"], process["state"], process["pid"]) == ("application", "waits", None)
    assert process["state_age_ms"] >= 7_000
    assert 0 < process["next_start_ms"] <= 500_000
    facts = {"pipelines": ["orders"], "restarts": 3, "reason": "x\n" + "y" * 999, "version": "1.2.3", "memory_bytes": 5, "pid": 6}
    await supervisor.send(processes=processes("app", **facts))
    await rig.until(lambda _: reasons(rig) == ["x " + "y" * 298])
    (process,) = await reported(rig)
    assert process["pipelines"] == ["orders"]
    assert [process[name] for name in ("restarts", "version", "memory_bytes", "pid")] == [3, "1.2.3", 5, 6]
    await supervisor.close()
    await rig.until_registered(0)
    assert await reported(rig) == []


async def test_a_supervisor_is_told_which_of_its_processes_are_connected() -> None:
    """It needs no other right for that. A pipeline that the process before has left attached does not count."""
    rights = token("query", pipelines=("*",), reads=("orders/*",)), token("ours", supervise=True)
    async with serving(*rights) as rig:
        engine = Engine(rig.address, "totals")
        supervisor = rig.supervisor("ours")
        starts = processes("app", state=pb.PROCESS_STATE_KIND_STARTS, pipelines=["totals"], pid=7)
        await supervisor.send(hello=hello(processes=starts))
        assert (await supervisor.read()).welcome.connected == pb.ConnectedProcesses()
        await engine.stub.Attach(AttachRequest(pipeline=engine.who), metadata=bearer("query"), timeout=DEADLINE_S)
        assert _pids(await supervisor.read()) == {"app": 7}
        # It stays attached until its lease ends, whatever its process does.
        await supervisor.send(processes=processes("app", state=pb.PROCESS_STATE_KIND_STARTS, pipelines=["totals"], pid=8))
        assert _pids(await supervisor.read()) == {}
        await engine.stub.Renew(RenewRequest(pipeline=engine.who), metadata=bearer("query"), timeout=DEADLINE_S)
        assert _pids(await supervisor.read()) == {"app": 8}
        await engine.stub.Detach(DetachRequest(pipeline=engine.who), metadata=bearer("query"), timeout=DEADLINE_S)
        assert _pids(await supervisor.read()) == {}
        await engine.close()


def _pids(response: pb.SuperviseResponse) -> dict[str, int]:
    assert response.HasField("connected"), response
    return {one.name: one.pid for one in response.connected.processes}


async def test_a_supervisor_is_told_which_of_its_connectors_are_connected(rig: Rig) -> None:
    ours, other = pb.SupervisedConnector(name="lines", instance="lines-0", source="lines"), pb.SupervisedConnector(name="other")
    connectors = pb.SupervisedConnectors(connectors=[ours, other])
    supervisor, connector = rig.supervisor(), Connector(rig.address)
    reported = processes("lines", "other", kind=pb.PROCESS_KIND_CONNECTOR, pid=7)
    await supervisor.send(hello=hello(connectors=connectors, processes=reported))
    assert (await supervisor.read()).welcome.connected == pb.ConnectedProcesses()
    await connector.hello("lines-0")
    assert _pids(await supervisor.read()) == {"lines": 7}
    await connector.close()
    assert _pids(await supervisor.read()) == {}


async def test_a_late_report_of_an_older_run_changes_nothing(rig: Rig) -> None:
    older = await registered(rig)
    known = rig.gateway.deployments.by_name["deploy.toml"]
    newer = await registered(rig, "r2", reason="of the newer run")
    assert (await older.ended())[0] is Code.ABORTED
    # A message that was on its way then.
    replace_processes(rig.gateway, known, processes("app", reason="of the older run"))
    assert reasons(rig) == ["of the newer run"]
    await newer.send(processes=processes("app", reason="again"))
    await rig.until(lambda _: reasons(rig) == ["again"])


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (processes("app", "app"), Code.INVALID_ARGUMENT),
        (processes("../app"), Code.INVALID_ARGUMENT),
        (processes(""), Code.INVALID_ARGUMENT),
        (processes("app", kind=0), Code.INVALID_ARGUMENT),
        (processes("app", kind=99), Code.INVALID_ARGUMENT),
        (processes("app", state=0), Code.INVALID_ARGUMENT),
        (processes("app", pipelines=["a/b"]), Code.INVALID_ARGUMENT),
        (processes("app", reads=["orders"]), Code.INVALID_ARGUMENT),
        (processes("app", reads=["a/*"] * 101), Code.RESOURCE_EXHAUSTED),
        (processes(*(f"p{number}" for number in range(60)), pipelines=["a"] * 90), Code.RESOURCE_EXHAUSTED),
        (processes(*(f"p{number}" for number in range(1_201))), Code.RESOURCE_EXHAUSTED),
    ],
)
async def test_a_report_that_is_not_valid_ends_its_own_call(rig: Rig, wrong: pb.SupervisedProcesses, code: Code) -> None:
    at_first, later = rig.supervisor(), await registered(rig)
    await at_first.send(hello=hello(processes=wrong))
    assert (await at_first.ended())[0] is code
    await later.send(processes=wrong)
    assert (await later.ended())[0] is code
    await registered(rig)


async def test_the_processes_of_all_deployments_are_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.gateway.core.control.supervising.MAX_PROCESSES_IN_ALL", 3)
    await registered(rig)
    other = rig.supervisor()
    await other.send(hello=pb.SuperviseHello(deployment="other.toml", run="r1", processes=processes("a", "b", "c")))
    assert (await other.ended())[0] is Code.RESOURCE_EXHAUSTED
    # Its own of before do not count.
    again = rig.supervisor()
    await again.send(hello=hello("r2", processes=processes("a", "b", "c")))
    assert (await again.read()).HasField("welcome")


TEXTS = st.text(max_size=20) | st.just("orders") | st.just("a/*")


@given(
    st.lists(
        st.builds(
            pb.ProcessState,
            name=TEXTS,
            kind=st.integers(0, 5),
            state=st.integers(0, 6),
            pipelines=st.lists(TEXTS, max_size=3),
            reads=st.lists(TEXTS, max_size=3),
            reason=st.text(max_size=400),
            version=st.text(max_size=150),
            state_age_ms=st.integers(0, 2**64 - 1),
            next_start_ms=st.none() | st.integers(0, 2**64 - 1),
            pid=st.none() | st.integers(0, 2**64 - 1),
        ),
        max_size=3,
    )
)
def test_whatever_a_supervisor_reports_is_refused_or_shown_in_bounds(drawn: list[pb.ProcessState]) -> None:
    try:
        kept = checked_processes(pb.SupervisedProcesses(processes=drawn))
    except ProtocolError:
        return
    assert set(kept) == {one.name for one in drawn}
    deployment = pb.DeploymentStatus(processes=[one.now() for one in kept.values()])
    document = status_document("", pb.GetStatusResponse(deployments=[deployment]))["deployments"][0]["processes"]
    for process in document:
        assert len(process["reason"] or "") <= 300
        assert (process["reason"] or "").isprintable()
        assert len(process["version"] or "") <= 100


@given(st.lists(st.text(max_size=3_000), max_size=300), st.integers(1, 50))
def test_the_newest_lines_of_a_log_are_kept_that_there_is_room_for(lines: list[str], times: int) -> None:
    log = pb.ProcessLog(lines=(lines * times)[:MAX_LOG_LINES], path="/logs/app.log")
    kept = kept_log(log)
    assert sum(len(line.encode()) for line in kept.lines) <= 256 << 10
    assert all(line.isprintable() and len(line) <= 2_000 for line in kept.lines)
    assert list(kept.lines) == list(kept_log(pb.ProcessLog(lines=log.lines[len(log.lines) - len(kept.lines) :])).lines)


# Logs


def read(rig: Rig, process: str, deployment: str = "", *, caller: str | None = None, **fields: Any) -> Any:
    request = pb.ReadLogRequest(process=process, deployment=deployment, **fields)
    return rig.stub.ReadLog(request, timeout=DEADLINE_S, metadata=bearer(caller) if caller else None)


async def test_a_log_is_read_by_its_supervisor(rig: Rig) -> None:
    supervisor = await registered(rig)
    call = read(rig, "app", lines=3)
    order = (await supervisor.read()).log
    assert (order.process, order.lines) == ("app", 3)
    await supervisor.answer(order.id, log=pb.ProcessLog(lines=["one", "two\x1b"], path="/logs/app.log"))
    answer = await call
    assert (answer.deployment, list(answer.log.lines), answer.log.path) == ("deploy.toml", ["one", "two "], "/logs/app.log")
    # The answer comes again, and answers nothing.
    await supervisor.answer(order.id, log=pb.ProcessLog(lines=["late"]))
    call = read(rig, "app")
    again = (await supervisor.read()).log
    assert again.lines == 100
    failure = pb.OrderFailure(kind=pb.ORDER_FAILURE_KIND_FAILED, error="no such file")
    await supervisor.answer(again.id, failure=failure)
    code, text = await rig.refused(call)
    assert (code, "no such file" in text) == (Code.ABORTED, True)


async def test_an_answer_of_an_older_run_is_no_answer(rig: Rig) -> None:
    older = await registered(rig)
    first = read(rig, "app")
    order = (await older.read()).log
    known = rig.gateway.deployments.by_name["deploy.toml"]
    newer = await registered(rig, "r2")
    assert (await rig.refused(first))[0] is Code.UNAVAILABLE
    second = read(rig, "app")
    of_newer = (await newer.read()).log
    # A message that was on its way then.
    for number in (order.id, of_newer.id):
        take_outcome(rig.gateway, known, pb.OrderOutcome(id=number, log=pb.ProcessLog(lines=["of the older run"])))
    await newer.answer(of_newer.id, log=pb.ProcessLog(lines=["of the newer run"]))
    assert list((await second).log.lines) == ["of the newer run"]


async def test_what_cannot_be_read_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await rig.refused(read(rig, "app")))[0] is Code.NOT_FOUND
    supervisor = await registered(rig)
    code, text = await rig.refused(read(rig, "another"))
    assert (code, "app" in text) == (Code.NOT_FOUND, True)
    assert (await rig.refused(read(rig, "app", lines=1_001)))[0] is Code.INVALID_ARGUMENT
    assert (await rig.refused(read(rig, "app", timeout_ms=300_001)))[0] is Code.INVALID_ARGUMENT
    monkeypatch.setattr(deployments, "MAX_LOGS", 1)
    call = read(rig, "app")
    order = (await supervisor.read()).log
    assert (await rig.refused(read(rig, "app", lines=7)))[0] is Code.RESOURCE_EXHAUSTED
    # The same request joins the one in progress.
    joined = read(rig, "app")
    await rig.until_waiting(2)
    await supervisor.answer(order.id, log=pb.ProcessLog(lines=["one"]))
    assert [list(answer.log.lines) for answer in await asyncio.gather(call, joined)] == [["one"], ["one"]]
    call = read(rig, "app")
    order = (await supervisor.read()).log
    await supervisor.answer(order.id, restarted=pb.RestartedConnector(pid=1))
    assert (await supervisor.ended())[0] is Code.INVALID_ARGUMENT
    assert (await rig.refused(call))[0] is Code.UNAVAILABLE


async def test_a_log_needs_the_right_control() -> None:
    tokens = [token("ours", supervise=True), token("reader", admin=True), token("operator", control=True)]
    async with serving(*tokens) as rig:
        supervisor = rig.supervisor("ours")
        await supervisor.send(hello=hello(processes=processes("app")))
        assert (await supervisor.read()).HasField("welcome")
        for caller in ("ours", "reader"):
            for process in ("app", "supervisor"):
                assert (await rig.refused(read(rig, process, caller=caller)))[0] is Code.PERMISSION_DENIED
        call = read(rig, "app", caller="operator")
        order = (await supervisor.read()).log
        assert order.by.startswith("operator (")
        await supervisor.answer(order.id, log=pb.ProcessLog(lines=["one"]))
        assert list((await call).log.lines) == ["one"]


@pytest.mark.parametrize("process", ["app", "supervisor"])
async def test_a_log_is_read_by_http(rig: Rig, process: str) -> None:
    supervisor = await registered(rig)
    async with serve_http(rig.gateway) as address:
        call = asyncio.create_task(post(address, "/api/v1/processes/log", {"name": process, "lines": 2}))
        order = (await supervisor.read()).log
        assert (order.process, order.lines) == (process, 2)
        await supervisor.answer(order.id, log=pb.ProcessLog(lines=["one", "two"], path="/logs/one.log"))
        status, document = await call
        assert status == 200
        assert document == {"name": process, "deployment": "deploy.toml", "path": "/logs/one.log", "lines": ["one", "two"]}
        assert (await post(address, "/api/v1/processes/log", {"name": "app", "lines": -1}))[0] == 400


def test_ages_go_on_between_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    kept = process_states.Process(pb.ProcessState(state_age_ms=5_000, next_start_ms=2_000), at=now)
    now = 101.0
    assert (kept.now().state_age_ms, kept.now().next_start_ms) == (6_000, 1_000)
    now = 110.0
    assert (kept.now().state_age_ms, kept.now().next_start_ms) == (15_000, 0)


@pytest.mark.parametrize("state", [pb.PROCESS_STATE_KIND_WAITS, pb.PROCESS_STATE_KIND_STARTS])
@pytest.mark.parametrize(("idle_ms", "kind"), [(3_000, Kind.PIPELINE_FAILS), (2_999, Kind.PIPELINE_SILENT)])
def test_why_a_driver_has_ended_is_named_before_its_lease_ends_unless_another_process_calls(
    state: pb.ProcessStateKind.ValueType, idle_ms: int, kind: Kind
) -> None:
    attached = pb.PipelineStatus(pipeline="orders", state=pb.PIPELINE_STATE_ATTACHED, idle_ms=idle_ms, silent_ms=7_000)
    ended = pb.ProcessState(
        name="app", kind=APPLICATION, state=state, state_age_ms=3_000, pipelines=["orders"], reason="killed by SIGKILL"
    )
    deployment = pb.DeploymentStatus(deployment="deploy.toml", processes=[ended])
    listed = problems(pb.GetStatusResponse(pipelines=[attached], deployments=[deployment]), 60_000, 10_000)
    (found,) = [problem for problem in listed if problem.part == "pipeline orders"]
    assert found.kind is kind
    assert (found.cause == "its process fails: killed by SIGKILL") is (kind is Kind.PIPELINE_FAILS)


@pytest.mark.parametrize(
    ("fault_age_ms", "reason", "is_stale"),
    [
        (ENDS_WITHIN_MS + 4_000, "the JVM has ended", True),
        (ENDS_WITHIN_MS + 3_999, "the JVM has ended", False),
        (ENDS_WITHIN_MS + 4_000, "ended with exit code 1: batch 7: ValueError: no price", False),
    ],
)
def test_a_process_that_ends_again_for_another_reason_replaces_the_fault_of_its_last_driver(
    fault_age_ms: int, reason: str, is_stale: bool
) -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=7, message="ValueError: no price (app.py, line 3, in price)")
    fault.age_ms = fault_age_ms
    ended = pb.ProcessState(name="app", kind=APPLICATION, state=pb.PROCESS_STATE_KIND_WAITS, pipelines=["orders"], reason=reason)
    ended.reason_age_ms = 4_000
    deployment = pb.DeploymentStatus(deployment="deploy.toml", processes=[ended])
    for state in (pb.PIPELINE_STATE_ATTACHED, pb.PIPELINE_STATE_AWAY):
        pipeline = pb.PipelineStatus(pipeline="orders", state=state, fault=fault, idle_ms=60_000)
        listed = problems(pb.GetStatusResponse(pipelines=[pipeline], deployments=[deployment]), 600_000, 600_000)
        causes = [problem.cause for problem in listed if problem.part == "pipeline orders"]
        assert causes == [f"its process fails: {reason}" if is_stale else f"batch 7: {fault.message}"]
