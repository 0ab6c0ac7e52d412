"""An operator's walk through the console, while parts of a real deployment are refused, freeze and are killed."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect
from tests.connectors.http.receiver import Receiver, receiving
from tests.console.conftest import DEADLINE_MS
from tests.deploy.test_processes import is_running, pids, running
from tests.docs.pages import blocks

expect.set_options(timeout=DEADLINE_MS)

DEPLOYMENT = """
[gateway]
listen = "127.0.0.1:0"
http_listen = "127.0.0.1:0"

[connectors.lines]
connector = "file"
path = "in/*.txt"
source = "lines"

[connectors.counts]
connector = "http-sink"
url = "{url}"
sink = "counts"
retry_seconds = 600
max_backoff_seconds = 1

[pipeline]
app = "app.py"
master = "local[2]"
parallelism = 1
conf = {{ "spark.ui.enabled" = false }}
"""
START_S = 300.0
"""Within which Spark starts and attaches, on a machine with other work to do."""


@asynccontextmanager
async def port() -> AsyncIterator[socket.socket]:
    """A port of our own, at which connections are refused until somebody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


async def http_of(folder: Path) -> str:
    """The HTTP address of a deployment's gateway, from its log."""
    async with asyncio.timeout(START_S):
        while True:
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", await asyncio.to_thread(log_of, folder)):
                return found[1]
            await asyncio.sleep(0.2)


def log_of(folder: Path) -> str:
    """The log of a deployment's gateway."""
    return "".join(log.read_text(errors="replace") for log in folder.glob("deploy.run/**/gateway.log"))


async def until_received(receiver: Receiver, count: int) -> None:
    async with asyncio.timeout(START_S):
        while len(receiver.bodies) < count:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.1)


def happened(page: Page, kind: str, part: str) -> Locator:
    """The events of a kind of a part, the last one first."""
    events = page.get_by_role("list", name="What happened, the last one first").get_by_role("listitem")
    return events.filter(has_text=kind).filter(has_text=part)


@pytest.mark.timeout(1800)
@pytest.mark.in_turn(2)
async def test_the_overview_names_the_first_cause_and_afterwards_what_happened(page: Page, tmp_path: Path) -> None:
    lines, program = tmp_path / "in" / "lines.txt", blocks("README.md", "python")[-1].text
    lines.parent.mkdir()
    lines.write_text("")
    (tmp_path / "app.py").write_text(program)
    verdict = page.get_by_role("region", name="Verdict")

    async def well() -> None:
        await expect(verdict).to_contain_text("All is well")

    async with port() as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/in"
        (tmp_path / "deploy.toml").write_text(DEPLOYMENT.format(url=url))
        async with running(tmp_path) as run:
            http = await http_of(tmp_path)
            await page.goto(f"http://{http}/")
            processes = pids(await run.until(is_running, START_S))
            # Nobody reads what it prints from now on; it must not wait for that.
            drained = asyncio.create_task(run.until(lambda _: False, 1800))
            await well()

            # A receiver that refuses connections: not the pipeline that waits for it is named, and for how long.
            with lines.open("a") as file:
                file.write("one two\n")
            await expect(verdict).to_contain_text("Cannot connect to host")
            await expect(verdict).to_contain_text(re.compile(r"connector counts of sink counts for \d"))
            await expect(happened(page, "fault began", "connector counts of sink counts").first).to_contain_text("Cannot connect")
            async with receiving(bound) as receiver:
                await until_received(receiver, 2)
                await well()
                ended = happened(page, "fault ended", "connector counts of sink counts").first
                await expect(ended).to_contain_text(re.compile(r"connector-reports, after \d+ s"))
                await expect(ended).to_contain_text("ago")

                # A connector that is frozen.
                os.kill(processes["lines"], signal.SIGSTOP)
                try:
                    await expect(verdict).to_contain_text(re.compile(r"connector lines for \d"))
                    await expect(happened(page, "fault began", "connector lines").first).to_contain_text("connector-silent")
                finally:
                    os.kill(processes["lines"], signal.SIGCONT)
                await well()
                await expect(happened(page, "fault ended", "connector lines").first).to_contain_text("connector-silent, after")

                # A connector that is killed: its supervisor starts it again.
                os.kill(processes["counts"], signal.SIGKILL)
                await expect(happened(page, "restarted", "process counts of deploy.toml")).to_contain_text("killed by SIGKILL")
                await expect(happened(page, "detached", "connector counts of sink counts").first).to_be_visible()
                await expect(happened(page, "attached", "connector counts of sink counts")).to_have_count(2)
                await well()
                await page.get_by_role("link", name="Processes").click()
                row = page.get_by_role("table", name="Processes").get_by_role("row").filter(has_text="counts · deploy.toml")
                await expect(row).to_contain_text(re.compile(r"over\s*.+ ago .*killed by SIGKILL"))
                await expect(row.locator(".restarts")).to_have_text("1")

                # What flows after all of that: nothing is lost, and nothing written twice.
                with lines.open("a") as file:
                    file.write("one two\n")
                await until_received(receiver, 4)
                run.process.terminate()
                assert await run.end() == 0
                await asyncio.gather(drained, return_exceptions=True)
                assert sorted(receiver.bodies) == [b"one 1", b"one 2", b"two 1", b"two 2"]
