"""An application that a program of one's own starts, in a session of its own, is the query that `headrace run` starts."""

import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.counting import COUNTING
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_value

from headrace.engine import StoredStates
from headrace.engine.applications.starting.start_retries import MAX_ATTEMPTS, start_with_retries
from headrace.pipelines import Pipeline

pytestmark = pytest.mark.timeout(900)
MESSAGES = 200
PROGRAM = """
import sys

from pyspark.sql import SparkSession
from rules_of_the_own_program import Count, count

from headrace.engine import register, start
from headrace.pipelines import Pipeline

app = Pipeline("own")
app.source("numbers/*", decode=int).key_by(lambda n: n % 7).stateful(count, Count, name="count").sink("counts")

if __name__ == "__main__":
    spark = SparkSession.builder.appName("own").master("local-cluster[1,3,1024]").getOrCreate()
    register(spark)
    start(app, spark, sys.argv[1], options={"gateway": sys.argv[2]}, available_now=True).awaitTermination()
    spark.stop()
"""
SLOW_PYTHON = """#!/bin/sh
case "$*" in *python_streaming_source_runner*) mkdir "{mark}" 2>/dev/null && exec sleep 30 ;; esac
exec "{python}" "$@"
"""
"""The first process that plans does not come up in the 10 s that Spark gives it."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """A program of two modules, in a folder that is on no path."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "rules_of_the_own_program.py").write_text(COUNTING)
    file = folder / "own_program.py"
    file.write_text(PROGRAM)
    yield file
    for module in ("own_program", "rules_of_the_own_program"):
        sys.modules.pop(module, None)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rig]:
    """A gateway, a source of numbers, and a sink."""
    world = Rig(tmp_path)
    try:
        Numbers(world.source_folder("numbers")).offer("0", MESSAGES)
        world.gateway.start()
        world.connector("numbers").start()
        world.file_sink("counts", tmp_path / "counts").start()
        yield world
    finally:
        world.dispose()


def test_a_program_of_ones_own_starts_the_query_of_headrace_run_also_where_python_is_slow(
    spark: SparkSession, tmp_path: Path, program: Path, world: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, elsewhere, checkpoint = tmp_path / "slow-python", tmp_path / "elsewhere", tmp_path / "checkpoint"
    slow.write_text(SLOW_PYTHON.format(mark=tmp_path / "mark", python=sys.executable))
    slow.chmod(0o755)
    elsewhere.mkdir()
    environ = {**os.environ, "PYSPARK_PYTHON": str(slow), "PYSPARK_DRIVER_PYTHON": str(slow), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(program), str(checkpoint), world.gateway.address]
    ended = subprocess.run(command, cwd=elsewhere, env=environ, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "mark").exists()
    assert (
        f"query own could not start: a Python process of Spark did not start within 10 s; attempt 2 of {MAX_ATTEMPTS}"
        in ended.stderr
    )

    monkeypatch.syspath_prepend(str(program.parent))
    application = importlib.import_module("own_program").app
    stored = StoredStates(spark, str(checkpoint), application.graph)
    assert stored.committed.partitions == 3, "as many as the cluster has cores, though its executors come after the session"
    expected = Counter(number_value(n) % 7 for n in range(1, MESSAGES + 1))
    assert {key: state.seen for key, state in stored.all("count")} == dict(expected)
    lines = [line for file in (tmp_path / "counts").glob("*") if file.is_file() for line in file.read_text().splitlines()]
    assert Counter(lines) == Counter(str(at) for seen in expected.values() for at in range(1, seen + 1))


def test_the_modules_of_an_application_are_those_beside_the_module_that_makes_it(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(program.parent))
    assert importlib.import_module("own_program").app.folder == program.parent
    package = program.parent / "applications"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text(PROGRAM)
    try:
        assert importlib.import_module("applications.inner").app.folder == program.parent
    finally:
        for module in ("applications", "applications.inner"):
            sys.modules.pop(module, None)
    made: dict[str, Pipeline] = {}
    exec("from headrace.pipelines import Pipeline\napp = Pipeline('no-file')", made)
    assert made["app"].folder is None


@pytest.mark.parametrize(
    ("text", "attempts"), [("Python worker failed to connect back.", MAX_ATTEMPTS), ("there is no such stream", 1)]
)
def test_only_a_start_that_python_was_too_slow_for_is_tried_again_and_not_for_ever(text: str, attempts: int) -> None:
    tried = 0

    def start() -> None:
        nonlocal tried
        tried += 1
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match=text):
        start_with_retries("own", start)  # type: ignore[arg-type]
    assert tried == attempts
