"""Tokens that are replaced while everything runs: who still has an old one is named with that, until the new one is there."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.cli.json_shape import result_of
from tests.gateway.http_server import get
from tests.gateway.processes import gateway_process, headrace
from tests.gateway.test_rotation import write
from tests.health.site import DEADLINE_S

from headrace.connectors import FileSink, FileSource
from headrace.protocol.v1 import engine_pb2, engine_pb2_grpc
from headrace.sdk import GatewayRefused, serve

OPERATOR, QUERY = "operator-1", "query-1"
RIGHTS = {"source": 'sources = ["lines/*"]', "sink": 'sinks = ["out"]'}
PARTS = {"source": ("connector lines", "stream lines/0"), "sink": ("sink out",)}


@dataclass(frozen=True)
class Guarded:
    """A gateway with tokens, which reads them again when its configuration changes."""

    address: str
    http: str
    config: Path
    role: str

    def take(self, secret: str) -> None:
        """Lets the gateway take this token of the connector, and no other."""
        allow(self.config, self.role, secret)

    async def problems(self) -> dict[str, Any]:
        """What `/readyz` lists, by part."""
        _, document = await get(self.http, "/readyz", OPERATOR)
        return {problem["part"]: problem for problem in document["problems"]}

    async def until(self, *, wrong: bool) -> dict[str, Any]:
        """Waits until the connector and what waits for it are named, or no longer; returns the problems."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = await self.problems()
                named = [found[part] for part in PARTS[self.role] if part in found]
                if not wrong and not named:
                    return found
                if wrong and len(named) == len(PARTS[self.role]) and all("UNAUTHENTICATED" in one["cause"] for one in named):
                    return found
                await asyncio.sleep(0.1)


def allow(config: Path, role: str, secret: str) -> None:
    query = 'pipelines = ["q"]\nreads = ["*/*"]\nwrites = ["*"]'
    http = '[http]\nlisten = "127.0.0.1:0"\n'
    tokens = (("operator", [OPERATOR], "admin = true"), ("query", [QUERY], query), ("connector", [secret], RIGHTS[role]))
    write(config, *tokens, more=http)


@pytest.fixture(params=RIGHTS)
def guarded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Guarded]:
    config = tmp_path / "gateway.toml"
    allow(config, request.param, "old")
    with gateway_process("--config", config) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        yield Guarded(gateway.address, http, config, request.param)


@asynccontextmanager
async def querying(here: Guarded) -> AsyncIterator[None]:
    """A query that reads the source, or writes to the sink."""
    bearer = (("authorization", f"Bearer {QUERY}"),)
    async with grpc.aio.insecure_channel(here.address) as channel:
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        if here.role == "source":
            who = engine_pb2.Pipeline(name="q", run=1, streams=["lines/*"])
            await stub.Attach(engine_pb2.AttachRequest(pipeline=who), metadata=bearer, timeout=DEADLINE_S)
        else:
            report = engine_pb2.ReportCommitsRequest(pipeline="q", run="r1", run_number=1, sinks=["out"])
            await stub.ReportCommits(report, metadata=bearer, timeout=DEADLINE_S)
        yield


async def restarted(here: Guarded, folder: Path) -> None:
    """Runs the connector, again whenever it was refused, as a supervisor does."""
    while True:
        lines, out = folder / "0", folder / "out"
        connector = FileSource("lines", [lines]) if here.role == "source" else FileSink("out", out)
        with suppress(GatewayRefused):
            await serve(connector, gateway=here.address, token_file=folder / "token")
        await asyncio.sleep(0.5)


async def test_a_connector_that_still_has_the_previous_token(guarded: Guarded, tmp_path: Path) -> None:
    """The gateway accepts only a new token, which reaches the connector's file later."""
    (tmp_path / "0").write_text("a line\n")
    (tmp_path / "token").write_text("old\n")
    (tmp_path / "token").chmod(0o600)
    running = asyncio.create_task(restarted(guarded, tmp_path))
    try:
        async with querying(guarded):
            await guarded.until(wrong=False)
            guarded.take("new")
            found = await guarded.until(wrong=True)
            for part in PARTS[guarded.role]:
                assert "token that the gateway's configuration has" in found[part]["remedy"], found[part]
            status = await asyncio.to_thread(
                headrace, "status", "--gateway", guarded.address, "--json", environ={"HEADRACE_TOKEN": OPERATOR}
            )
            assert {problem["part"] for problem in result_of(status.stdout)["problems"]} >= set(PARTS[guarded.role]), json.dumps(
                found
            )
            _, metrics = await get(guarded.http, "/metrics", OPERATOR)
            assert f'part="{PARTS[guarded.role][0]}"' in metrics, metrics
            (tmp_path / "token").write_text("new\n")
            await guarded.until(wrong=False)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
