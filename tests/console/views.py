"""What the tests of views share: the check of accessibility, and the pictures of the page about the console."""

import os
from pathlib import Path
from typing import Any

from playwright.async_api import Page
from scripts.build_console import CONSOLE

PICTURES = os.environ.get("HEADRACE_CONSOLE_PICTURES")
"""A folder, such as docs/run/console: the pictures of the page about the console are written there."""


async def violations(page: Page) -> list[Any]:
    """What axe finds to be serious or worse."""
    await page.evaluate((CONSOLE / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = await page.evaluate("axe.run(document).then(found => found.violations)")
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


async def keep_picture(page: Page, name: str) -> None:
    """Writes a picture of the page, if pictures are wanted."""
    if PICTURES:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png")
