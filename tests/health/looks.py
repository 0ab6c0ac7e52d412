"""Wherever people and programs learn of a fault: `/readyz`, the status, the console, metrics, and why a message waits."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from tests.cli.json_shape import result_of
from tests.gateway.http_server import get
from tests.gateway.processes import headrace
from tests.gateway.wire import DEADLINE_S

from headrace.gateway_status.document import NO_FAULTS

Problem = dict[str, Any]
_SAMPLE = re.compile(r'^headrace_(problems|degraded_seconds)\{\w+="((?:[^"\\]|\\.)*)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """What all of them have to name.

    Attributes:
        part: The part that is degraded.
        kind: The kind of its first cause.
        root: The part where that begins.
        cause: A part of the cause.
        waits: The stream of a message that waits because of it; None if no message does.
    """

    part: str
    kind: str
    root: str
    cause: str
    waits: str | None

    def among(self, problems: list[Problem], part: str = "") -> Problem | None:
        """Returns this fault if the problems contain it; with a part, only as a problem of that part."""
        wanted = {"kind": self.kind, "root": self.root, **({"part": part} if part else {})}
        return next((one for one in problems if wanted.items() <= one.items() and self.cause in one["cause"]), None)


@dataclass(frozen=True)
class Asked:
    """A gateway that is asked over HTTP and by the command line."""

    address: str
    http: str
    token: str | None = None

    async def ready(self) -> list[Problem]:
        """The problems at `/readyz`, whose code agrees with them."""
        code, document = await get(self.http, "/readyz", self.token)
        found: list[Problem] = document["problems"]
        is_degraded = any(one["kind"] not in NO_FAULTS for one in found)
        assert (code, document["status"]) == ((503, "degraded") if is_degraded else (200, "ready")), document
        return found

    async def status(self) -> list[Problem]:
        """The problems that `headrace status` lists; `headrace top` reads the same data."""
        found: list[Problem] = (await self._command("status"))["problems"]
        return found

    async def console(self) -> list[Problem]:
        """The problems in the document that a page of the console is opened with."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(f"http://{self.http}/api/v1/events") as response,
        ):
            assert response.status == 200, await response.text()
            text = b""
            while b"\n\n" not in text:
                more = await response.content.readany()
                assert more, text
                text += more
        kind, _, data = (line.partition(": ")[2] for line in text.decode().partition("\n\n")[0].split("\n"))
        assert kind == "status"
        found: list[Problem] = json.loads(data)["health"]["problems"]
        return found

    async def metrics(self) -> tuple[dict[str, float], set[str]]:
        """How many parts are degraded by each kind of cause, and which are degraded."""
        _, text = await get(self.http, "/metrics", self.token)
        samples = [(name, re.sub(r"\\(.)", r"\1", label), float(value)) for name, label, value in _SAMPLE.findall(text)]
        counts = {label: value for name, label, value in samples if name == "problems"}
        return counts, {label for name, label, _ in samples if name == "degraded_seconds"}

    async def why(self, stream: str) -> tuple[list[Problem], str]:
        """What a message waits for: the oldest one that is not acknowledged, and the next one that has not arrived.

        Returns:
            The problems that `headrace why` and the console name, and what they say of a stream that nobody has yet.
        """
        _, status = await get(self.http, "/api/v1/status", self.token)
        received = [one["received"] for one in status["streams"] if one["stream"] == stream and one["received"]]
        following = [str(received[0]["sequence"] + 1)] if received else []
        problems: list[Problem] = []
        for sequence in ([], following) if following else ([],):
            query = "".join(f"&sequence={one}" for one in sequence)
            code, document = await get(self.http, f"/api/v1/unacknowledged?stream={stream}{query}", self.token)
            done = await self._run("why", stream, *sequence)
            assert (code == 200) == (done["error"] is None), (document, done)
            if code != 200:
                return [], min(document["detail"], done["error"], key=len)
            in_both = [_problems_of(document), _problems_of(done["result"])]
            shared = {(one["part"], one["kind"], one["root"]) for one in in_both[0]}
            problems += [one for one in in_both[1] if (one["part"], one["kind"], one["root"]) in shared]
        return problems, ""

    async def _command(self, *words: str) -> Any:
        return result_of(json.dumps(await self._run(*words)))

    async def _run(self, *words: str) -> dict[str, Any]:
        environ = {"HEADRACE_TOKEN": self.token} if self.token else None
        done = await asyncio.to_thread(headrace, *words, "--gateway", self.address, "--json", environ=environ)
        document: dict[str, Any] = json.loads(done.stdout)
        return document


def _problems_of(message: dict[str, Any]) -> list[Problem]:
    found = [message["problem"], *(reader["problem"] for reader in message["pipelines"])]
    return [one for one in found if one is not None]


def _documents(read: Callable[[Asked], Awaitable[list[Problem]]]) -> "Look":
    async def lacks(asked: Asked, fault: Fault) -> object:
        found = await read(asked)
        return found if fault.among(found, fault.part) is None else None

    async def still(asked: Asked, parts: frozenset[str], _: frozenset[str]) -> object:
        return [one for one in await read(asked) if one["part"] in parts] or None

    return Look(read.__name__, lacks, still)


async def _metrics_lack(asked: Asked, fault: Fault) -> object:
    counts, degraded = await asked.metrics()
    is_measured = counts.get(fault.kind, 0) >= 1 and (fault.part in degraded) == (fault.kind not in NO_FAULTS)
    return None if is_measured else (counts, degraded)


async def _metrics_still(asked: Asked, parts: frozenset[str], _: frozenset[str]) -> object:
    """Whether a gauge counts more than there is: of the faults of other tests too, each is listed."""
    counts, degraded = await asked.metrics()
    kinds = [one["kind"] for one in await asked.ready()]
    is_over = not degraded & parts and all(count == kinds.count(kind) for kind, count in counts.items())
    return None if is_over else (counts, degraded, kinds)


async def _why_lacks(asked: Asked, fault: Fault) -> object:
    if fault.waits is None:
        return None
    problems, waits = await asked.why(fault.waits)
    is_named = fault.among(problems) is not None or ("A query waits for it" in waits and fault.cause in waits)
    return None if is_named else (problems, waits)


async def _why_still(asked: Asked, parts: frozenset[str], streams: frozenset[str]) -> object:
    for stream in streams:
        problems, waits = await asked.why(stream)
        named = [one for one in problems if {one["part"], one["root"]} & parts]
        if named or "A query waits for it" in waits:
            return named, waits
    return None


@dataclass(frozen=True)
class Look:
    """One place.

    Attributes:
        place: The fault.
        lacks: Returns None once it names a fault, or what it says instead.
        still: Returns None once it names none of some parts, or what it says instead; `why` is asked of some streams.
    """

    place: str
    lacks: Callable[[Asked, Fault], Awaitable[object]]
    still: Callable[[Asked, frozenset[str], frozenset[str]], Awaitable[object]]


LOOKS = (
    _documents(Asked.ready),
    _documents(Asked.status),
    _documents(Asked.console),
    Look("metrics", _metrics_lack, _metrics_still),
    Look("why", _why_lacks, _why_still),
)
