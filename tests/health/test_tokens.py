"""Tokens that are replaced or revoked while everything runs: who has an old one is named with that, until it has the new one."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.gateway.processes import gateway_process
from tests.gateway.test_rotation import until, write
from tests.health.site import DEADLINE_S, Site
from tests.health.test_drivers import START_S, started

from headrace.connectors import FileSink, FileSource
from headrace.protocol.v1 import engine_pb2, engine_pb2_grpc
from headrace.sdk import GatewayRefused, serve

APP = """
from headrace.pipelines import Pipeline

app = Pipeline("q")
app.source("lines/*", decode=bytes.decode).map(str.upper, name="shout").sink("out")
"""
OPERATOR, QUERY = "operator-1", "query-1"
RIGHTS = {
    "operator": "admin = true",
    "query": 'pipelines = ["q"]\nreads = ["*/*"]\nwrites = ["*"]',
    "source": 'sources = ["lines/*"]',
    "sink": 'sinks = ["out"]',
}
PARTS = {"source": ("connector lines", "stream lines/0"), "sink": ("connector out of sink out", "sink out")}


@dataclass(frozen=True)
class Guarded(Site):
    """A gateway with tokens, which reads them again when its configuration changes."""

    config: Path = field(kw_only=True)

    def allow(self, **secrets: Sequence[str]) -> None:
        """Lets the gateway take these tokens, and all others as at the start."""
        allow(self.config, **secrets)


def allow(config: Path, **secrets: Sequence[str]) -> None:
    taken = {"operator": [OPERATOR], "query": [QUERY], "source": ["source"], "sink": ["sink"], **secrets}
    write(config, *((name, each, RIGHTS[name]) for name, each in taken.items()), more='[http]\nlisten = "127.0.0.1:0"\n')


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    config = tmp_path / "gateway.toml"
    allow(config)
    with gateway_process("--config", config) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        yield Guarded(gateway.address, http, OPERATOR, config=config)


@asynccontextmanager
async def querying(here: Guarded) -> AsyncIterator[None]:
    """A query that reads the source, and writes to the sink."""
    bearer = (("authorization", f"Bearer {QUERY}"),)
    async with grpc.aio.insecure_channel(here.address) as channel:
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        who = engine_pb2.Pipeline(name="q", run=1, streams=["lines/*"])
        await stub.Attach(engine_pb2.AttachRequest(pipeline=who), metadata=bearer, timeout=DEADLINE_S)
        report = engine_pb2.ReportCommitsRequest(pipeline="q", run="r1", run_number=1, sinks=["out"], readers=["q"])

        async def renew() -> None:
            while True:
                with suppress(grpc.aio.AioRpcError):
                    await stub.Renew(engine_pb2.RenewRequest(pipeline=who), metadata=bearer, timeout=DEADLINE_S)
                    await stub.ReportCommits(report, metadata=bearer, timeout=DEADLINE_S)
                await asyncio.sleep(0.5)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)


async def restarted(here: Guarded, role: str, folder: Path) -> None:
    """Runs a connector with the token of its file, again whenever it was refused, as a supervisor does."""
    while True:
        connector = FileSource("lines", [folder / "0"]) if role == "source" else FileSink("out", folder / "out")
        with suppress(GatewayRefused):
            await serve(connector, gateway=here.address, token_file=folder / role)
        await asyncio.sleep(0.5)


def hold(folder: Path, role: str, secret: str) -> None:
    """Writes the token of a connector to its file."""
    (folder / role).touch(0o600)
    (folder / role).write_text(f"{secret}\n")


@pytest.mark.parametrize("role", PARTS)
async def test_a_connector_that_still_has_the_previous_token(role: str, guarded: Guarded, tmp_path: Path) -> None:
    """The gateway accepts only a new token, which reaches the connector's file later."""
    (tmp_path / "0").write_text("a line\n")
    for each in PARTS:
        hold(tmp_path, each, each)
    running = [asyncio.create_task(restarted(guarded, each, tmp_path)) for each in PARTS]
    try:
        async with querying(guarded):
            await guarded.clears(*PARTS["source"], *PARTS["sink"])
            guarded.allow(**{role: ["new"]})
            for part in PARTS[role]:
                root = PARTS[role][0]
                found = await guarded.names("refused", part, "UNAUTHENTICATED", root=root, waits="lines/0")
                assert "token that the gateway's configuration has" in found["remedy"], found
            hold(tmp_path, role, "new")
            await guarded.clears(*PARTS[role])
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def commits(folder: Path, *, after: int = 0) -> int:
    """Waits until the checkpoint has more commits; returns how many."""
    async with asyncio.timeout(START_S):
        while (count := len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))) <= after:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return count


@pytest.mark.timeout(900)
async def test_a_driver_takes_a_new_token_from_its_file_while_it_runs(guarded: Guarded, tmp_path: Path) -> None:
    """Its previous token is revoked then: the calls that began with it are made again, and nothing is wrong."""
    part, app = "pipeline q", tmp_path / "app.py"
    app.write_text(APP)
    (tmp_path / "0").write_text("first\n")
    for role, secret in (("source", "source"), ("sink", "sink"), ("query", QUERY)):
        hold(tmp_path, role, secret)
    command = [sys.executable, "-m", "headrace.cli", "run", str(app), "--checkpoint", str(tmp_path / "checkpoint")]
    command += ["--gateway", guarded.address, "--token-file", str(tmp_path / "query")]
    running = [asyncio.create_task(restarted(guarded, each, tmp_path)) for each in PARTS]

    def send(line: str) -> None:
        with (tmp_path / "0").open("a") as file:
            file.write(f"{line}\n")

    try:
        with started("driver", command, tmp_path) as driver:
            count = await commits(tmp_path)
            await guarded.clears(part)
            guarded.allow(query=[QUERY, "query-2"])
            async with grpc.aio.insecure_channel(guarded.address) as channel:
                await until(channel, "query-2", grpc.StatusCode.PERMISSION_DENIED)
                hold(tmp_path, "query", "query-2")
                guarded.allow(query=["query-2"])
                await until(channel, QUERY, grpc.StatusCode.UNAUTHENTICATED)
            send("second")
            await commits(tmp_path, after=count)
            assert driver.runs
            await guarded.clears(part)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
