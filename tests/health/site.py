"""A gateway as a process of its own, the faults that it names, and how soon it names them."""

import asyncio
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.health.looks import LOOKS, Asked, Fault, Problem

DEADLINE_S = 120.0
"""How long a cause may take to be named on a slow machine; what it took is printed. The aim is 10 s."""
SLOW_AFTER_MS = 1_000
_CLOCKS = Path(__file__).parent / "clock"
_SHIFT = "TESTS_CLOCK_SHIFT_FILE"


@dataclass(frozen=True)
class Site(Asked):
    """A gateway. Tests that share it look at parts of their own."""

    asked: dict[str, str | None] = field(default_factory=dict)
    """The stream of which it was asked why its messages wait, by the part that was degraded."""

    async def problems(self) -> dict[str, Problem]:
        """What `/readyz` lists, by part."""
        return {problem["part"]: problem for problem in await self.ready()}

    async def names(self, kind: str, part: str, cause: str = "", *, root: str = "", waits: str | None = "") -> Problem:
        """Waits until a part is degraded for a cause of a kind, at `/readyz`, and then also wherever else people look.

        Args:
            kind: The kind.
            part: The part.
            cause: A part of the cause.
            root: The part where it begins; the part itself if this is empty.
            waits: The stream of a message that waits because of it: the part itself, if this is empty; None if no message does.
        """
        if waits == "":
            assert part.startswith("stream "), f"name the stream of a message that waits because of {part}, or None"
            waits = part.removeprefix("stream ")
        self.asked[part] = waits
        fault = Fault(part, kind, root or part, cause, waits)
        began = time.monotonic()
        while (problem := fault.among(found := await self.ready(), part)) is None:
            assert time.monotonic() - began < DEADLINE_S, f"{kind} of {part} is not named: {found}"
            await asyncio.sleep(0.05)
        print(f"{kind}: named after {time.monotonic() - began:.1f} s")
        # At the same time: some faults are over soon.
        await asyncio.gather(*(self._until_none(look.place, partial(look.lacks, self, fault)) for look in LOOKS))
        return problem

    async def clears(self, *parts: str) -> None:
        """Waits until nothing is wrong with these parts, at `/readyz`, and then also wherever else people look."""
        began, streams = time.monotonic(), frozenset(self.asked.pop(part, None) for part in parts) - {None}
        for look in LOOKS:
            await self._until_none(look.place, partial(look.still, self, frozenset(parts), streams))
            if look is LOOKS[0]:
                print(f"clear after {time.monotonic() - began:.1f} s")

    async def _until_none(self, place: str, ask: Callable[[], Awaitable[object]]) -> None:
        """Waits until a place has nothing more to object."""
        began, objection = time.monotonic(), object()
        while objection is not None:
            try:
                objection = await ask()
            except (aiohttp.ClientError, json.JSONDecodeError) as error:
                objection = f"no answer: {error}"
            assert objection is None or time.monotonic() - began < DEADLINE_S, f"{place}: {objection}"
            await asyncio.sleep(0.05 if objection is not None else 0)


@dataclass(frozen=True)
class OwnSite(Site):
    """A gateway that a test may stop, and whose clock it may set."""

    gateway: GatewayProcess = field(kw_only=True)
    shift: Path = field(kw_only=True)
    """The seconds by which the gateway's clock is wrong."""


@contextmanager
def site(folder: Path, listen: str = "127.0.0.1:0", http: str = "127.0.0.1:0", limits: str = "") -> Iterator[OwnSite]:
    """A gateway that calls something slow after a second, with a clock that a test may set."""
    config, shift = folder / "gateway.toml", folder / "shift"
    config.write_text(f'[http]\nlisten = "{http}"\nslow_after_seconds = {SLOW_AFTER_MS / 1000}\n[limits]\n{limits}\n')
    shift.write_text("0")
    path = os.pathsep.join(filter(None, (str(_CLOCKS), os.environ.get("PYTHONPATH"))))
    with gateway_process("--config", config, "--listen", listen, environ={"PYTHONPATH": path, _SHIFT: str(shift)}) as process:
        process.wait_for_log("gateway serves HTTP")
        (served,) = re.findall(r"http://(127\.0\.0\.1:\d+)", process.log)
        yield OwnSite(process.address, served, gateway=process, shift=shift)
