"""Series that are recorded from a gateway under faults: its own text of /metrics, every five seconds, for the alert rules.

Time is virtual: the gateway's ages grow as its clock is moved, and nobody waits for minutes.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.http_server import get, serve_http
from tests.gateway.promtool import firing
from tests.gateway.sink_wire import AT_LEAST_ONCE, SinkClient, Writer
from tests.gateway.wire import Connector, Engine, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Limits
from headrace.gateway.core import Gateway
from headrace.protocol.v1 import connector_pb2, source_pb2
from headrace.protocol.v1.metrics_pb2 import RunFault

STEP_S = 5
BEGINS_S, LASTS_S, AFTER_S = 120, 420, 60
"""For how long all is well, for how long the fault lasts, and for how long all is well afterwards, in virtual seconds."""
RUNNING, WAITING, DEGRADED = (
    connector_pb2.CONNECTOR_STATE_RUNNING,
    connector_pb2.CONNECTOR_STATE_WAITING,
    connector_pb2.CONNECTOR_STATE_DEGRADED,
)
BOTH = ("HeadraceDataLate", "HeadraceDegraded")


@dataclass
class Recorded:
    """A gateway that is scraped, with a source, a sink, and a query between them."""

    gateway: Gateway
    address: str
    http: str
    clock: VirtualClock
    source: Connector
    sink: SinkClient
    query: Engine
    writer: Writer
    told: RunFault | None = None
    """What the driver of the query reports."""
    series: dict[str, list[str]] = field(default_factory=dict)
    scrapes: int = 0

    async def watch(self, seconds: int) -> None:
        """Scrapes it for a while."""
        for _ in range(seconds // STEP_S):
            # As its driver does every second.
            await self.writer.report_commits(fault=self.told)
            await self.scrape()
            self.clock.advance(STEP_S)

    async def scrape(self) -> None:
        """Appends a sample to each series, or the mark that Prometheus sets where a series has ended."""
        status, text = await get(self.http, "/metrics")
        assert status == 200
        found = {
            f"{sample.name}{_labels(sample.labels)}": f"{sample.value:g}"
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        for name in found.keys() - self.series.keys():
            self.series[name] = ["_"] * self.scrapes
        for name, samples in self.series.items():
            ended = "stale" if samples and samples[-1] not in ("_", "stale") else "_"
            samples.append(found.get(name, ended))
        self.scrapes += 1

    async def open_source(self) -> None:
        """Connects a source, whose only stream is read."""
        self.source = Connector(self.address)
        await self.source.hello()
        await self.source.open()
        await self.source.expect("stream_opened")

    async def open_sink(self) -> None:
        """Connects the sink, which works."""
        self.sink = SinkClient(self.address)
        await self.sink.hello(mode=AT_LEAST_ONCE, capabilities=[source_pb2.CAPABILITY_REPORT])
        await self.sink_is(RUNNING)

    async def sink_is(self, state: connector_pb2.ConnectorState.ValueType, reason: str = "") -> None:
        """Has the sink report a state, and waits until the gateway knows."""
        await self.sink.send(report=connector_pb2.Report(state=state, reason=reason))
        await self.query.status_once(lambda status: [one.reported.state for one in status.sink_sessions] == [state])

    async def lose_sink(self) -> None:
        """Ends the sink's connection, and waits until the gateway knows."""
        await self.sink.close()
        await self.query.status_once(lambda status: not status.sink_sessions)

    def test(self, name: str, expected: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What promtool is to evaluate."""
        return {
            "name": name,
            "interval": f"{STEP_S}s",
            "input_series": [{"series": series, "values": " ".join(values)} for series, values in self.series.items()],
            "promql_expr_test": list(expected),
        }


def _labels(labels: dict[str, str]) -> str:
    """The labels of a series, with those that Prometheus adds."""
    named = {**labels, "job": "headrace", "instance": "g"}
    return "{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in named.items()) + "}"


@asynccontextmanager
async def recording() -> AsyncIterator[Recorded]:
    """A gateway in virtual time, all of which is well."""
    limits = Limits(query_lease_ms=86_400_000)
    with clock.use(VirtualClock()) as now:
        async with (
            serve(limits) as (gateway, address),
            serve_http(gateway) as http,
            clients(address) as (query, writer),
        ):
            await writer.report_commits()
            found = Recorded(gateway, address, http, now, Connector(address), SinkClient(address), query, writer)
            await found.open_source()
            await found.open_sink()
            await found.source.send(frame=numbered(1, 1, 3))
            await query.plan_until("orders/0", 3)
            await query.plan({"orders/0": 3}, wait_ms=0)
            yield found
            await found.source.close()
            await found.sink.close()


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[tuple[Engine, Writer]]:
    """A query that reads, and writes to the sink."""
    query, writer = Engine(address), Writer(address, readers=["p"], pipeline="p")
    await query.attach()
    yield query, writer
    await writer.close()
    await query.close()


def alerts(at_s: int, *names: str) -> dict[str, Any]:
    """That these alerts fire at a time, and no others."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    expr = 'max by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": expr, "eval_time": f"{at_s}s", "exp_samples": samples}


def expected(parts: Sequence[str], *, is_of_the_flow: bool = True) -> list[dict[str, Any]]:
    """What fires because of a fault: first for the parts, then for the data, and nothing before and afterwards."""
    late = BOTH if is_of_the_flow else BOTH[1:]
    return [
        alerts(BEGINS_S),
        alerts(BEGINS_S + 110),
        alerts(BEGINS_S + 135, "HeadraceDegraded"),
        alerts(BEGINS_S + 290, "HeadraceDegraded"),
        alerts(BEGINS_S + 315, *late),
        alerts(BEGINS_S + LASTS_S - STEP_S, *late),
        {**firing(0, "HeadraceDegraded", parts), "eval_time": f"{BEGINS_S + LASTS_S - STEP_S}s"},
        alerts(BEGINS_S + LASTS_S + STEP_S),
    ]
