"""`headrace run deploy.toml` with its real processes, without Spark; and what is left where it is killed itself."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
from tests.gateway.wire import Engine

from headrace.processes import lives, spark_environ
from headrace.protocol.v1.admin_pb2 import GetStatusRequest
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

DEADLINE_S = 150.0

DEPLOYMENT = """
[gateway]
listen = "127.0.0.1:0"

[connectors.lines]
connector = "file"
path = "in/*.txt"
source = "lines"

[connectors.counts]
connector = "file-sink"
path = "out"
sink = "counts"
"""


class Run:
    """A deployment that is run, and the documents that it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def until(self, condition: Callable[[dict[str, Any]], bool], within_s: float = DEADLINE_S) -> dict[str, Any]:
        """The next document that a condition is true for."""
        assert self.process.stdout is not None
        async with asyncio.timeout(within_s):
            while line := await self.process.stdout.readline():
                document: dict[str, Any] = json.loads(line)
                if condition(document):
                    return document
        raise AssertionError("it has ended")

    async def end(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.process.wait()


@asynccontextmanager
async def running(folder: Path, **variables: str) -> AsyncIterator[Run]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace.cli", "run", str(folder / "deploy.toml"), "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=spark_environ(folder) | variables,
    )
    try:
        yield Run(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def is_running(document: dict[str, Any]) -> bool:
    return document.get("condition") == "runs"


def pids(document: dict[str, Any]) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in document["processes"]}


async def restarted(name: str, gateway: str) -> dict[str, Any]:
    """Restarts a connector with the command, by the gateway, once the deployment is registered there."""
    async with grpc.aio.insecure_channel(gateway) as channel, asyncio.timeout(DEADLINE_S):
        while not (await AdminServiceStub(channel).GetStatus(GetStatusRequest())).deployments:
            pass
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headrace.cli", "restart", name, "--gateway", gateway, "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    document = json.loads(output)
    assert document["ok"], document
    result: dict[str, Any] = document["result"]
    return result


async def test_it_is_kept_running_and_stopped_in_order(tmp_path: Path) -> None:
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    async with running(tmp_path) as run:
        before = await run.until(is_running)
        assert set(pids(before)) == {"gateway", "lines", "counts"}
        os.kill(pids(before)["gateway"], signal.SIGKILL)
        degraded = await run.until(lambda document: document["condition"] == "degraded")
        assert degraded["cause"] == "gateway: killed by SIGKILL"
        after = await run.until(is_running)
        # The others have waited for it, where it was.
        assert after["gateway"] == before["gateway"]
        assert {name for name, pid in pids(after).items() if pid != pids(before)[name]} == {"gateway"}
        # The supervisor has registered again, so that a connector can be restarted from anywhere.
        result = await restarted("lines", after["gateway"])
        assert (result["state"], result["stopped_pid"], result["stopped_exit_code"]) == ("runs", pids(after)["lines"], 0)
        last = await run.until(lambda document: pids(document)["lines"] == result["pid"])
        assert {name for name, pid in pids(last).items() if pid != pids(after)[name]} == {"lines"}
        run.process.terminate()
        last = await run.until(lambda document: "command" in document)
        assert (last["ok"], last["summary"]) == (True, "stopped")
        assert await run.end() == 0


LETTER = {
    "value": "7",
    "headers": [
        {"name": "headrace-sink", "value": "totals"},
        {"name": "headrace-reason", "value": "full"},
        {"name": "headrace-stream", "value": "orders/0"},
    ],
}


async def test_dead_letters_are_replayed_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "counts-000001.jsonl").write_text(json.dumps(LETTER) + "\n")
    async with running(tmp_path) as run:
        gateway = (await run.until(is_running))["gateway"]
        engine = Engine(gateway, streams="again/*")
        await engine.attach()
        await engine.status_once(lambda status: bool(status.deployments))
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headrace.cli", "dead-letters", "replay", "counts"),
            *("--source", "again", "--gateway", gateway, "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        planned = await engine.plan_until("again/counts-000001.jsonl", 1)
        (frame,) = await engine.fetch(planned.stream, None, planned.end)
        assert (frame.count, frame.values) == (1, b"7")
        # It ends once what it has sent is acknowledged, and not before.
        assert command.returncode is None
        committed = {planned.stream: (planned.end.epoch, planned.end.sequence)}
        while command.returncode is None:
            await engine.plan(committed=committed, wait_ms=50)
        document = json.loads((await command.communicate())[0])
        assert (document["ok"], document["result"]["connector"]) == (True, "counts"), document
        await engine.close()
        run.process.terminate()
        assert await run.end() == 0


async def test_the_gateway_names_why_a_connector_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    async with running(tmp_path) as run:
        before = await run.until(is_running)
        engine = Engine(before["gateway"])
        await engine.status_once(lambda status: bool(status.deployments))
        (tmp_path / "out").rename(tmp_path / "elsewhere")
        (tmp_path / "out").write_text("in the way")
        os.kill(pids(before)["counts"], signal.SIGKILL)
        part = "connector counts of sink counts"
        status = await engine.status_once(lambda status: any("exit code" in problem.cause for problem in status.problems))
        (problem,) = (problem for problem in status.problems if problem.part == part)
        assert problem.kind == "connector-fails"
        assert str(tmp_path / "out") in problem.cause
        (tmp_path / "out").unlink()
        (tmp_path / "elsewhere").rename(tmp_path / "out")
        await engine.status_once(lambda status: not status.problems)
        await engine.close()
        run.process.terminate()
        assert await run.end() == 0


async def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    async with running(tmp_path) as first:
        before = await first.until(is_running)
        first.process.kill()
        await first.process.wait()
    # Started again at once, it waits for them: no two of a kind ever run.
    async with running(tmp_path) as second:
        await second.until(is_running)
        assert not [pid for pid in pids(before).values() if lives(pid)]
        second.process.terminate()
        assert await second.end() == 0


async def test_an_address_that_is_taken(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT.replace(":0", f":{port}"))
    async with server, running(tmp_path) as run:
        last = await run.until(lambda document: "command" in document)
        assert not last["ok"]
        assert last["error"].startswith("gateway ended with exit code 3: ")
        assert f"127.0.0.1:{port}" in last["error"]
        assert await run.end() == 3
