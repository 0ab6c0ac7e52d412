"""The alert rules against series that are recorded from a gateway under faults, one kind of fault after the other."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.http_server import get
from tests.gateway.promtool import run
from tests.gateway.recorder import AFTER_S, BEGINS_S, DEGRADED, LASTS_S, RUNNING, STEP_S, WAITING, Recorded, expected, recording
from tests.gateway.test_supervising import Supervisor

from headrace.gateway.core import Kind
from headrace.gateway.own_faults import OwnFaultKind
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2, source_pb2
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_BATCH_FAILED, RUN_FAULT_KIND_EXECUTORS_LOST, RunFault


@pytest.fixture
async def recorded() -> AsyncIterator[Recorded]:
    async with recording() as found:
        yield found


async def test_a_source_that_leaves(recorded: Recorded, tmp_path: Path) -> None:
    await recorded.watch(BEGINS_S)
    await recorded.source.close()
    await recorded.query.status_once(lambda status: not status.sessions)
    await recorded.watch(LASTS_S)
    await recorded.open_source()
    await recorded.watch(AFTER_S)
    run(tmp_path, [recorded.test("source", expected(["connector test-0", "stream orders/0"]))], every=f"{STEP_S}s")


async def test_a_receiver_that_a_sink_waits_for(recorded: Recorded, tmp_path: Path) -> None:
    await recorded.watch(BEGINS_S)
    await recorded.sink_is(WAITING, "Cannot connect to host 192.0.2.1:80")
    await recorded.watch(LASTS_S)
    await recorded.sink_is(RUNNING)
    await recorded.watch(AFTER_S)
    parts = ["connector i of sink out", "pipeline p", "sink out"]
    run(tmp_path, [recorded.test("receiver", expected(parts))], every=f"{STEP_S}s")


async def test_a_fault_that_changes_its_kind_keeps_its_time(recorded: Recorded, tmp_path: Path) -> None:
    """The sink waits for its receiver, is killed, comes back, and works only in part, each for less than any rule waits."""
    await recorded.watch(BEGINS_S)
    kinds = set()
    for number in range(LASTS_S // 60):
        if number % 3 == 0:
            await recorded.sink_is(WAITING, "Cannot connect to host 192.0.2.1:80")
        elif number % 3 == 1:
            await recorded.lose_sink()
        else:
            await recorded.open_sink()
            await recorded.sink_is(DEGRADED, "one of two receivers is away")
        await recorded.watch(60)
        _, ready = await get(recorded.http, "/readyz")
        kinds |= {problem["kind"] for problem in ready["problems"] if problem["part"] == "sink out"}
    assert kinds == {"connector-reports", "sink-away"}
    await recorded.sink_is(RUNNING)
    await recorded.watch(AFTER_S)
    run(tmp_path, [recorded.test("changes", expected(["pipeline p", "sink out"]))], every=f"{STEP_S}s")


# One fault of each kind


@dataclass
class Made:
    """A gateway that is recorded, and the supervisor that a fault may need."""

    recorded: Recorded
    supervisors: list[Supervisor] = field(default_factory=list)

    async def supervisor(self, **hello: Any) -> Supervisor:
        made = Supervisor(self.recorded.address)
        self.supervisors.append(made)
        await made.send(hello=pb.SuperviseHello(deployment="deploy.toml", run="r1", **hello))
        assert (await made.read()).HasField("welcome")
        return made

    async def process(self, log_fault: str) -> None:
        """Has a supervisor tell of a process, and waits until the gateway knows."""
        process = pb.ProcessState(
            name="app", kind=pb.PROCESS_KIND_APPLICATION, pipelines=["p"], state=pb.PROCESS_STATE_KIND_RUNS, log_fault=log_fault
        )
        told = pb.SupervisedProcesses(processes=[process])
        if self.supervisors:
            await self.supervisors[0].send(processes=told)
        else:
            await self.supervisor(processes=told)
        await self.recorded.query.status_once(
            lambda status: [one.log_fault for of in status.deployments for one in of.processes] == [log_fault]
        )

    async def source_is(self, state: connector_pb2.ConnectorState.ValueType) -> None:
        await self.recorded.source.send(report=connector_pb2.Report(state=state, reason="no broker"))
        await self.recorded.query.status_once(lambda status: [one.reported.state for one in status.sessions] == [state])

    async def stream_is(self, state: pb.StreamState.ValueType) -> None:
        await self.recorded.query.status_once(lambda status: [one.state for one in status.streams] == [state])


async def own_faults(made: Made) -> None:
    for kind in OwnFaultKind:
        made.recorded.gateway.own_faults.note(f"file {kind}", kind, "it is wrong", "correct it")


async def no_own_faults(made: Made) -> None:
    for kind in OwnFaultKind:
        made.recorded.gateway.own_faults.end(f"file {kind}", kind)


async def full_log(made: Made) -> None:
    await made.process("run/app.log: No space left on device")


async def log_with_room(made: Made) -> None:
    await made.process("")


async def broker_stopped(made: Made) -> None:
    await made.source_is(WAITING)


async def broker_back(made: Made) -> None:
    await made.source_is(RUNNING)


async def connector_fails(made: Made) -> None:
    listed = pb.SupervisedConnector(name="orders", instance="test-0", source="orders", failure="exit code 1: no such topic")
    await made.supervisor(connectors=pb.SupervisedConnectors(connectors=[listed]))
    await made.recorded.source.close()
    await made.recorded.query.status_once(lambda status: not status.sessions)


async def connector_runs(made: Made) -> None:
    await made.recorded.open_source()
    listed = pb.SupervisedConnector(name="orders", instance="test-0", source="orders")
    await made.supervisors[0].send(connectors=pb.SupervisedConnectors(connectors=[listed]))
    await made.recorded.query.status_once(lambda status: not status.deployments[0].connectors[0].failure)


async def stream_closed(made: Made) -> None:
    await made.recorded.source.send(close_stream=source_pb2.CloseStream(stream_id=1))
    await made.stream_is(pb.STREAM_STATE_DETACHED)


async def stream_open(made: Made) -> None:
    await made.recorded.source.open(stream_id=2)
    await made.stream_is(pb.STREAM_STATE_LIVE)


async def batch_fails(made: Made) -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=0, message="step sum: ValueError: no price")
    await made.recorded.writer.report_commits(fault=fault)


async def batch_commits(made: Made) -> None:
    await made.recorded.writer.report_commits(0)


async def executors_lost(made: Made) -> None:
    made.recorded.told = RunFault(kind=RUN_FAULT_KIND_EXECUTORS_LOST, message="executor 1 was lost: it was killed")


async def executors_back(made: Made) -> None:
    made.recorded.told = None


@dataclass(frozen=True)
class Fault:
    """A fault, and what health names.

    Attributes:
        begin: Makes it.
        end: Repairs it.
        root: The part where it begins.
        kinds: The kinds of its problems.
        is_of_the_flow: Whether it delays data.
    """

    begin: Callable[[Made], Awaitable[None]]
    end: Callable[[Made], Awaitable[None]]
    root: str
    kinds: frozenset[str]
    is_of_the_flow: bool = True


OF_THE_GATEWAY = frozenset(str(kind) for kind in OwnFaultKind)
LOG = "log of process app of deploy.toml"
FAULTS = (
    Fault(own_faults, no_own_faults, f"file {OwnFaultKind.GATEWAY_FAILS}", OF_THE_GATEWAY, is_of_the_flow=False),
    Fault(full_log, log_with_room, LOG, frozenset({Kind.LOG_FAILS}), is_of_the_flow=False),
    Fault(broker_stopped, broker_back, "connector test-0", frozenset({Kind.CONNECTOR_REPORTS})),
    Fault(connector_fails, connector_runs, "connector test-0", frozenset({Kind.CONNECTOR_FAILS})),
    Fault(stream_closed, stream_open, "stream orders/0", frozenset({Kind.NOT_SENT})),
    Fault(batch_fails, batch_commits, "pipeline p", frozenset({Kind.PIPELINE_FAILS})),
    Fault(executors_lost, executors_back, "pipeline p", frozenset({Kind.EXECUTOR_LOST})),
)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.begin.__name__ for fault in FAULTS])
async def test_a_fault_fires_for_its_parts_and_if_it_is_of_the_flow_for_late_data(
    fault: Fault, recorded: Recorded, tmp_path: Path
) -> None:
    made = Made(recorded)
    await recorded.watch(BEGINS_S)
    await fault.begin(made)
    await recorded.watch(LASTS_S)
    _, ready = await get(recorded.http, "/readyz")
    parts = {problem["part"]: problem for problem in ready["problems"]}
    assert {problem["kind"] for problem in parts.values()} == fault.kinds
    assert parts[fault.root]["root"] == fault.root
    await fault.end(made)
    await recorded.watch(AFTER_S)
    rules = recorded.test(fault.begin.__name__, expected([*parts], is_of_the_flow=fault.is_of_the_flow))
    run(tmp_path, [rules], every=f"{STEP_S}s")
    for supervisor in made.supervisors:
        await supervisor.close()
