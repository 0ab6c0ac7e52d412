"""The views of the console with real connectors and a real query, into which faults are injected."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.console.conftest import DEADLINE_MS
from tests.console.views import keep_picture, violations
from tests.health.prices import strict
from tests.health.site import Site, site

from headrace.connectors import FileSource
from headrace.engine import start
from headrace.pipelines import Pipeline
from headrace.sdk import Outcomes, Rows, Sink, serve

pytestmark = pytest.mark.timeout(700)
expect.set_options(timeout=DEADLINE_MS)


class Gate(Sink):
    """A sink that writes nothing while it is closed."""

    name = "out"

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()

    def write(self, rows: Rows) -> Outcomes:
        self.open.wait()
        return None


def application() -> Pipeline:
    app = Pipeline("priced")
    app.source("n/*", decode=bytes.decode).map(str.strip, name="strip").map(strict, name="price").sink("out")
    return app


@asynccontextmanager
async def connected(here: Site, file: Path) -> AsyncIterator[Gate]:
    """A source that follows a file, and a sink."""
    gate, stop = Gate(), asyncio.Event()
    tasks = [asyncio.create_task(serve(one, gateway=here.address, stop=stop)) for one in (FileSource("n", [file]), gate)]
    try:
        yield gate
    finally:
        gate.open.set()
        stop.set()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def running(here: Site, spark: SparkSession, checkpoint: Path) -> AsyncIterator[StreamingQuery]:
    """The application as a query."""

    def run() -> StreamingQuery:
        return start(application(), spark, checkpoint, options={"gateway": here.address})

    query = await asyncio.to_thread(run)
    try:
        yield query
    finally:
        await asyncio.to_thread(query.stop)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that the source follows."""
    found = tmp_path / "n" / "0"
    found.parent.mkdir()
    found.write_text("good\n")
    return found


def append(file: Path, line: str) -> None:
    with file.open("a") as more:
        more.write(f"{line}\n")


@pytest.mark.in_turn(3)
async def test_a_sink_that_hangs_and_a_function_that_raises(spark: SparkSession, page: Page, file: Path, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        here = stack.enter_context(site(tmp_path))
        gate = await stack.enter_async_context(connected(here, file))
        query = await stack.enter_async_context(running(here, spark, tmp_path / "checkpoint"))
        here.gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", here.gateway.log)[-1:]

        async def show(view: str) -> None:
            await page.get_by_role("navigation").get_by_role("link", name=re.compile(f"^{view}")).click()
            await expect(page.get_by_role("heading", level=1, name=view)).to_be_visible()

        await page.goto(f"http://{http}/?view=graph")
        node = page.locator(".node")
        steps = node.filter(has_text="pipeline priced").get_by_role("listitem")
        await expect(steps).to_contain_text(["strip", "price"])
        await expect(node.filter(has_text="stream n/0")).to_contain_text("idle")
        await expect(node.filter(has_text="connector n")).to_contain_text("of credit left")

        gate.open.clear()
        append(file, "good")
        await expect(node.filter(has_text="sink out")).to_contain_text("has not written")
        await expect(node.filter(has_text="sink out")).to_contain_text("trouble")
        await expect(node.filter(has_text="stream n/0")).to_contain_text("stalled")
        await keep_picture(page, "graph")
        assert not await violations(page)
        await show("Health")
        sink = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="sink out"))
        await expect(sink).to_contain_text("sink-slow")
        await expect(sink).to_contain_text("pipeline priced")
        await show("Connectors")
        await page.get_by_role("table").get_by_role("button", name=re.compile("^out · ")).click()
        await expect(page.get_by_role("region", name=re.compile("^Connector out"))).to_contain_text("has not written")
        await keep_picture(page, "connectors")
        await show("Commit timeline")
        batches = page.get_by_role("list", name="Micro-batches, the last one first").get_by_role("listitem")
        await expect(batches.first.get_by_role("button")).not_to_contain_text("acknowledged")
        await batches.first.get_by_role("button").click()
        await expect(batches.first.get_by_role("row").filter(has_text="n/0")).to_be_visible()

        gate.open.set()
        await expect(batches.first.get_by_role("button")).to_contain_text("acknowledged")
        await keep_picture(page, "timeline")
        assert not await violations(page)
        await show("Health")
        await expect(page.get_by_role("main")).to_contain_text("All is well")

        append(file, "bad")
        pipeline = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="pipeline priced"))
        await expect(pipeline).to_contain_text("pipeline-fails")
        await expect(pipeline).to_contain_text("ValueError: no price in 'bad'")
        await show("Graph")
        await expect(node.filter(has_text="pipeline priced")).to_contain_text("trouble")
        with pytest.raises(StreamingQueryException):
            await asyncio.to_thread(query.awaitTermination, 120)
