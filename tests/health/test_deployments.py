"""Faults of a whole deployment, whose supervisor reports them: each is named everywhere, and is gone when it is repaired."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.json_shape import result_of
from tests.deploy.test_processes import DEPLOYMENT, Run, is_running, running
from tests.health.site import DEADLINE_S, Site

from headrace.machine.ports import free_address

GATEWAY = '[gateway]\nlisten = "127.0.0.1:0"\n'
HTTP = '[http]\nlisten = "{http}"\n'
NAME = "deploy.toml"
UNKNOWN = "\n[connectors.lines.typo]\nx = 1\n"


@dataclass(frozen=True)
class Deployed(Site):
    """The gateway of a deployment."""

    folder: Path = field(kw_only=True)
    run: Run = field(kw_only=True)

    @property
    def file(self) -> Path:
        """The file of the deployment."""
        return self.folder / NAME

    async def listed(self) -> dict[str, Any]:
        """The deployment as `headrace ps` lists it on its machine."""
        words = ("ps", "--deployment", str(self.file), "--json")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace.cli", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(DEADLINE_S):
            output, said = await process.communicate()
        assert process.returncode == 0, (output, said)
        (found,) = result_of(output.decode())["deployments"]
        assert found["deployment"] == NAME
        document: dict[str, Any] = found
        return document

    def hang_up(self) -> None:
        """Has the supervisor read its file again."""
        self.run.process.send_signal(signal.SIGHUP)


@asynccontextmanager
async def deployed(folder: Path, **variables: str) -> AsyncIterator[Deployed]:
    """A deployment of two connectors, whose gateway answers over HTTP."""
    http = free_address()
    (folder / "in").mkdir()
    (folder / "gateway.toml").write_text(HTTP.format(http=http))
    assert GATEWAY in DEPLOYMENT
    (folder / NAME).write_text(DEPLOYMENT.replace(GATEWAY, f'{GATEWAY}config = "gateway.toml"\n'))
    async with running(folder, **variables) as run:
        document = await run.until(is_running)
        reading = asyncio.create_task(_read(run))
        try:
            yield Deployed(document["gateway"], http, folder=folder, run=run)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _read(run: Run) -> None:
    """Takes what the deployment prints, so that it never waits for its reader."""
    assert run.process.stdout is not None
    while line := await run.process.stdout.readline():
        json.loads(line)


@pytest.mark.parametrize("hangs_up", [False, True], ids=["no SIGHUP", "SIGHUP"])
async def test_a_file_of_a_deployment_that_becomes_invalid(tmp_path: Path, hangs_up: bool) -> None:
    part = f"deployment {NAME}"
    async with deployed(tmp_path) as here:
        valid = here.file.read_text()
        here.file.write_text(valid + UNKNOWN)
        if hangs_up:
            here.hang_up()
        await here.names("configuration-invalid", part, "typo", waits=None)
        assert "typo" in (await here.listed())["file_fault"]
        here.file.write_text(valid)
        await here.clears(part)
        assert (await here.listed())["file_fault"] is None
