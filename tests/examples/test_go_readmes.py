"""The pages of the examples in Go that are read and written by PySpark: their commands and their queries run as printed."""

import os
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from scripts.generate_stubs import GO_ENVIRON
from tests.docs.pages import blocks, spans
from tests.gateway.processes import gateway_process
from tests.sdk.go.toolchain import ROOT, toolchain

pytestmark = pytest.mark.timeout(600)  # The first build compiles gRPC and SQLite.

DEADLINE_S = 300.0
BLOCKING = ".start().awaitTermination()"


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    """Go, and a gateway at the address that all programs find."""
    go = Path(toolchain("sdk/examples/go-*").go)
    with gateway_process() as gateway, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_GATEWAY", gateway.address)
        for name, value in GO_ENVIRON.items():
            patch.setenv(name, value)
        patch.setenv("PATH", f"{go.parent}{os.pathsep}{os.environ['PATH']}")
        yield


def here(text: str, folder: Path) -> str:
    """A text of a page, with a folder in place of /tmp."""
    return text.replace("/tmp/", f"{folder}/")


@contextmanager
def running(page: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the first commands of a page but the gateway, the last of which is the program."""
    gateway, *lines = blocks(page, "bash")[0].text.splitlines()
    assert gateway == "headrace gateway &"
    script = here("\n".join(["set -e", *lines]), folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["bash", "-c", script], cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def queried(page: str, spark: SparkSession, folder: Path) -> Iterator[StreamingQuery]:
    """Starts the query of a page, in this process."""
    (program,) = (block.text for block in blocks(page, "python"))
    assert program.endswith(f"{BLOCKING}\n")
    before = {query.id for query in spark.streams.active}
    exec(compile(here(program, folder).replace(BLOCKING, ".start()"), page, "exec"), {})
    (query,) = (query for query in spark.streams.active if query.id not in before)
    try:
        yield query
    finally:
        query.stop()


def until(
    condition: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path, query: StreamingQuery | None = None
) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert process.poll() is None, (folder / "log").read_text()
        assert query is None or query.isActive, query and query.exception()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)


def test_a_query_reads_the_lines_of_the_log_tail(spark: SparkSession, tmp_path: Path) -> None:
    page = "sdk/examples/go-log-tail/README.md"
    rows: dict[int, int] = {}

    def read() -> int:
        rows.update({progress["batchId"]: progress["numInputRows"] for progress in query.recentProgress})
        return sum(rows.values())

    with running(page, tmp_path) as process, queried(page, spark, tmp_path) as query:
        until(lambda: read() == 1000, process, tmp_path, query)
        (rotate,) = (span for span in spans(page) if span.startswith("mv "))
        subprocess.run(here(rotate, tmp_path), shell=True, check=True)
        until(lambda: read() == 1001, process, tmp_path, query)


def test_a_query_writes_to_the_table_of_the_sqlite_sink(spark: SparkSession, tmp_path: Path) -> None:
    page = "sdk/examples/go-sqlite-sink/README.md"
    database = tmp_path / "results.db"

    def select(what: str) -> list[str]:
        with closing(sqlite3.connect(database)) as db:
            return [value for (value,) in db.execute(f"SELECT {what}")]

    def ready() -> bool:
        return database.exists() and "messages" in select("name FROM sqlite_master")

    with running(page, tmp_path) as process:
        # A query fails where its sink is away for too long, and it is compiled first.
        until(ready, process, tmp_path)
        with queried(page, spark, tmp_path) as query:
            until(lambda: bool(select("value FROM messages")), process, tmp_path, query)
    printing = here(blocks(page, "bash")[1].text, tmp_path)
    shown = subprocess.run(shlex.split(printing), capture_output=True, text=True, check=True).stdout
    found = select("value FROM messages")
    assert sorted(found, key=int) == [str(number) for number in range(len(found))]
    assert len(shown.splitlines()) == len(found)
