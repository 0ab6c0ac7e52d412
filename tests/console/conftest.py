import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright
from scripts import build_console
from tests.absent import absent
from tests.gateway.http_server import serve_http
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Connector, Engine, numbered, serve

DEADLINE_MS = 240_000


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the console's package, with what it depends on, and its pages built."""
    if shutil.which("npm") is None:
        absent("npm not installed; install Node.js 20.19 or newer to test gateway/console")
    build_console.install()
    build_console.build()
    return build_console.CONSOLE


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        absent("chromium not installed; install it to test the console: apt-get install chromium")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=DEADLINE_MS)
        yield started
        await started.close()


@pytest.fixture
async def page(browser: Browser, package: Path) -> AsyncIterator[Page]:
    """A page of 1440 pixels that reports no error of a script and no violation of the content security policy.

    The package has the check of accessibility, which each test of a page may need: it is installed for each of them.
    """
    context = await browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    context.set_default_timeout(DEADLINE_MS)
    opened = await context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None)
    yield opened
    await context.close()
    assert not errors


async def keep(writer: Writer, engine: Engine) -> None:
    """Calls as a driver does whose micro-batch takes long: without, its lease would end."""
    while True:
        await writer.report_commits()
        await engine.renew()
        await asyncio.sleep(0.5)


@dataclass(frozen=True)
class Troubled:
    """The addresses of a gateway with something in trouble."""

    address: str
    http: str


@pytest.fixture
async def troubled(troubled_site: Troubled) -> str:
    """Its HTTP address."""
    return troubled_site.http


@pytest.fixture
async def troubled_site() -> AsyncIterator[Troubled]:
    """A gateway with a sink that nobody serves, a stream that nobody reads, and a pipeline with a lag."""
    async with serve() as (gateway, address), serve_http(gateway) as http:
        writer, connector, engine = Writer(address, "r1", readers=["p"]), Connector(address), Engine(address)
        await engine.attach({})
        await connector.hello()
        await connector.open("orders/0", 1)
        await connector.expect("stream_opened")
        await connector.open("payroll/0", 2)
        await connector.send(frame=numbered(1, 1, 20))
        await engine.plan_until("orders/0", 20)
        await engine.fetch("orders/0", None, 20)
        # Now, since a query that writes to a sink that nobody serves waits ten seconds before it plans.
        await writer.report_commits()
        keeping = asyncio.create_task(keep(writer, engine))
        yield Troubled(address, http)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await connector.close()
        await writer.close()
        await engine.close()
