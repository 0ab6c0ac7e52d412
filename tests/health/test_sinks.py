"""Faults of sinks: each is named with its first cause, and is gone when it is repaired."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import psutil
import pytest
from tests.absent import absent
from tests.connectors.http.receiver import receiving
from tests.health.flows import attached, writing
from tests.health.site import Site

from headrace.connectors import FileSink
from headrace.connectors.http import HttpSink, HttpSinkParameters
from headrace.processes import OwnedProcess
from headrace.sdk import IdempotentSink, Rows, Settings, Transaction


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for little; a skip where this machine cannot have one, and a failure with CI=true."""
    if os.geteuid() != 0:
        absent("a disk of its own needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True, check=False)
    if done.returncode:
        absent(f"a disk of its own cannot be mounted: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


async def test_a_sink_that_hangs(here: Site) -> None:
    async with receiving() as receiver:
        receiver.hold = asyncio.Event()
        sink = HttpSink(HttpSinkParameters.model_validate({"url": receiver.url, "sink": "hangs"}))
        async with attached(here, sink) as writer:
            delivery = writer.deliver(0)
            await here.names("sink-slow", "sink hangs", "has not written partition 0 of batch 0", waits="hangs/0")
            receiver.hold.set()
            await here.clears("sink hangs")
            await delivery


async def test_a_receiver_that_refuses_connections_for_a_while(here: Site) -> None:
    """The receiver is named, not a slow sink, and the query waits: its part is written once the receiver is back."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # As long as nobody listens on it, connections to its port are refused.
    parameters = {"sink": "refused", "retry_seconds": 240, "max_backoff_seconds": 1}
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    sink = HttpSink(HttpSinkParameters.model_validate({"url": url, **parameters}))
    async with attached(here, sink) as writer:
        delivery = writer.deliver(0)
        part = "connector refused of sink refused"
        found = await here.names("connector-reports", "sink refused", "Cannot connect to host", root=part, waits="refused/0")
        assert found["remedy"].startswith("restore the connector's system")
        async with receiving(listener) as receiver:
            await delivery
            assert len(receiver.bodies) == 1
            await here.clears("sink refused", part)


async def test_a_sink_that_cannot_open_a_file_for_want_of_descriptors(here: Site, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli", "connector", "run", "file-sink", "--sink", "few", "--gateway", here.address]
    command += ["--path", str(tmp_path / "out"), "--format", "lines"]
    running = OwnedProcess("sink", command, tmp_path, os.environ, ends_with_parent=True)
    running.start()
    try:
        async with writing(here, "few") as writer:
            await writer.deliver(0)
            process = psutil.Process(running.pid)
            _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
            # Fewer than it has: it may have no further one.
            process.rlimit(psutil.RLIMIT_NOFILE, (4, hard))
            with pytest.raises(grpc.aio.AioRpcError):
                await writer.deliver(0, attempt="b")
            found = await here.names("sink-fails", "sink few", "Too many open files", waits="few/0")
            assert "4 of 4 descriptors of this process are in use: raise the limit (ulimit -n" in found["cause"]
            process.rlimit(psutil.RLIMIT_NOFILE, (hard, hard))
            await writer.deliver(0, attempt="c")
            await here.clears("sink few")
    finally:
        running.kill()


async def test_a_full_disk_at_the_sink(here: Site, small_disk: Path) -> None:
    sink = FileSink("full", small_disk / "out")
    async with attached(here, sink) as writer:
        with pytest.raises(grpc.aio.AioRpcError):
            await writer.deliver(0, [b"v" * 100_000])
        await here.names("sink-fails", "sink full", "No space left on device", waits="full/0")
        await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,size=8m", small_disk], check=True)
        await writer.deliver(0, [b"v" * 100_000], attempt="b")
        await here.clears("sink full", "connector full of sink full")
    sink.close()


class Folded(IdempotentSink):
    """A sink in memory."""

    name = "folded"

    def __init__(self) -> None:
        self.batches: dict[Transaction, int] = {}

    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> None:
        self.batches[transaction] = sum(map(len, rows))

    def last(self, pipeline: str) -> int | None:
        return max((each.batch for each in self.batches if each.pipeline == pipeline), default=None)

    def pipelines(self) -> list[str]:
        return [each.pipeline for each in self.batches]


async def test_a_full_disk_of_temporary_files(here: Site, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of parts that wait for their vote are on it, as far as they exceed the sink's memory."""
    async with attached(here, Folded(), Settings(hold_bytes=1)) as writer:
        monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
        with pytest.raises(grpc.aio.AioRpcError):
            await writer.deliver(0, [b"v" * 100_000])
        await here.names("sink-fails", "sink folded", f"No space left on device: '{small_disk}'", waits="folded/0")
        await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,size=8m", small_disk], check=True)
        await writer.deliver(0, [b"v" * 100_000], attempt="b")
        await here.clears("sink folded", "connector folded of sink folded")
