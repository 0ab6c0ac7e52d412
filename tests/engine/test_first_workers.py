"""An application's first micro-batch runs in Python workers that were started while it was planned."""

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.engine.applications.batches.commits import Commits
from headrace.pipelines import Pipeline
from headrace.sdk import Message, Position, Source

DEADLINE_S = 150.0
DAEMON = "headrace.engine.spark.daemon"


class Numbers(Source):
    name = "numbers"

    def read(self, partition: str, position: Position | None) -> Iterator[Message]:
        for number in range(position.sequence + 1 if position else 0, 20):
            yield Message(b"%d" % number, key=b"%d" % (number % 4), sequence=number)


def worker(_: bytes, state: dict[str, int]) -> str:
    state["n"] = 1
    return str(os.getpid())


def workers() -> set[int]:
    """The Python workers of this process's session, without their daemons."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if DAEMON in process.cmdline() and DAEMON in process.parent().cmdline():  # type: ignore[union-attr]
                found.add(process.pid)
        except (psutil.NoSuchProcess, AttributeError):
            continue
    return found


def test_the_first_micro_batch_runs_in_workers_that_were_started_before_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark starts workers for each environment, so none that another test has left is used.
    monkeypatch.setitem(spark.sparkContext.environment, "HEADRACE_TEST", uuid.uuid4().hex)
    before = workers()
    there: set[int] = set()
    begin = Commits.begin

    def noted(self: Commits, run: str | None, batch: str) -> str:
        until = time.monotonic() + DEADLINE_S
        while not there and time.monotonic() < until:
            new = workers() - before
            if len(new) >= spark.sparkContext.defaultParallelism:
                there.update(new)
            time.sleep(0.02)
        return begin(self, run, batch)

    monkeypatch.setattr(Commits, "begin", noted)
    app = Pipeline("first-workers")
    app.source("numbers/*", decode=bytes).key_by().stateful(worker, dict).sink("out")
    with rig(spark, tmp_path) as running:
        ran_in = running.run(app, Numbers(), available_now=True)["out"]
    assert there, "a worker for each core was started before the first micro-batch"
    assert len(ran_in) == 20
    assert {int(pid) for pid in ran_in} <= there
