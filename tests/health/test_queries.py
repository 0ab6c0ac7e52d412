"""Faults of queries on Spark: each is named with its first cause, and is gone when it is repaired."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.absent import absent
from tests.health.prices import lenient, priced, strict
from tests.health.site import Site

from headrace.connectors import FileSink, FileSource, SinkFormat
from headrace.engine import start
from headrace.sdk import serve

END_S = 300
"""How long a query may take to fail, in seconds."""


@asynccontextmanager
async def files(here: Site, name: str, folder: Path) -> AsyncIterator[Path]:
    """A source that follows a file, and a sink, both of a name; yields the file."""
    file = folder / name / "0"
    file.parent.mkdir()
    file.write_text("good\n")
    sink = FileSink(name, folder / "out", SinkFormat.LENGTH_PREFIXED)
    stop = asyncio.Event()
    tasks = [asyncio.create_task(serve(one, gateway=here.address, stop=stop)) for one in (FileSource(name, [file]), sink)]
    try:
        yield file
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        sink.close()


async def test_a_function_that_raises_for_ever(spark: SparkSession, here: Site, tmp_path: Path) -> None:
    def run(price: Callable[[str], str]) -> StreamingQuery:
        return start(priced("raises", price), spark, tmp_path / "checkpoint", options={"gateway": here.address})

    part = "pipeline raises"
    async with files(here, "raises", tmp_path) as file:
        query = await asyncio.to_thread(run, strict)
        with file.open("a") as more:
            more.write("bad\n")
        # It names the first error, also while a supervisor starts the query again and again.
        for _ in range(2):
            found = await here.names("pipeline-fails", part, "ValueError: no price in 'bad'", waits="raises/0")
            assert "in strict" in found["cause"]
            with pytest.raises(StreamingQueryException):
                await asyncio.to_thread(query.awaitTermination, 60)
            query = await asyncio.to_thread(run, strict)
        with pytest.raises(StreamingQueryException):
            await asyncio.to_thread(query.awaitTermination, 60)
        query = await asyncio.to_thread(run, lenient)
        await here.clears(part)
        await asyncio.to_thread(query.stop)


async def test_a_function_that_does_not_return(spark: SparkSession, here: Site, tmp_path: Path) -> None:
    """It is named by its step, and what has failed the run before is no longer."""
    part, flag = "pipeline endless", tmp_path / "runs"
    flag.touch()

    def endless(line: str) -> str:
        while line == "bad" and flag.exists():
            time.sleep(0.01)
        return line

    def run(price: Callable[[str], str]) -> StreamingQuery:
        return start(priced("endless", price), spark, tmp_path / "checkpoint", options={"gateway": here.address})

    async with files(here, "endless", tmp_path) as file:
        query = await asyncio.to_thread(run, strict)
        with file.open("a") as more:
            more.write("bad\n")
        await here.names("pipeline-fails", part, "ValueError: no price in 'bad'", waits="endless/0")
        with pytest.raises(StreamingQueryException):
            await asyncio.to_thread(query.awaitTermination, END_S)
        query = await asyncio.to_thread(run, endless)
        try:
            found = await here.names("batch-stuck", part, "a function has been running for", waits="endless/0")
            assert "price" in found["cause"]
            assert "ValueError" not in found["cause"]
            assert found["remedy"].startswith("if the function does not return by itself, stop the application")
        finally:
            flag.unlink()
        await here.clears(part)
        await asyncio.to_thread(query.stop)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for little; a skip where this machine cannot have one."""
    if os.geteuid() != 0:
        absent("a disk of its own needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], capture_output=True, text=True, check=False)
    if done.returncode:
        absent(f"a disk of its own cannot be mounted: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path) -> Path:
    """Takes all room of a disk; returns the file that fills it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(4096))
    return filler


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Leaves no room on a disk."""
    filler = fill(disk)
    yield
    filler.unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Lets nobody write to a disk, as a file system does that has found an error."""
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


@pytest.mark.parametrize(("fault", "said"), [(full, "No space left on device"), (read_only, "Read-only file system")])
async def test_a_disk_of_a_checkpoint_that_takes_nothing(
    fault: Callable[[Path], AbstractContextManager[None]],
    said: str,
    spark: SparkSession,
    here: Site,
    small_disk: Path,
    tmp_path: Path,
) -> None:
    name, checkpoint = f"checkpoint-{fault.__name__}".replace("_", "-"), small_disk / "checkpoint"
    part = f"pipeline {name}"

    def run() -> StreamingQuery:
        return start(priced(name), spark, checkpoint, options={"gateway": here.address})

    async with files(here, name, tmp_path) as file:
        query = await asyncio.to_thread(run)
        await asyncio.to_thread(query.processAllAvailable)
        await here.clears(part)
        with fault(small_disk):
            with file.open("a") as more:
                more.write("good\n")
            found = await here.names("pipeline-fails", part, said, waits=f"{name}/0")
            assert str(checkpoint) in found["cause"]
            assert found["remedy"].startswith("make room on the storage that the error names, repair it")
            with pytest.raises(StreamingQueryException):
                await asyncio.to_thread(query.awaitTermination, END_S)
        query = await asyncio.to_thread(run)
        await asyncio.to_thread(query.processAllAvailable)
        await here.clears(part)
        await asyncio.to_thread(query.stop)


@pytest.fixture
def disk_of_commits(tmp_path: Path) -> Iterator[Path]:
    """A disk that holds nothing but the commit log of a checkpoint; a skip where this machine cannot have one."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze"))):
        absent("a disk that can be frozen needs root, mkfs.ext4 and fsfreeze; run: apt-get install e2fsprogs util-linux")
    image, commits = tmp_path / "disk", tmp_path / "checkpoint" / "commits"
    commits.mkdir(parents=True)
    with image.open("wb") as empty:
        empty.truncate(8 * 2**20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, commits]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            absent(f"a disk of its own cannot be mounted: {done.stderr.strip()}")
    (commits / "lost+found").rmdir()
    yield commits
    subprocess.run(["umount", "--lazy", commits], check=True)


async def test_a_slow_commit_log(spark: SparkSession, here: Site, disk_of_commits: Path, tmp_path: Path) -> None:
    part = "pipeline slow"
    async with files(here, "slow", tmp_path) as file:
        query = start(priced("slow"), spark, tmp_path / "checkpoint", options={"gateway": here.address})
        try:
            await asyncio.to_thread(query.processAllAvailable)
            await here.clears(part)
            with frozen(disk_of_commits):
                with file.open("a") as more:
                    more.write("good\n")
                await here.names("commit-slow", part, "its commit log lacks it", waits="slow/0")
            await here.clears(part)
        finally:
            await asyncio.to_thread(query.stop)


@contextmanager
def frozen(disk: Path) -> Iterator[None]:
    """Has whatever writes to a disk wait until the end of the block."""
    subprocess.run(["fsfreeze", "--freeze", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
