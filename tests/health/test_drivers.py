"""Faults of drivers, which are processes here: each is named with its first cause, and is gone when it is repaired."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import grpc.aio
import psutil
import pytest
from tests.health.site import Site, site

from headrace.connectors import FileSink, FileSource, SinkFormat
from headrace.processes import OwnedProcess
from headrace.protocol.v1.admin_pb2 import GetStatusRequest
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub
from headrace.sdk import serve

APP = """
from headrace.pipelines import Pipeline

app = Pipeline("{name}")
app.source("{name}/*", decode=bytes.decode).map(str.upper, name="shout").sink("{name}")
"""

PLAIN = """
from headrace.engine import build_session

messages = build_session("plain", "local[1]").readStream.format("headrace").option("gateway", "{gateway}")
query = messages.option("stream", "{name}/*").option("pipeline", "{name}").load().writeStream.format("noop")
query.option("checkpointLocation", "{checkpoint}").start().awaitTermination()
"""

START_S = 300.0
"""How long Spark may take to start on a slow machine."""

pytestmark = pytest.mark.timeout(600)


@asynccontextmanager
async def files(here: Site, name: str, folder: Path) -> AsyncIterator[Path]:
    """A source that follows a file, and a sink, both of a name; yields what the sink writes to."""
    (folder / name).mkdir()
    (folder / name / "0").write_text("good\n")
    source = FileSource(name, [folder / name / "0"])
    sink = FileSink(name, folder / "out", SinkFormat.LENGTH_PREFIXED)
    stop = asyncio.Event()
    tasks = [asyncio.create_task(serve(one, gateway=here.address, stop=stop)) for one in (source, sink)]
    try:
        yield folder / "out"
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        sink.close()


def write_another(folder: Path, name: str) -> None:
    """Writes a message that waits, until its driver continues."""
    with (folder / name / "0").open("a") as file:
        file.write("another\n")


@contextmanager
def driver(here: Site, name: str, folder: Path, log: str) -> Iterator[OwnedProcess]:
    """A driver in the checkpoint of the folder, as a process."""
    app = folder / f"{name}_app.py"
    app.write_text(APP.format(name=name))
    command = [sys.executable, "-m", "headrace.cli", "run", str(app), "--checkpoint", str(folder / "checkpoint")]
    with started(log, [*command, "--gateway", here.address], folder) as running:
        yield running


@contextmanager
def started(log: str, command: Sequence[str], folder: Path) -> Iterator[OwnedProcess]:
    running = OwnedProcess(log, command, folder, os.environ, ends_with_parent=True)
    running.start()
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def frozen(driver: OwnedProcess) -> Iterator[None]:
    """Stops a driver and its JVM. Not the planner, which is a process of its own and renews the lease."""
    first = psutil.Process(driver.pid)
    with stopped([first, *(one for one in first.children(recursive=True) if "java" in one.name())]):
        yield


@contextmanager
def frozen_planner(driver: OwnedProcess) -> Iterator[None]:
    """Stops the Python processes that a driver's JVM has started, one of which plans. The driver itself reports."""
    jvms = [one for one in psutil.Process(driver.pid).children(recursive=True) if "java" in one.name()]
    with stopped([one for jvm in jvms for one in jvm.children(recursive=True)]):
        yield


@contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    assert processes
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


async def until_committed(folder: Path) -> None:
    async with asyncio.timeout(START_S):
        while not list((folder / "checkpoint" / "commits").glob("[0-9]*")):  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.1)


async def test_a_driver_that_is_frozen(here: Site, tmp_path: Path) -> None:
    part = "pipeline frozen"
    async with files(here, "frozen", tmp_path):
        with driver(here, "frozen", tmp_path, "driver") as running:
            await until_committed(tmp_path)
            await here.clears(part)
            with frozen(running):
                write_another(tmp_path, "frozen")
                found = await here.names("pipeline-silent", part, "its driver no longer reports", waits="frozen/0")
                assert "frozen" in found["remedy"]
            await here.clears(part)


async def test_a_planner_that_is_frozen(tmp_path: Path) -> None:
    """The driver's reports renew the lease: only the planner's own calls show that it works."""
    part = "pipeline planner"
    (tmp_path / "site").mkdir()
    with site(tmp_path / "site", limits="query_lease_seconds = 20") as here:
        async with files(here, "planner", tmp_path):
            with driver(here, "planner", tmp_path, "driver") as running:
                await until_committed(tmp_path)
                await here.clears(part)
                with frozen_planner(running):
                    write_another(tmp_path, "planner")
                    cause = "the process that plans its micro-batches no longer calls"
                    await here.names("pipeline-silent", part, cause, waits="planner/0")
                await here.clears(part)


async def test_a_driver_that_is_frozen_as_soon_as_its_query_without_a_sink_has_attached(here: Site, tmp_path: Path) -> None:
    part, app = "pipeline plain", tmp_path / "plain_app.py"
    app.write_text(PLAIN.format(name="plain", gateway=here.address, checkpoint=tmp_path / "checkpoint"))
    async with files(here, "plain", tmp_path):
        with started("driver", [sys.executable, str(app)], tmp_path) as running:
            async with asyncio.timeout(START_S):
                while not await is_attached(here, "plain"):  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(0.1)
            with frozen(running):
                await here.names("pipeline-silent", part, "its driver no longer reports", waits="plain/0")
            await until_committed(tmp_path)
            await here.clears(part)


async def is_attached(here: Site, pipeline: str) -> bool:
    async with grpc.aio.insecure_channel(here.address) as channel:
        status = await AdminServiceStub(channel).GetStatus(GetStatusRequest(), timeout=START_S)
    return any(one.attached for one in status.pipelines if one.pipeline == pipeline)


async def test_a_second_driver_on_the_same_checkpoint(here: Site, tmp_path: Path) -> None:
    part = "pipeline second"
    async with files(here, "second", tmp_path):
        with driver(here, "second", tmp_path, "first"):
            await until_committed(tmp_path)
            await here.clears(part)
            with driver(here, "second", tmp_path, "other"):
                async with asyncio.timeout(START_S):
                    while (await here.problems()).get(part, {}).get("kind") != "second-driver":  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                found = await here.names("second-driver", part, "two drivers use its checkpoint", waits=None)
                assert "stop one of the two" in found["remedy"]
                await here.clears(part)
