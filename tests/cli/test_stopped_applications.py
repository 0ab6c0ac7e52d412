"""Applications on Spark that are stopped before they have begun: they end in order, as after a long run."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from headrace.machine.ports import free_address
from headrace.processes import spark_environ

APPLICATION = """
from headrace.pipelines import Pipeline

app = Pipeline("stopped")
app.source("orders/*", decode=bytes.decode).map(str.upper).sink("out")
"""
DEADLINE_S = 240.0


@pytest.mark.timeout(600)
async def test_an_application_that_waits_for_its_gateway_at_its_start_ends_in_order(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    words = ("run", "app.py", "--gateway", free_address(), "--checkpoint", "checkpoint", "--master", "local[1]")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace.cli", *words, "--conf", "spark.ui.enabled=false"),
        cwd=tmp_path,
        env=spark_environ(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said: list[str] = []
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            while "is unavailable" not in (said or [""])[-1]:
                line = await process.stdout.readline()
                assert line, said
                said.append(line.decode())
            process.send_signal(signal.SIGTERM)
            said += (await process.stdout.read()).decode().splitlines()
            assert await process.wait() == 0, said
    finally:
        if process.returncode is None:
            process.kill()
    assert not [line for line in said if "Traceback" in line or "Error" in line]
