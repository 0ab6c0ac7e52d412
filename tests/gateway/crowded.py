"""A gateway whose parts have names that are as long as people make them, with long errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.gateway.http_server import serve_http
from tests.gateway.test_dead_letters import letters
from tests.gateway.test_dead_letters import rigged as with_dead_letters
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import Connector, Engine, numbered

from headrace.gateway.core.state import EventKind
from headrace.protocol.v1 import admin_pb2, connector_pb2, metrics_pb2

LONG = "cannot write to the table: " + "permission denied for relation ledger_entries; " * 4
WAREHOUSES = "orders-of-the-eastern-warehouses-and-their-suppliers"
STREAM = f"{WAREHOUSES}/region-north-by-north-east-0001"
PIPELINE = "totals-of-all-regions-by-hour-and-by-supplier-in-the-second-warehouse"
INSTANCE = f"{WAREHOUSES}-instance-0001-of-the-first-rack"
PROCESS = f"{WAREHOUSES}-connector-of-the-second-rack"
PROCESS_STATE = admin_pb2.ProcessState(
    name=PROCESS,
    kind=admin_pb2.PROCESS_KIND_CONNECTOR,
    state=admin_pb2.PROCESS_STATE_KIND_RUNS,
    state_age_ms=7_200_000,
    restarts=12_345,
    reason=f"ended with exit code 1: {LONG}"[:290],
    reason_age_ms=7_300_000,
    memory_bytes=80 * 2**30,
    version="0.1.0",
    pid=4711,
)


@dataclass(frozen=True)
class Crowded:
    """The addresses of such a gateway."""

    address: str
    http: str


@asynccontextmanager
async def crowded(replays: str = "") -> AsyncIterator[Crowded]:
    """Runs it. A connector of a deployment can replay the dead letters of the sink `replays`, whose name it has."""
    async with with_dead_letters() as rig, serve_http(rig.gateway) as http:
        source, engine = Connector(rig.address), Engine(rig.address, name=PIPELINE, streams=f"{WAREHOUSES}/*")
        supervisor = Supervisor(rig.address)
        replaying = [admin_pb2.SupervisedConnector(name=replays, instance="0", sink=replays, replays=replays)] if replays else []
        hello = admin_pb2.SuperviseHello(
            deployment="deployment-of-the-eastern-warehouses.toml",
            run="r1",
            connectors=admin_pb2.SupervisedConnectors(connectors=replaying),
            processes=admin_pb2.SupervisedProcesses(processes=[PROCESS_STATE]),
        )
        await supervisor.send(hello=hello)
        assert (await supervisor.read()).HasField("welcome")
        await rig.committed(0, letters([LONG.encode()], reason=LONG))
        await engine.attach()
        await source.hello(instance=INSTANCE)
        await source.open(STREAM)
        await source.expect("stream_opened")
        degraded, errors = connector_pb2.CONNECTOR_STATE_DEGRADED, [connector_pb2.ConnectorError(message=LONG, stream=STREAM)]
        await source.send(report=connector_pb2.Report(state=degraded, reason=LONG, errors=errors))
        await source.send(frame=numbered(1, 1, 1_000))
        await engine.plan_until(STREAM, 1_000)
        await engine.fetch(STREAM, None, 1_000)
        steps = [metrics_pb2.StepMetrics(step=f"first-steps-of-{WAREHOUSES}-{n}", received=10**9, sent=10**9) for n in range(3)]
        rig.gateway.pipelines[PIPELINE].metrics = metrics_pb2.RunMetrics(steps=steps)
        rig.gateway.event_log.add(EventKind.FAULT_BEGAN, f"sink {PIPELINE}", f"sink-fails: {LONG}")
        yield Crowded(rig.address, http)
        for each in (source, engine, supervisor):
            await each.close()
