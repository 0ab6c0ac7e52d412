"""Every view in light and dark, wide and narrow, with names and errors that are as long as people make them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import DEADLINE_MS
from tests.console.test_operating import CUT, LONG, UNTITLED
from tests.console.views import violations
from tests.gateway.http_server import serve_http
from tests.gateway.test_dead_letters import letters
from tests.gateway.test_dead_letters import rigged as with_dead_letters
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import Connector, Engine, numbered

from headrace.gateway.core.state import EventKind
from headrace.protocol.v1 import admin_pb2, connector_pb2, metrics_pb2

expect.set_options(timeout=DEADLINE_MS)

WAREHOUSES = "orders-of-the-eastern-warehouses-and-their-suppliers"
STREAM = f"{WAREHOUSES}/region-north-by-north-east-0001"
PIPELINE = "totals-of-all-regions-by-hour-and-by-supplier-in-the-second-warehouse"
INSTANCE = f"{WAREHOUSES}-instance-0001-of-the-first-rack"
PROCESS = f"{WAREHOUSES}-connector-of-the-second-rack"
VIEWS = {
    "overview": "sink-fails",
    "health": "connector",
    "graph": "first-steps",
    f"timeline&pipeline={PIPELINE}": "read, ",
    "streams": STREAM,
    "connectors": INSTANCE,
    "processes": PROCESS,
    "letters": "refused by sink totals",
    "search&find=o": PROCESS,
}
"""All views, and a text that each has once it is there."""
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


WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')].filter(
    (one) => one.getBoundingClientRect().right > innerWidth && !one.closest('.scroll, .table')).map((one) => one.outerHTML)"""
"""What is wider than the window, if the page is."""


@asynccontextmanager
async def crowded() -> AsyncIterator[str]:
    """The HTTP address of a gateway whose parts have long names, with long errors."""
    async with with_dead_letters() as rig, serve_http(rig.gateway) as http:
        source, engine = Connector(rig.address), Engine(rig.address, name=PIPELINE, streams=f"{WAREHOUSES}/*")
        supervisor = Supervisor(rig.address)
        hello = admin_pb2.SuperviseHello(
            deployment="deployment-of-the-eastern-warehouses.toml",
            run="r1",
            connectors=admin_pb2.SupervisedConnectors(),
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
        yield http
        for each in (source, engine, supervisor):
            await each.close()


@pytest.mark.each_value
@pytest.mark.parametrize("width", [1440, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_cut_and_no_page_is_wider_than_the_window(page: Page, scheme: Any, width: int) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 900})
    async with crowded() as http:
        found: dict[str, Any] = {}
        for view, text in VIEWS.items():
            await page.goto(f"http://{http}/?view={view}")
            await expect(page.get_by_role("main")).to_contain_text(text)
            # Rows have their heights a frame after they are drawn.
            await page.wait_for_function(f"!({CUT})()")
            of = {
                "cut without a title": await page.evaluate(UNTITLED),
                "too wide": await page.evaluate(WIDE),
                "not accessible": await violations(page),
            }
            found |= {f"{view}: {what}": elements for what, elements in of.items() if elements}
            if width == 1440 and view == "graph":
                drawn = "document.querySelector('.drawing').offsetWidth / document.querySelector('main').clientWidth"
                assert await page.evaluate(drawn) > 0.8, "the graph leaves much of the page empty"
        assert not found
