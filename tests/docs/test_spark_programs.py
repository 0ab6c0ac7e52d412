"""The Spark programs of the pages run as they are printed, with a gateway, and sources that feed them."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.docs.pages import blocks, codes, table, text
from tests.gateway.processes import gateway_process

from headrace.engine import start
from headrace.pipelines import Message, Trial

DEADLINE_S = 150.0

ORDERS = """
import sys
from headrace.sdk import Message, Source, run


class Orders(Source):
    name = "orders"

    def read(self, partition, position):
        first = position.sequence + 1 if position else 1
        for n in range(first, 31):
            yield Message(b"x" * n, key=b"customer %d" % (n % 3), sequence=n)


sys.exit(run(Orders()))
"""


@pytest.fixture(scope="module", autouse=True)
def gateway() -> Iterator[None]:
    """A gateway, which is the one that programs find by default."""
    with gateway_process() as gateway, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_GATEWAY", gateway.address)
        yield


@contextmanager
def source(program: str) -> Iterator[subprocess.Popen[str]]:
    """A source in a process of its own, at the gateway of the environment."""
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def run(program: str, folder: Path, checkpoint: str = "") -> dict[str, object]:
    """Runs a Spark program in this process, with its checkpoint in a folder; returns its variables."""
    if checkpoint:
        assert f'"{checkpoint}"' in program
        program = program.replace(f'"{checkpoint}"', repr(str(folder / "checkpoint")))
    names: dict[str, object] = {}
    exec(compile(program, "program", "exec"), names)
    return names


def test_the_readme_of_the_engine_reads_the_source_of_the_readme_of_the_sdk(spark: SparkSession, tmp_path: Path) -> None:
    (countdown,) = (block.text for block in blocks("sdk/python/README.md", "python"))
    reading, writing = (block.text for block in blocks("engine/README.md", "python"))
    compile(writing, "engine/README.md", "exec")
    with source(countdown) as process:
        run(reading, tmp_path, "checkpoint")
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, errors) == (0, "in the checkpoint: 10\nthe source is closed\n")


def test_the_readme_s_application_counts_the_words_of_its_source(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, application = (block.text for block in blocks("README.md", "python"))
    # Workers that other tests share keep the modules that they have imported, so this one has a name of its own.
    (tmp_path / "readme_application.py").write_text(application)
    monkeypatch.syspath_prepend(str(tmp_path))
    sink = ["headrace", "connector", "run", "stdout-sink", "--sink", "counts"]
    command = [str(Path(sys.executable).with_name(sink[0])), *sink[1:]]
    with source(lines) as feeding, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as printing:
        try:
            app = importlib.import_module("readme_application").app
            start(app, spark, str(tmp_path / "checkpoint"), available_now=True).awaitTermination()
            _, errors = feeding.communicate(timeout=DEADLINE_S)
            printing.terminate()
            printed, _ = printing.communicate(timeout=DEADLINE_S)
        finally:
            printing.kill()
            sys.modules.pop("readme_application", None)
    assert (feeding.returncode, errors) == (0, "in the checkpoint: 3\n")
    assert "prints `tick 1`, `tock 1`, up to `tick 3` and `tock 3`" in text("README.md")
    assert sorted(printed.splitlines()) == ["tick 1", "tick 2", "tick 3", "tock 1", "tock 2", "tock 3"]


def test_the_application_of_the_readme() -> None:
    _, application = (block.text for block in blocks("README.md", "python"))
    names: dict[str, Any] = {"__name__": "app"}
    exec(application, names)
    trial = Trial(names["app"])
    trial.send(Message(b"to be or not To be", stream="lines/0"))
    assert trial.values("counts") == [b"to 1", b"be 1", b"or 1", b"not 1", b"To 2", b"be 2"]


def test_the_programs_of_the_page_for_spark(spark: SparkSession, tmp_path: Path) -> None:
    counting, registering = (block.text for block in blocks("docs/write/spark.md", "python"))
    with source(ORDERS) as process:
        query = run(counting, tmp_path, "checkpoints/totals")["query"]
        assert isinstance(query, StreamingQuery)
        deadline = time.monotonic() + DEADLINE_S
        while process.poll() is None and query.isActive and time.monotonic() < deadline:
            query.awaitTermination(1)
        assert process.returncode == 0, query.exception()
        query.stop()
    totals = {row["customer"]: row["sum(size)"] for row in spark.table("totals").collect()}
    assert totals == {f"customer {k}": sum(n for n in range(1, 31) if n % 3 == k) for k in range(3)}

    orders = run(registering, tmp_path)["orders"]
    assert isinstance(orders, DataFrame)
    assert orders.isStreaming
    assert orders.columns == [codes(row[0])[0] for row in table("docs/write/spark.md", "Columns")]
