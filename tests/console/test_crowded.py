"""Every view in light and dark, wide and narrow, with names and errors that are as long as people make them."""

from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import DEADLINE_MS
from tests.console.test_operating import CUT, UNTITLED
from tests.console.views import violations
from tests.gateway.crowded import INSTANCE, PIPELINE, PROCESS, STREAM, crowded

expect.set_options(timeout=DEADLINE_MS)

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
WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')].filter(
    (one) => one.getBoundingClientRect().right > innerWidth && !one.closest('.scroll, .table')).map((one) => one.outerHTML)"""
"""What is wider than the window, if the page is."""


@pytest.mark.each_value
@pytest.mark.parametrize("width", [1440, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_cut_and_no_page_is_wider_than_the_window(page: Page, scheme: Any, width: int) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 900})
    async with crowded() as site:
        found: dict[str, Any] = {}
        for view, text in VIEWS.items():
            await page.goto(f"http://{site.http}/?view={view}")
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
