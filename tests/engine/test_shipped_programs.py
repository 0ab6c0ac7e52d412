"""The files of programs are shipped to the workers: with their folders and permissions, and again once they have changed."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine import start
from headrace.pipelines import Pipeline, ProgramError

COUNTING = Path(__file__).parents[1] / "pipelines" / "counting_program.py"
RUN = f"""#!/bin/sh
[ "$(cat data/some/mark)" = "$1" ] || exit 9
exec {sys.executable} counting_program.py
"""


def application(mark: str) -> Pipeline:
    app = Pipeline("shipped")
    lines = app.source("n/*", decode=bytes.decode).key_by(len)
    lines.stateful_program(["./bin/run", mark], state=["count"], name="count", files=["data", "counting_program.py"]).sink("out")
    return app


def test_a_program_runs_with_its_files_wherever_the_worker_is(spark: SparkSession, tmp_path: Path) -> None:
    folder, file = tmp_path / "application", tmp_path / "n" / "0"
    for path in (folder / "bin", folder / "data" / "some", file.parent):
        path.mkdir(parents=True)
    (folder / "bin" / "run").write_text(RUN)
    (folder / "bin" / "run").chmod(0o755)
    shutil.copy(COUNTING, folder)
    modes: dict[str, dict[str, Any]] = {"one": {}, "two": {"real_time": True, "trigger_interval": "200ms"}}
    for number, (mark, mode) in enumerate(modes.items()):
        (folder / "data" / "some" / "mark").write_text(mark)
        with file.open("a") as lines:
            lines.write("a\nb\ncc\n")
        with rig(spark, tmp_path) as running:
            found = running.run(application(mark), FileSource("n", [file], follow=False), folder=folder, **mode)["out"]
        assert sorted(value.split(b" n/0")[0] for value in found) == [b"1 %d" % (2 * number + more) for more in (1, 2)] + [
            b"2 %d" % (number + 1)
        ]


def test_a_query_does_not_start_without_the_program(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"the program `\./bin/run one` needs \./bin/run, .*build the program first"):
        start(application("one"), spark, tmp_path / "checkpoint", folder=tmp_path)
    assert not (tmp_path / "checkpoint").exists()
