"""What an operator needs at night: processes and their logs, the way to the first cause, search, and no slip of the hand."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import DEADLINE_MS
from tests.console.views import keep_picture, violations
from tests.gateway.crowded import LONG
from tests.gateway.http_server import serve_http
from tests.gateway.test_rights import token
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import Connector, Engine, numbered, serve

from headrace.protocol.v1 import admin_pb2, connector_pb2
from headrace.protocol.v1.metrics_pb2 import MetricSeries, RunMetrics

expect.set_options(timeout=DEADLINE_MS)

CUT = """() => [...document.querySelectorAll('.rows .row > div')].some(
    (cell) => cell.scrollWidth > cell.clientWidth + 1 || cell.scrollHeight > cell.clientHeight + 1)"""
PROCESSES = [
    admin_pb2.ProcessState(
        name="orders",
        kind=admin_pb2.PROCESS_KIND_CONNECTOR,
        state=admin_pb2.PROCESS_STATE_KIND_RUNS,
        state_age_ms=7_200_000,
        memory_bytes=80 * 2**20,
        pid=4711,
        version="0.1.0",
    ),
    admin_pb2.ProcessState(
        name="ledger",
        kind=admin_pb2.PROCESS_KIND_CONNECTOR,
        state=admin_pb2.PROCESS_STATE_KIND_WAITS,
        state_age_ms=4_000,
        restarts=12,
        reason=f"ended with exit code 1: {LONG}"[:290],
        next_start_ms=26_000,
    ),
    admin_pb2.ProcessState(
        name="totals",
        kind=admin_pb2.PROCESS_KIND_APPLICATION,
        pipelines=["totals"],
        state=admin_pb2.PROCESS_STATE_KIND_STARTS,
        state_age_ms=9_000,
        pid=4712,
        version="0.1.0",
    ),
]


async def supervising(address: str, caller: str | None = None) -> Supervisor:
    """A supervisor that reports processes."""
    supervisor = Supervisor(address, caller)
    hello = admin_pb2.SuperviseHello(
        deployment="deploy.toml",
        run="r1",
        connectors=admin_pb2.SupervisedConnectors(),
        processes=admin_pb2.SupervisedProcesses(processes=PROCESSES),
    )
    await supervisor.send(hello=hello)
    assert (await supervisor.read()).HasField("welcome")
    return supervisor


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 400)])
async def test_processes_have_their_restarts_and_why(page: Page, width: int, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 900})
    async with serve() as (gateway, address), serve_http(gateway) as http:
        supervisor = await supervising(address)
        await page.goto(f"http://{http}/?view=processes")
        table = page.get_by_role("table", name="Processes")
        row = table.get_by_role("row").filter(has_text="ledger")
        for text in ("waits", "12"):
            await expect(row).to_contain_text(text)
        await row.get_by_role("button").click()
        details = page.get_by_role("region", name="Process ledger · deploy.toml")
        await expect(details).to_contain_text("permission denied")
        await expect(details).to_contain_text("starts again in")
        assert not await violations(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if width == 1440:
            await keep_picture(page, "processes")
        await supervisor.close()


async def test_the_last_lines_of_a_log_are_read(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        supervisor = await supervising(address)
        await page.goto(f"http://{http}/?view=processes&process=ledger%20%C2%B7%20deploy.toml")
        await page.get_by_role("button", name="Read its log").click()
        order = (await supervisor.read()).log
        assert order.process == "ledger"
        lines = ["starting", "<script>alert(1)</script>", "permission denied"]
        await supervisor.answer(order.id, log=admin_pb2.ProcessLog(lines=lines, path="logs/ledger.log"))
        shown = page.get_by_label("Log of ledger")
        await expect(shown).to_contain_text("<script>alert(1)</script>")
        await expect(page.get_by_text("logs/ledger.log")).to_be_visible()
        assert not await violations(page)
        await page.get_by_role("button", name="Read the log again").click()
        order = (await supervisor.read()).log
        failure = admin_pb2.OrderFailure(kind=admin_pb2.ORDER_FAILURE_KIND_FAILED, error="the log cannot be read")
        await supervisor.answer(order.id, failure=failure)
        await expect(page.get_by_role("alert")).to_contain_text("the log cannot be read")
        await supervisor.close()


async def test_the_supervisor_has_a_row_with_the_last_lines_of_its_log(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        supervisor = await supervising(address)
        await page.goto(f"http://{http}/?view=processes")
        row = page.get_by_role("table", name="Processes").get_by_role("row").filter(has_text="supervisor")
        await row.get_by_role("button").click()
        details = page.get_by_role("region", name="Process supervisor · deploy.toml")
        await expect(details).to_contain_text("registered for")
        await expect(details).not_to_contain_text("Restarts")
        await details.get_by_role("button", name="Read its log").click()
        order = (await supervisor.read()).log
        assert order.process == "supervisor"
        await supervisor.answer(order.id, log=admin_pb2.ProcessLog(lines=["reloaded: orders is new"], path="run/supervisor.log"))
        await expect(page.get_by_label("Log of supervisor")).to_contain_text("reloaded: orders is new")
        assert not await violations(page)
        await supervisor.close()


@pytest.mark.parametrize("process", ["ledger", "supervisor"])
async def test_a_log_needs_the_right_control(page: Page, process: str) -> None:
    tokens = [token("see", admin=True), token("run", supervise=True)]
    async with serve(tokens=tokens) as (gateway, address), serve_http(gateway, tokens) as http:
        supervisor = await supervising(address, "run")
        await page.goto(f"http://{http}/?view=processes&process={process}%20%C2%B7%20deploy.toml")
        await page.get_by_label("Token").fill("see")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("Its log needs the right control.")).to_be_visible()
        await expect(page.get_by_role("button", name="Read its log")).to_have_count(0)
        await supervisor.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_graph_marks_the_way_to_the_first_cause(page: Page, troubled: str, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.goto(f"http://{troubled}/?view=graph")
    cause = page.locator(".node.first-cause").filter(has_text="sink out")
    await expect(cause).to_contain_text("first cause")
    await expect(page.locator("path.edge.cause")).not_to_have_count(0)
    await expect(page.locator("path.edge")).not_to_have_count(0)
    if scheme == "light":
        await keep_picture(page, "graph-causes")
    assert not await violations(page)


async def test_the_graph_keeps_its_edges_when_connectors_leave(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        source, reader = Connector(address), Engine(address)
        await source.hello(instance="orders-0")
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        await page.goto(f"http://{http}/?view=graph")
        await expect(page.locator("path.edge")).to_have_count(2)
        await source.close()
        await expect(page.locator(".node").filter(has_text="connector orders-0")).to_contain_text("its session has ended")
        await expect(page.locator("path.edge")).to_have_count(2)
        await reader.close()


async def test_any_part_is_found_by_a_part_of_its_name(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        for number in range(300):
            gateway.stream(f"orders/{number}")
        gateway.sink("totals")
        supervisor = await supervising(address)
        await page.goto(f"http://{http}/?view=streams")
        await expect(page.get_by_role("table", name="Streams")).to_be_visible()
        await page.get_by_role("heading", level=1).click()
        await page.keyboard.press("/")
        await page.keyboard.type("totals")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Search")
        await expect(page.get_by_role("row").filter(has_text="sink totals")).to_be_visible()
        await expect(page.get_by_role("row").filter(has_text="process totals of deploy.toml")).to_be_visible()
        assert not await violations(page)
        await page.get_by_label("Find any part").fill("orders 29")
        await expect(page.get_by_role("status").filter(has_text="found")).to_contain_text("13 found")
        await page.get_by_role("link", name="stream orders/299").click()
        await expect(page.get_by_role("table", name="Streams").get_by_role("button", name="orders/299")).to_be_visible()
        await supervisor.close()


async def test_forget_stands_apart_and_is_not_a_slip_of_the_hand(page: Page) -> None:
    async with serve() as (gateway, _), serve_http(gateway) as http:
        gateway.stream("orders/0")
        await page.goto(f"http://{http}/?view=streams&stream=orders/0")
        details = page.get_by_role("region", name="Stream orders/0")
        await expect(details.get_by_role("button", name="Pause stream orders/0")).to_be_visible()
        forget = details.get_by_role("button", name="Forget stream orders/0")
        await expect(forget).to_be_hidden()
        await details.get_by_text("Danger zone").click()
        await forget.click()
        dialog = page.get_by_role("alertdialog")
        await expect(dialog).to_contain_text("cannot be taken back")
        assert not await violations(page)
        await page.keyboard.press("Enter")
        await expect(dialog).to_have_count(0)
        assert "orders/0" in gateway.streams
        await forget.click()
        await dialog.get_by_role("button", name="Forget", exact=True).click()
        await expect(page.get_by_role("table").get_by_role("button", name="orders/0", exact=True)).to_have_count(0)
        assert "orders/0" not in gateway.streams


async def test_an_old_error_has_its_age_and_time_is_over_and_is_not_cut(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connector, reader = Connector(address), Engine(address)
        await reader.attach()
        await connector.hello()
        await connector.open("orders/0", 1)
        await connector.expect("stream_opened")
        errors = [connector_pb2.ConnectorError(message=LONG, age_ms=540_000, stream="orders/0")]
        running = connector_pb2.CONNECTOR_STATE_RUNNING
        await connector.send(report=connector_pb2.Report(state=running, errors=errors))
        for view, name, state in (("connectors", "test-0", "running for"), ("streams", "orders/0", "idle")):
            part = f"{view.title()[:-1]} {name}"
            await page.goto(f"http://{http}/?view={view}")
            row = page.get_by_role("table").get_by_role("row").filter(has_text=name)
            await expect(row).to_contain_text(state)
            await expect(row).to_contain_text(re.compile(r"over\s*(9|[1-5]\d)m \d\ds ago \(.*\d\d:\d\d:\d\d\)"))
            await expect(row).to_contain_text(LONG.strip())
            await page.wait_for_function(f"!({CUT})()")
            assert not await violations(page)
            await row.get_by_role("button").first.click()
            await expect(page.get_by_role("region", name=part)).to_contain_text("permission denied")
        await connector.close()
        await reader.close()


async def test_ages_grow_while_nothing_changes(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connector = Connector(address)
        await connector.hello()
        await connector.send(report=connector_pb2.Report(state=connector_pb2.CONNECTOR_STATE_RUNNING, state_age_ms=3_600_000))
        await page.goto(f"http://{http}/?view=connectors")
        row = page.get_by_role("table").get_by_role("row").filter(has_text="test-0")
        await expect(row).to_contain_text(re.compile(r"1h"))
        await row.get_by_role("button").first.click()
        details = page.get_by_role("region", name="Connector test-0")
        await expect(details).to_contain_text("connected for")
        before = await details.inner_text()
        await expect(details).not_to_have_text(before)
        await connector.close()


async def test_a_micro_batch_that_runs_has_the_longest_bar_and_a_time(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        source, reader = Connector(address), Engine(address)
        await source.hello()
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        for number in range(3):
            await source.send(frame=numbered(1, 3 * number + 1, 3))
            await reader.plan_until("orders/0", 3 * number + 3)
            await reader.fetch("orders/0", 3 * number or None, 3 * number + 3)
            await reader.plan({"orders/0": 3 * number + 3}, wait_ms=0)
        await source.send(frame=numbered(1, 10, 3))
        await reader.plan_until("orders/0", 12)
        renewing = asyncio.create_task(keep_renewing(reader))
        amounts = MetricSeries(metric="amounts", count=4, sum=10.5, bounds=[1, 5], buckets=[1, 3])
        rejected = MetricSeries(metric="rejected", value="stock", count=1234)
        gateway.pipelines["p"].metrics = RunMetrics(series=[amounts, rejected])
        await page.goto(f"http://{http}/?view=timeline&pipeline=p")
        counted = page.get_by_role("region", name="Counters and histograms").get_by_role("row")
        shown = ["^Name", "42.62525 % ≤ 1 · 75 % ≤ 5$", "^rejectedstock1,234"]
        await expect(counted).to_have_text([re.compile(row) for row in shown])
        batches = page.get_by_role("list", name="Micro-batches, the last one first").get_by_role("listitem")
        await expect(batches).to_have_count(4)
        await expect(batches.first).to_contain_text(re.compile(r"runs for (\d+ min|[1-9]\d* s|\d+\.\d s)"))
        await expect(batches.first).to_contain_text(re.compile(r"\d\d:\d\d:\d\d"))
        for column in ("p50", "p99", "max"):
            await expect(page.get_by_role("columnheader", name=column)).to_be_visible()
        longest = """() => {
            const lanes = [...document.querySelectorAll('.lanes')].map((lane) =>
                Math.max(...[...lane.querySelectorAll('rect')].map((bar) => bar.x.baseVal.value + bar.width.baseVal.value)));
            return lanes.length === 4 && lanes.slice(1).every((end) => end < lanes[0] - 1);
        }"""
        await page.wait_for_function(longest)
        assert not await violations(page)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await source.close()
        await reader.close()


async def keep_renewing(engine: Engine) -> None:
    """Calls as a driver does, so that its lease does not end."""
    while True:
        await engine.renew()
        await asyncio.sleep(0.5)


LONG_NAME = "orders-of-the-eastern-warehouses-and-their-suppliers/region-north-by-north-east-0001"
UNTITLED = """() => [...document.querySelectorAll('main *')].filter((one) => {
    const hidden = getComputedStyle(one).textOverflow === 'ellipsis' && one.scrollWidth > one.clientWidth + 1;
    return hidden && !one.closest('[title]');
}).map((one) => one.outerHTML)"""


ENDS = """() => [...document.querySelectorAll('.node .long-name')].filter((one) => {
    const [end, name] = [one.lastElementChild, one.closest('.name')].map((part) => part.getBoundingClientRect());
    return end.width > 0 && end.right <= name.right + 1;
}).map((one) => one.lastElementChild.textContent)"""
"""The ends of names that are shown whole, whether or not the name is cut before."""


@pytest.mark.parametrize("width", [1440, 400])
async def test_long_names_are_whole_or_have_a_title(page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    source = LONG_NAME.partition("/")[0]
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connector, reader = Connector(address), Engine(address, streams=f"{source}/*")
        await reader.attach()
        await connector.hello(instance=f"{source}-instance-0001-of-the-first-rack")
        await connector.open(LONG_NAME, 1)
        await connector.expect("stream_opened")
        for view in ("streams", "connectors"):
            await page.goto(f"http://{http}/?view={view}")
            await expect(page.get_by_role("table").get_by_role("button", name=source)).to_be_visible()
            await page.wait_for_function(f"!({CUT})()")
            assert await page.evaluate(UNTITLED) == [], view
        await page.goto(f"http://{http}/?view=graph")
        await expect(page.locator(".node").filter(has_text=LONG_NAME)).to_be_visible()
        assert await page.evaluate(UNTITLED) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # The names of a site often differ in nothing else.
        assert LONG_NAME[-12:] in await page.evaluate(ENDS)
        await expect(page.get_by_role("link", name=f"stream {LONG_NAME}", exact=True)).to_be_visible()
        await connector.close()
        await reader.close()
