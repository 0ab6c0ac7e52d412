"""Series that are recorded from a gateway under faults: its own text of /metrics, every 15 seconds, for the alert rules.

Time is virtual: the gateway's ages grow as its clock is moved, and nobody waits for minutes.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.docs.pages import ROOT
from tests.gateway.http_server import get, serve_http
from tests.gateway.promtool import firing
from tests.gateway.sink_wire import AT_LEAST_ONCE, SinkClient, Writer
from tests.gateway.wire import Connector, Engine, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.housekeeping import round_of
from headrace.protocol.v1 import connector_pb2, sink_pb2
from headrace.protocol.v1.metrics_pb2 import RunFault

STEP_S = 15
"""As often as the page about operating tells Prometheus to read."""
BEGINS_S, LASTS_S = 60, 420
"""For how long all is well, and for how long the fault lasts, in virtual seconds."""
RUNNING, WAITING, DEGRADED = (
    connector_pb2.CONNECTOR_STATE_RUNNING,
    connector_pb2.CONNECTOR_STATE_WAITING,
    connector_pb2.CONNECTOR_STATE_DEGRADED,
)
_NAMES = frozenset(re.findall(r"headrace_\w+", (ROOT / "docs" / "run" / "monitoring" / "alerts.yaml").read_text()))
"""The series that the rules read."""


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
    committed: int | None = None
    """The last micro-batch in its commit log."""
    driver_reports: bool = True
    is_stopped: bool = False
    """Whether the gateway has ended, so that nobody can scrape it."""
    each: Callable[[], Awaitable[object]] | None = None
    """What happens before each scrape, as long as a fault lasts."""
    series: dict[str, list[str]] = field(default_factory=dict)
    scrapes: int = 0

    async def watch(self, seconds: int) -> None:
        """Scrapes it for a while."""
        for _ in range(seconds // STEP_S):
            if self.scrapes:
                self.clock.advance(STEP_S)
            for step in round_of(self.gateway, STEP_S).values():
                step()
            if self.each is not None:
                await self.each()
            if self.driver_reports:
                await self.writer.report_commits(self.committed, fault=self.told)
            await self.scrape()

    async def scrape(self) -> None:
        """Appends a sample to each series, or the mark that Prometheus sets where a series has ended."""
        text = "" if self.is_stopped else (await get(self.http, "/metrics"))[1]
        lines = (line for line in text.splitlines() if re.split("[{ ]", line, maxsplit=1)[0] in _NAMES)
        found = {
            f"{sample.name}{_labels(sample.labels)}": f"{sample.value:g}"
            for family in text_string_to_metric_families("\n".join(lines) + "\n")
            for sample in family.samples
        }
        for name in found.keys() - self.series.keys():
            self.series[name] = ["_"] * self.scrapes
        for name, samples in self.series.items():
            ended = "stale" if samples and samples[-1] not in ("_", "stale") else "_"
            samples.append(found.get(name, ended))
        self.scrapes += 1

    async def open_source(self, **hello: Any) -> None:
        """Connects a source, whose only stream is read."""
        self.source = Connector(self.address)
        await self.source.hello(**hello)
        await self.source.open()
        await self.source.expect("stream_opened")

    async def lose_source(self) -> None:
        """Ends the source's connection, and waits until the gateway knows."""
        await self.source.close()
        await self.query.status_once(lambda status: not status.sessions)

    async def open_sink(self, mode: sink_pb2.SinkMode.ValueType = AT_LEAST_ONCE) -> None:
        """Connects the sink, which works."""
        self.sink = SinkClient(self.address)
        await self.sink.hello(mode=mode)
        await self.sink_is(RUNNING)

    async def sink_is(self, state: connector_pb2.ConnectorState.ValueType, reason: str = "") -> None:
        """Has the sink report a state, and waits until the gateway knows."""
        await self.sink.send(report=connector_pb2.Report(state=state, reason=reason))
        await self.query.status_once(lambda status: [one.reported.state for one in status.sink_sessions] == [state])

    async def lose_sink(self) -> None:
        """Ends the sink's connection, and waits until the gateway knows."""
        await self.sink.close()
        await self.query.status_once(lambda status: not status.sink_sessions)

    async def new_run(self, run: int, committed: int) -> None:
        """Starts the query again."""
        await self.query.close()
        self.query = Engine(self.address, run=run)
        await self.query.attach({"orders/0": committed})

    def test(self, name: str, expected: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What promtool is to evaluate."""
        return {
            "name": name,
            "interval": f"{STEP_S}s",
            "input_series": [{"series": series, "values": " ".join(values)} for series, values in self.series.items()],
            "promql_expr_test": list(expected),
        }


def _labels(labels: dict[str, str]) -> str:
    """The labels of a series, with the ones that Prometheus adds."""
    named = {**labels, "job": "headrace", "instance": "g"}
    return "{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in named.items()) + "}"


@asynccontextmanager
async def recording(*, is_empty: bool = False, **config: Any) -> AsyncIterator[Recorded]:
    """A gateway in virtual time, all of which is well.

    Args:
        is_empty: Whether only a source is connected, which offers nothing.
        config: The configuration of its HTTP server.
    """
    limits = Limits(query_lease_seconds=86400)
    with clock.use(VirtualClock()) as now:
        async with serve(limits, has_rounds=False) as (gateway, address), serve_http(gateway, **config) as http:
            query, writer = Engine(address), Writer(address, readers=["p"], pipeline="p")
            found = Recorded(gateway, address, http, now, Connector(address), SinkClient(address), query, writer)
            if is_empty:
                found.driver_reports = False
                await found.source.hello()
            else:
                await query.attach()
                await writer.report_commits()
                await found.open_source()
                await found.open_sink()
                await found.source.send(frame=numbered(1, 1, 3))
                await query.plan_until("orders/0", 3)
                await query.plan({"orders/0": 3}, wait_ms=0)
            yield found
            for client in (found.source, found.sink, found.query, found.writer):
                await client.close()


def alerts(at_s: int, *names: str) -> dict[str, Any]:
    """That these alerts fire at a time, and no others."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    expr = 'max by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": expr, "eval_time": f"{at_s}s", "exp_samples": samples}


def expected(
    parts: Sequence[str],
    *,
    is_of_the_flow: bool = True,
    late_s: int = 0,
    clears_s: int = 0,
    during: Sequence[str] = (),
    after: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """What fires because of a fault: first for the parts, then for the data, and nothing before and afterwards.

    Args:
        parts: The degraded parts.
        is_of_the_flow: Whether data are late.
        late_s: How much later than its fault the gateway names it, in seconds.
        clears_s: How much later than its repair the gateway forgets it, in seconds.
        during: What else fires.
        after: What fires once it was repaired: it tells what was lost.
    """
    ends_s = BEGINS_S + LASTS_S
    late = ("HeadraceDataLate", "HeadraceDegraded") if is_of_the_flow else ("HeadraceDegraded",)
    return [
        alerts(BEGINS_S - STEP_S),
        {**firing(0, "HeadraceDegraded", ()), "eval_time": f"{BEGINS_S + 105}s"},
        {**firing(0, "HeadraceDegraded", parts), "eval_time": f"{BEGINS_S + 135 + late_s}s"},
        {**firing(0, "HeadraceDataLate", ()), "eval_time": f"{BEGINS_S + 285}s"},
        alerts(BEGINS_S + 315 + late_s, *late, *during),
        {**firing(0, "HeadraceDegraded", parts), "eval_time": f"{ends_s - STEP_S}s"},
        alerts(ends_s + clears_s + 2 * STEP_S, *after),
    ]
