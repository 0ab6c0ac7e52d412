"""`headrace state` as a process of its own: from any folder, and on any file system that Spark's settings name."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.counting import COUNTING
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine import StoredStates, read_state, ship
from headrace.pipelines import Pipeline

PROGRAM = """
from headrace.pipelines import Pipeline
from rules_of_the_stored_application import Count, count

app = Pipeline("stored")
app.source("n/*", decode=int).key_by(lambda n: n % 7).stateful(count, Count, name="count").sink("counts")
"""


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """One of two modules, in a folder that is on the path of this process only."""
    folder = tmp_path / "application"
    folder.mkdir()
    (folder / "stored_application.py").write_text(PROGRAM)
    (folder / "rules_of_the_stored_application.py").write_text(COUNTING)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("stored_application").app
    for module in ("stored_application", "rules_of_the_stored_application"):
        sys.modules.pop(module, None)


def test_states_are_divided_anew_from_any_folder_where_only_a_setting_tells_spark_what_the_file_system_is(
    spark: SparkSession, tmp_path: Path, application: Pipeline
) -> None:
    numbers = tmp_path / "numbers"
    numbers.write_text("".join(f"{n}\n" for n in range(45)))
    ship(spark, tmp_path / "application")
    with rig(spark, tmp_path) as running:
        running.run(application, FileSource("n", [numbers], follow=False))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # A checkpoint is read where it was written, so only the new one is in a file system that nobody knows without the setting.
    mount = "fs.viewfs.mounttable.stored.link./here", f"file://{tmp_path}"
    command = [
        *(sys.executable, "-m", "headrace.cli", "state", "rescale", str(tmp_path / "application" / "stored_application.py")),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--into", "viewfs://stored/here/five", "--parallelism", "5", "--json"),
        *("--master", "local[1]", "--conf", f"spark.hadoop.{mount[0]}={mount[1]}"),
    ]
    ended = subprocess.run(command, cwd=elsewhere, env=os.environ, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["result"] == {"checkpoint": "viewfs://stored/here/five", "parallelism": 5, "keys": 7}
    assert (tmp_path / "five" / "commits" / "0").exists()
    spark.conf.set(*mount)
    try:
        new = StoredStates(spark, "viewfs://stored/here/five", application.graph)
        states = sorted((key, state.seen) for key, state in new.all("count"))
        one = new.find("count", 3)
        table = read_state(application, spark, "viewfs://stored/here/five", "count").collect()
    finally:
        spark.conf.unset(mount[0])
    assert new.committed.partitions == 5
    assert states == [(0, 7), (1, 7), (2, 7), *((n, 6) for n in range(3, 7))]
    assert one.seen == 6
    assert sorted((row.key, row.state.seen) for row in table) == states
