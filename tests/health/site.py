"""A gateway as a process of its own, what it says is wrong, and how long it takes to say so."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from tests.gateway.http_server import get
from tests.gateway.processes import GatewayProcess, gateway_process, headrace

DEADLINE_S = 120.0
"""How long a cause may take to be named on a slow machine; what it took is printed. The aim is 10 s."""
SLOW_AFTER_MS = 1_000


@dataclass
class Site:
    """A gateway, asked over HTTP and by the command line."""

    gateway: GatewayProcess

    @property
    def address(self) -> str:
        return self.gateway.address

    async def problems(self) -> dict[str, dict[str, Any]]:
        """What `/readyz` lists, by part."""
        self.gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", self.gateway.log)[-1:]
        _, document = await get(http, "/readyz")
        return {problem["part"]: problem for problem in document["problems"]}

    async def names(self, kind: str, part: str, cause: str = "") -> dict[str, dict[str, Any]]:
        """Waits until a part is degraded for a cause of a kind, at `/readyz` and in `headrace status --json`."""
        began, found = time.monotonic(), dict[str, dict[str, Any]]()
        while not _is_named(found, kind, part, cause):
            assert time.monotonic() - began < DEADLINE_S, f"{kind} of {part} is not named: {found}"
            await asyncio.sleep(0.05)
            found = await self.problems()
        print(f"{kind}: named after {time.monotonic() - began:.1f} s")
        return found

    async def status(self) -> dict[str, dict[str, Any]]:
        """What `headrace status --json` lists, by part."""
        done = await asyncio.to_thread(headrace, "status", "--gateway", self.address, "--json")
        return {problem["part"]: problem for problem in json.loads(done.stdout)["problems"]}

    async def is_well(self) -> None:
        """Waits until nothing is wrong."""
        began = time.monotonic()
        while True:
            try:
                if not (found := await self.problems()):
                    break
            except aiohttp.ClientError:
                found = {}
            assert time.monotonic() - began < DEADLINE_S, f"still wrong: {found}"
            await asyncio.sleep(0.05)
        print(f"clear after {time.monotonic() - began:.1f} s")


def _is_named(found: dict[str, dict[str, Any]], kind: str, part: str, cause: str) -> bool:
    return part in found and found[part]["kind"] == kind and cause in found[part]["cause"]


@asynccontextmanager
async def site(folder: Path, listen: str = "127.0.0.1:0") -> AsyncIterator[Site]:
    """A gateway that calls something slow after a second."""
    config = folder / "gateway.toml"
    config.write_text(f'[http]\nlisten = "127.0.0.1:0"\nslow_after_ms = {SLOW_AFTER_MS}\n[limits]\nquery_lease_ms = 5000\n')
    with gateway_process("--config", config, "--listen", listen) as process:
        yield Site(process)
