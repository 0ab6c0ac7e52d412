"""A gateway as a process of its own, what it says is wrong, and how long it takes to say so."""

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from tests.cli.json_shape import result_of
from tests.gateway.http_server import get
from tests.gateway.processes import GatewayProcess, gateway_process, headrace

DEADLINE_S = 120.0
"""How long a cause may take to be named on a slow machine; what it took is printed. The aim is 10 s."""
SLOW_AFTER_MS = 1_000
_CLOCKS = Path(__file__).parent / "clock"
_SHIFT = "TESTS_CLOCK_SHIFT_FILE"

Problem = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """A gateway, asked over HTTP and by the command line. Tests that share it look at parts of their own."""

    address: str
    http: str

    async def problems(self) -> dict[str, Problem]:
        """What `/readyz` lists, by part."""
        _, document = await get(self.http, "/readyz")
        return {problem["part"]: problem for problem in document["problems"]}

    async def status(self) -> dict[str, Problem]:
        """What `headrace status --json` lists, by part: the same data as in `headrace top` and in the console."""
        done = await asyncio.to_thread(headrace, "status", "--gateway", self.address, "--json")
        return {problem["part"]: problem for problem in result_of(done.stdout)["problems"]}

    async def names(self, kind: str, part: str, cause: str = "", *, root: str = "") -> Problem:
        """Waits until a part is degraded for a cause of a kind, at `/readyz` and then also in `headrace status --json`.

        Args:
            kind: The kind.
            part: The part.
            cause: What the cause contains.
            root: The part where it begins; the part itself if this is empty.
        """
        wanted = {"kind": kind, "root": root or part}
        began = time.monotonic()
        for look in (self.problems, self.status):
            found: dict[str, Problem] = {}
            while not (wanted.items() <= found.get(part, {}).items() and cause in found[part]["cause"]):
                assert time.monotonic() - began < DEADLINE_S, f"{kind} of {part} is not named: {found}"
                found = await look()
                await asyncio.sleep(0.05)
            if look == self.problems:
                print(f"{kind}: named after {time.monotonic() - began:.1f} s")
        return found[part]

    async def clears(self, *parts: str) -> None:
        """Waits until nothing is wrong with these parts, at `/readyz` and then also in `headrace status --json`."""
        began = time.monotonic()
        for look in (self.problems, self.status):
            while True:
                try:
                    found = await look()
                except (aiohttp.ClientError, json.JSONDecodeError) as error:
                    found = {part: {"cause": f"no answer: {error}"} for part in parts}
                if not found.keys() & set(parts):
                    break
                assert time.monotonic() - began < DEADLINE_S, f"still wrong: {found}"
                await asyncio.sleep(0.05)
            if look == self.problems:
                print(f"clear after {time.monotonic() - began:.1f} s")


@dataclass(frozen=True)
class OwnSite(Site):
    """A gateway that a test may stop, and whose clock it may set."""

    gateway: GatewayProcess
    shift: Path
    """The seconds by which the gateway's clock is wrong."""


@contextmanager
def site(folder: Path, listen: str = "127.0.0.1:0", http: str = "127.0.0.1:0", limits: str = "") -> Iterator[OwnSite]:
    """A gateway that calls something slow after a second, with a clock that a test may set."""
    config, shift = folder / "gateway.toml", folder / "shift"
    config.write_text(f'[http]\nlisten = "{http}"\nslow_after_ms = {SLOW_AFTER_MS}\n[limits]\n{limits}\n')
    shift.write_text("0")
    path = os.pathsep.join(filter(None, (str(_CLOCKS), os.environ.get("PYTHONPATH"))))
    with gateway_process("--config", config, "--listen", listen, environ={"PYTHONPATH": path, _SHIFT: str(shift)}) as process:
        process.wait_for_log("gateway serves HTTP")
        (served,) = re.findall(r"http://(127\.0\.0\.1:\d+)", process.log)
        yield OwnSite(process.address, served, process, shift)
