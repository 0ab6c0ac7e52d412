"""The overview in a real browser: what it answers in one look, its plots and their range, and what happened."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import DEADLINE_MS
from tests.console.views import keep_picture, violations
from tests.gateway.http_server import serve_http
from tests.gateway.wire import Connector, Engine, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Http
from headrace.gateway.core import Gateway
from headrace.gateway.core.state.event_log import EventKind
from headrace.gateway.core.status.history import INTERVAL_S
from headrace.gateway.observer import Observer, Recording

expect.set_options(timeout=DEADLINE_MS)

MOMENTS = 720


async def an_hour(recording: Recording, gateway: Gateway) -> None:
    """Records an hour in which the stream flows, stands still for ten minutes, and flows again."""
    stream = gateway.stream("orders/0")
    with clock.use(VirtualClock(clock.monotonic() - MOMENTS * INTERVAL_S)) as time:
        for moment in range(MOMENTS):
            time.advance(INTERVAL_S)
            stands_still = 400 <= moment < 520
            stream.received_messages += 0 if stands_still else 6_000 + 900 * (moment % 7)
            stream.tally.total = stream.received_messages
            stream.held_bytes = 2**20 * (moment % 11) + (2**25 if stands_still else 0)
            stream.backlog.messages = 120 * (moment - 399) if stands_still else moment % 40
            if moment == 400:
                gateway.event_log.add(EventKind.FAULT_BEGAN, "sink totals", "sink-away: no connector serves it")
                gateway.event_log.add(EventKind.DETACHED, "connector ledger-0 of sink totals", "session k3 has ended")
            if moment == 520:
                gateway.event_log.add(EventKind.ATTACHED, "connector ledger-0 of sink totals", "session k4 from 10.0.0.7:5112")
                gateway.event_log.add(EventKind.FAULT_ENDED, "sink totals", "sink-away, after 600 s")
            await recording.history.take()
    stream.held_bytes = 0


@asynccontextmanager
async def recorded(**config: Any) -> AsyncIterator[tuple[Gateway, str, str, Recording]]:
    """A gateway with an hour of history, its addresses, and its record."""
    async with serve() as (gateway, address):
        recording = Recording(gateway, Observer(gateway, Http()))
        await an_hour(recording, gateway)
        async with serve_http(gateway, recording=recording, **config) as http:
            yield gateway, address, http, recording


ONE_LINE = """() => [...document.querySelectorAll('.events .kind')].every((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getBoundingClientRect().height < 1.9 * parseFloat(getComputedStyle(one).fontSize);
})"""


@pytest.mark.each_value
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 400), ("dark", 400)])
async def test_it_opens_first_and_is_accessible(page: Page, width: int, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 900})
    async with recorded() as (_, address, http, _recording):
        source, reader = Connector(address), Engine(address)
        await source.hello(instance="orders-0")
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 20))
        await reader.plan_until("orders/0", 20)
        await page.goto(f"http://{http}/?range=1%20h")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await expect(page.get_by_role("region", name="Verdict")).to_contain_text("All is well")
        await expect(page.get_by_role("figure")).to_have_count(4)
        await expect(page.get_by_role("main")).to_contain_text("Longest micro-batch")
        events = page.get_by_role("list", name="What happened, the last one first").get_by_role("listitem")
        await expect(events.filter(has_text="fault ended")).to_contain_text("sink-away, after 600 s")
        await expect(events.first).to_contain_text("ago")
        assert not await violations(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate(ONE_LINE), "the mark of an event stands above its word"
        if (scheme, width) in (("light", 1440), ("dark", 400)):
            await keep_picture(page, "overview" if width == 1440 else "overview-narrow")
        await source.close()
        await reader.close()


async def test_plots_show_the_part_and_the_range_that_are_chosen(page: Page) -> None:
    async with recorded() as (gateway, _, http, recording):
        gateway.sink("totals")
        await recording.history.take()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/history?" in request.url else None)
        await page.goto(f"http://{http}/")
        await expect(page.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("button", name="1 h").click()
        await page.get_by_label("History of").select_option("sink totals")
        await expect(page.get_by_role("figure").filter(has_text="Pending transactions")).to_be_visible()
        assert any("kind=sink&name=totals&seconds=3600" in url for url in asked)
        await page.reload()
        await expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
        await expect(page.get_by_label("History of")).to_have_value("sink totals")
        await page.goto(f"http://{http}/?part=stream%20orders/0")
        await expect(page.get_by_role("figure").filter(has_text="arrival to commit")).to_be_visible()
        await page.goto(f"http://{http}/?part=stream%20none/0")
        await expect(page.get_by_role("main")).to_contain_text("there is no history of stream 'none/0'")


async def test_a_plot_draws_its_line_and_the_mark_of_a_fault(page: Page) -> None:
    async with recorded() as (_, _address, http, _recording):
        await page.goto(f"http://{http}/?range=1%20h")
        plot = page.get_by_role("figure").filter(has_text="Lag in messages")
        await expect(plot).to_contain_text(re.compile(r"max 14,400"))
        await expect(plot.locator("canvas")).to_have_count(1)
        colours = """(canvas) => {
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            let blue = 0, red = 0;
            for (let at = 0; at < data.length; at += 4) {
                const [r, g, b, a] = data.slice(at, at + 4);
                if (a > 128 && b > 180 && r < 90) blue += 1;
                if (a > 128 && r > 150 && g < 70 && b < 70) red += 1;
            }
            return blue > 100 && red > 20;
        }"""
        await expect(plot.locator("canvas")).to_be_visible()
        handle = await plot.locator("canvas").element_handle()
        await page.wait_for_function(colours, arg=handle)


async def test_a_fault_is_named_first_with_the_way_to_its_remedy(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/")
    verdict = page.get_by_role("region", name="Verdict")
    await expect(verdict).to_contain_text("in trouble")
    await expect(verdict).to_contain_text("sink out")
    await verdict.get_by_role("link", name=re.compile("^Remedy")).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Health")


async def test_links_lead_to_the_pages_that_are_configured(page: Page) -> None:
    config = {"prometheus_url": "https://prometheus.example:9090/graph", "spark_url": "http://spark.example:4040"}
    async with recorded(**config) as (_, _address, http, _recording):
        await page.goto(f"http://{http}/")
        await expect(page.get_by_role("link", name="Prometheus")).to_have_attribute("href", config["prometheus_url"])
        await expect(page.get_by_role("link", name="Spark")).to_have_attribute("href", config["spark_url"])
    async with recorded() as (_, _address, http, _recording):
        await page.goto(f"http://{http}/")
        await expect(page.get_by_role("figure").first).to_be_visible()
        await expect(page.get_by_role("link", name="Prometheus")).to_have_count(0)


async def test_a_thousand_streams_and_an_hour_are_shown(page: Page) -> None:
    async with serve() as (gateway, _):
        for number in range(1_000):
            gateway.stream(f"orders/{number}")
        recording = Recording(gateway, Observer(gateway, Http()))
        for _ in range(3):
            await recording.history.take()
        async with serve_http(gateway, recording=recording) as http:
            await page.goto(f"http://{http}/")
            await expect(page.get_by_role("region", name="Verdict")).to_contain_text("1,000 streams")
            await expect(page.get_by_role("figure")).to_have_count(4)
