"""Faults of an application of a deployment, on real Spark: each is named everywhere, and is gone when it is repaired."""

import asyncio
from pathlib import Path

import pytest
from tests.deploy.test_processes import DEPLOYMENT, running
from tests.health.site import Site

from headrace.machine.ports import free_address

APPLICATION = """
[application.totals]
app = "app.py"
checkpoint = "checkpoint"
master = "local[1]"
parallelism = 1
conf = { "spark.ui.enabled" = false }
"""
APP = """
import resource
from pathlib import Path

from headrace.pipelines import Pipeline

if Path("{few}").exists():
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
app = Pipeline("totals")
app.source("lines/*", decode=bytes.decode).map(str.upper, name="shout").sink("counts")
"""
STARTS_WITHIN_S = 600.0
"""How long Spark may take to start, once the supervisor starts it again, on a slow machine."""


@pytest.mark.timeout(1200)
async def test_a_driver_with_too_few_descriptors_for_its_jvm(tmp_path: Path) -> None:
    few, http, part = tmp_path / "few", free_address(), "pipeline totals"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_text("one\n")
    (tmp_path / "app.py").write_text(APP.format(few=few))
    gateway = f'[gateway]\nlisten = "{free_address()}"\nhttp_listen = "{http}"\n'
    file = tmp_path / "deploy.toml"
    file.write_text(DEPLOYMENT.replace('[gateway]\nlisten = "127.0.0.1:0"\n', gateway) + APPLICATION)
    few.touch()
    async with running(tmp_path) as run:
        document = await run.until(lambda one: one.get("gateway") is not None)
        # It must not wait for somebody who reads what it prints.
        reading = asyncio.create_task(run.until(lambda one: one.get("condition") == "runs", STARTS_WITHIN_S))
        here = Site(document["gateway"], http)
        await here.names("pipeline-fails", part, "descriptors", waits=None)
        assert not reading.done()
        few.unlink()
        await reading
        rest = asyncio.create_task(run.until(lambda _: False, STARTS_WITHIN_S))
        await here.clears(part)
        # The message that came first was not lost.
        await until_written(tmp_path / "out", b"ONE")
        rest.cancel()
        await asyncio.gather(rest, return_exceptions=True)


async def until_written(folder: Path, value: bytes) -> None:
    async with asyncio.timeout(STARTS_WITHIN_S):
        while True:
            if value in written(folder):
                return
            await asyncio.sleep(0.05)


def written(folder: Path) -> bytes:
    """The content of all files."""
    return b"".join(one.read_bytes() for one in folder.iterdir() if one.is_file())
