"""Each view in a real browser, against a gateway with something in trouble."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import CONSOLE, DEADLINE_MS, Package
from tests.gateway.http_server import serve_http
from tests.gateway.test_rights import token
from tests.gateway.wire import Connector, serve

PICTURES = os.environ.get("HEADRACE_CONSOLE_PICTURES")
"""A folder, such as docs/console: the pictures of the page about the console are written there."""

expect.set_options(timeout=DEADLINE_MS)
pytestmark = pytest.mark.timeout(300)


async def violations(page: Page) -> list[Any]:
    """What axe finds to be serious or worse."""
    await page.evaluate((CONSOLE / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = await page.evaluate("axe.run(document).then(found => found.violations)")
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
async def test_every_view_is_accessible(page: Page, package: Package, troubled: str, width: int, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 800})
    texts = {"health": "no connector serves it", "graph": "micro-batch for", "timeline": "read, ", "streams": "orders/0"}
    for view, text in {**texts, "connectors": "test-0"}.items():
        await page.goto(f"http://{troubled}/?view={view}")
        await expect(page.get_by_role("main")).to_contain_text(text)
        assert not await violations(page), view
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        if PICTURES and (scheme == "light" or view == "health"):
            await page.screenshot(path=Path(PICTURES) / f"{view}{'' if scheme == 'light' else '-narrow'}.png")


async def test_health_names_the_first_cause_and_its_remedy(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/")
    sink = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="sink out"))
    await expect(sink).to_contain_text("no connector serves it")
    await expect(sink).to_contain_text("start its connector")
    await expect(sink).to_contain_text("Waits for it")


async def test_the_state_of_a_view_survives_a_reload(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=streams")
    await page.get_by_role("searchbox").fill("payroll")
    await page.get_by_role("button", name="State").click()
    await expect(page.get_by_role("table")).not_to_contain_text("orders/0")
    await page.reload()
    await expect(page.get_by_role("searchbox")).to_have_value("payroll")
    await expect(page.get_by_role("columnheader", name="State")).to_have_attribute("aria-sort", "descending")
    await expect(page.get_by_role("table")).not_to_contain_text("orders/0")


async def test_it_tells_why_a_message_is_not_acknowledged(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=timeline&message_stream=orders/0&sequence=7")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.get_by_text("in-batch").first).to_be_visible()


async def test_a_part_is_paused_and_resumed(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=streams&stream=orders/0")
    await page.get_by_role("button", name="Pause stream orders/0").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Pause", exact=True).click()
    await page.get_by_role("button", name="Resume stream orders/0").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Resume", exact=True).click()
    await expect(page.get_by_role("button", name="Pause stream orders/0")).to_be_visible()


async def test_rows_stay_and_are_stale_without_a_gateway(page: Page) -> None:
    async with serve() as (gateway, address):
        connector = Connector(address)
        async with serve_http(gateway) as http:
            await connector.hello()
            await connector.open("orders/0")
            await page.goto(f"http://{http}/?view=streams")
            await expect(page.get_by_role("table")).to_contain_text("orders/0")
        await expect(page.get_by_text("Disconnected.")).to_be_visible()
        await expect(page.get_by_role("table")).to_contain_text("orders/0")
        await connector.close()


async def test_a_token_signs_in_and_rights_decide_on_buttons(page: Page) -> None:
    tokens = [token("see", admin=True)]
    async with serve(tokens=tokens) as (gateway, _), serve_http(gateway, tokens) as http:
        gateway.stream("orders/0")
        await page.goto(f"http://{http}/?view=streams&stream=orders/0")
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).not_to_be_empty()
        await page.get_by_label("Token").fill("see")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("region", name="Stream orders/0")).to_be_visible()
        await expect(page.get_by_role("button", name="Pause stream orders/0")).to_have_count(0)
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Token")).to_be_visible()
